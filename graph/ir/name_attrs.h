// Attrs that name nodes of the same graph; an import under other names renames these, too.
//
// Thread rule: constants.
#ifndef TROUPE_GRAPH_IR_NAME_ATTRS_H_
#define TROUPE_GRAPH_IR_NAME_ATTRS_H_

namespace troupe {

// Of a node without inputs and outputs: it runs after these nodes (a list of names) in every step
// that needs them for something else. A control edge would make the step need them.
inline constexpr char kAfterAttr[] = "_after";
// Of a node that computes again what another does, for gradients: the other's name, in a list.
inline constexpr char kRecomputesAttr[] = "_recomputes";

}  // namespace troupe

#endif  // TROUPE_GRAPH_IR_NAME_ATTRS_H_
