// Rules that printing and reading of graphs as text share; see text.h.
//
// Thread rule: pure functions.
#ifndef TROUPE_GRAPH_IR_TEXT_FORM_H_
#define TROUPE_GRAPH_IR_TEXT_FORM_H_

#include "troupe/op_def.h"

namespace troupe {

// The characters of a word: those of names, and '>'.
inline bool IsTextNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '/' || c == '-' || c == '\\' || c == '>';
}

// True when the number of a node's inputs tells the lengths of its lists: it has one list, or all
// have one length.
inline bool ListsHaveOneLength(const OpDef& op) {
  const ArgDef* first = nullptr;
  for (const ArgDef& arg : op.inputs) {
    if (!arg.IsList()) continue;
    if (first == nullptr) first = &arg;
    if (arg.number_attr != first->number_attr || arg.type_list_attr != first->type_list_attr) return false;
  }
  return true;
}

}  // namespace troupe

#endif  // TROUPE_GRAPH_IR_TEXT_FORM_H_
