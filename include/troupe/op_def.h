// Op definitions and their registry.
//
// An op is defined once, in its own file under kernels/ (or in a test), by a chain that reads like
// the op's documentation:
//
//   TROUPE_OP("Relu")
//       .Input("features: T").Output("activations: T")
//       .Attr("T: {float, double, int32} = DT_FLOAT")
//       .Shape(shape_fn::Unchanged)
//       .Gradient([](GradientContext& g) { g.Set(0, g.Op("ReluGrad", {g.Grad(0), g.Output(0)})); return g.status(); })
//       .Doc("max(features, 0), element by element.");
//
// The mini-language of Input, Output and Attr is TensorFlow's (the comments of its
// OpDef): an arg is "name: T" (attr T), "name: float", "name: N * T" (a list by number attr),
// "name: Tlist" (a list by type-list attr), each also in Ref(...); an attr is "name: kind", with
// kind one of string int float bool type shape tensor func, list(kind), {a, b, ...}, numbertype,
// realnumbertype, then ">= minimum", then "= default". Every op either has a Gradient or says
// NotDifferentiable("why"); the registry refuses one that does neither.
//
// Thread rule: registration happens before main or under the registry's lock; look-ups are thread
// safe; an OpDef never changes or dies.
#ifndef TROUPE_OP_DEF_H_
#define TROUPE_OP_DEF_H_

#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/attr_value.h"
#include "troupe/export.h"
#include "troupe/status.h"

namespace TROUPE_EXPORT troupe {

class InferenceContext;
class GradientContext;
using ShapeFn = absl::Status (*)(InferenceContext&);
using GradientFn = absl::Status (*)(GradientContext&);

struct ArgDef {
  std::string name;
  DType type = DType::kInvalid;  // fixed type, or:
  std::string type_attr;         // attr of kind type, or
  std::string number_attr;       // with type or type_attr: a list of that many, or
  std::string type_list_attr;    // a list with these types
  bool is_ref = false;
  bool IsList() const { return !number_attr.empty() || !type_list_attr.empty(); }
};

struct AttrDef {
  std::string name;
  std::string kind;          // "int", "list(type)", ...
  AttrValue default_value;   // none: has_value() is false
  bool has_minimum = false;  // of an int, or of a list's length
  int64_t minimum = 0;
  std::vector<DType> allowed_types;          // empty: any
  std::vector<std::string> allowed_strings;  // empty: any
};

// What a node does to the frame and iteration of the tokens that pass through it (whitepaper
// section 4.4). Anything else is kNone. The executor and the passes ask for this trait, never for
// an op's name.
enum class ControlFlow : uint8_t { kNone, kSwitch, kMerge, kEnter, kExit, kNextIteration, kLoopCond, kControlTrigger };
// Other traits that passes and the executor ask for.
enum class OpTrait : uint64_t {
  kStateful = 1 << 0,  // must not be folded, merged or run twice
  kCommutative = 1 << 1,
  kAggregate = 1 << 2,
  kAllowsUninitializedInput = 1 << 3,  // its ref inputs may be uninitialised variables
  kSend = 1 << 4,                      // hands its input to another part
  kRecv = 1 << 5,                      // gets its output from another part
  kConstant = 1 << 6,                  // its output is attr "value"
  kPlaceholder = 1 << 7,               // must be fed
  kVariable = 1 << 8,                  // its output names a variable
  kArgument = 1 << 9,                  // its output is value attr "index" of what the caller hands in
  kResult = 1 << 10,                   // its input is value attr "index" of what the caller gets
  kUnknown = 1 << 11,                  // of a node that was imported though its op does not exist here
  // Its output 0 is the value of its input 0, and nothing else happens: with one input and output
  // the executor does not call the kernel, and gradients look through the node.
  kForwardsInput = 1 << 12,
  kReadsOnlyShape = 1 << 13,    // its outputs follow from its inputs' shapes alone; such an op may be:
  kShape = 1 << 25,             // output i is the shape of input i, a vector of int32 or int64
  kSize = 1 << 26,              // output 0 is how many elements input 0 has, an int32 or int64
  kRank = 1 << 27,              // output 0 is how many dimensions input 0 has, an int32 or int64
  kZeros = 1 << 28,             // output 0 is zeros, with the dtype and shape of input 0
  kIgnoresReference = 1 << 14,  // neither reads nor writes the variables that its inputs refer to
  kNoGradientFlows = 1 << 15,   // no gradient flows to any input; set by Gradient(NoGradientFlows)
  kPassesGradient = 1 << 29,    // the gradient of input 0 is that of output 0, as it is
  kReadsVariable = 1 << 24,     // its output 0 is the value of the variable that input 0 names
  kTableHandle = 1 << 30,       // its output 0 is the handle of a table of keys and values
  // Stacks of values that live as long as a step: output 0 is the handle of a new one; input 1 is
  // put on the stack of input 0, and handed on; output 0 is taken off the stack of input 0. For
  // gradients, what is put on and what is taken off are one edge.
  kStackHandle = 1 << 21,
  kStackPush = 1 << 22,
  kStackPop = 1 << 23,
  // Its output 0 is the handle of an array of tensors whose gradient follows the array's flow, a
  // number: no gradient flows through the handle. Attr "source", if it has one, names the call for
  // gradients that the array belongs to.
  kArrayHandle = 1 << 16,
  // What steps do with resources that make them wait for each other: a snapshot of a session's
  // state goes by these. Its output 0 is the handle of such a resource: a queue, a barrier, an
  // accumulator. An op that gets the handle takes elements, and may wait until another step puts
  // some in, unless it has one of the next two.
  kElementsHandle = 1 << 17,
  kPutsElements = 1 << 18,  // others may wait for what it does: it puts elements in, or closes
  kNeverWaits = 1 << 19,    // for elements, or for room
  kNoEffect = 1 << 20,      // though it is stateful, no later step sees whether it ran
  // Its output 0 has the elements of its input 0 in their order, under another shape perhaps: the
  // same memory.
  kSharesInput = uint64_t{1} << 31,
  // A step may feed its output 0, though it has an input: nothing may look through it, nor compute
  // it a second time.
  kMayBeFed = uint64_t{1} << 32,
  kReusesInput = uint64_t{1} << 33,  // output 0 may be written into an input of its size that nobody else uses
};

struct OpDef {
  std::string name;
  std::vector<ArgDef> inputs, outputs;
  std::vector<AttrDef> attrs;
  uint64_t traits = 0;
  ControlFlow control_flow = ControlFlow::kNone;
  ShapeFn shape_fn = nullptr;  // null: every output has an unknown shape
  GradientFn gradient = nullptr;
  std::string not_differentiable;  // why there is no gradient
  std::string doc;
  int deprecated_since = 0;  // graph version; 0 = not deprecated
  std::string deprecation;

  bool Has(OpTrait t) const { return (traits & static_cast<uint64_t>(t)) != 0; }
  bool stateful() const { return Has(OpTrait::kStateful); }
  const AttrDef* FindAttr(std::string_view attr) const;
};

// Nothing is inline: every op file has a chain of these calls.
class OpBuilder {
 public:
  explicit OpBuilder(std::string_view name);
  OpBuilder(const OpBuilder&);
  OpBuilder& operator=(const OpBuilder&);
  ~OpBuilder();
  OpBuilder& Input(std::string_view spec);
  OpBuilder& Output(std::string_view spec);
  OpBuilder& Attr(std::string_view spec);
  OpBuilder& Stateful() { return Trait(OpTrait::kStateful); }
  OpBuilder& Commutative() { return Trait(OpTrait::kCommutative); }
  OpBuilder& Aggregate() { return Trait(OpTrait::kAggregate); }
  OpBuilder& AllowsUninitializedInput() { return Trait(OpTrait::kAllowsUninitializedInput); }
  OpBuilder& Trait(OpTrait t);
  OpBuilder& Flow(ControlFlow c);
  OpBuilder& Shape(ShapeFn f);
  OpBuilder& Gradient(GradientFn f);
  OpBuilder& NotDifferentiable(std::string_view why);
  OpBuilder& Doc(std::string_view doc);
  OpBuilder& Deprecated(int since, std::string_view why);
  // Parses the specs. INVALID_ARGUMENT names the op and the spec that is wrong.
  absl::StatusOr<OpDef> Finish() const;

 private:
  OpDef def_;
  std::vector<std::string> inputs_, outputs_, attrs_;
};

class OpRegistry {
 public:
  // The registry that TROUPE_OP fills before main.
  static OpRegistry& Global();

  // ALREADY_EXISTS for a second definition of a name; INVALID_ARGUMENT for a bad one.
  absl::Status Register(const OpBuilder& builder);
  // Null when there is no such op.
  const OpDef* Find(std::string_view name) const;
  // NOT_FOUND "there is no op 'Foo'", with the nearest names.
  absl::StatusOr<const OpDef*> LookUp(std::string_view name) const;
  // All ops, sorted by name.
  std::vector<const OpDef*> List() const;

  struct TROUPE_HIDDEN Impl;

 private:
  friend struct OpRegistrar;
  OpRegistry();
  std::unique_ptr<Impl> impl_;
};

struct OpRegistrar {
  OpRegistrar(const OpBuilder& builder);  // NOLINT: the macro assigns
};
#define TROUPE_OP(name) \
  [[maybe_unused]] static const ::troupe::OpRegistrar TROUPE_CONCAT(troupe_op_, __COUNTER__) = ::troupe::OpBuilder(name)

// The types in TensorFlow's classes of types, for kernels and tests.
const std::vector<DType>& NumberTypes();
const std::vector<DType>& RealNumberTypes();

// Checks `attrs` against `op`: every attr present or defaulted (defaults are added), kinds,
// minimums and allowed values. Attrs that begin with '_' are let through; others that the op does
// not know are INVALID_ARGUMENT.
absl::Status ValidateAttrs(const OpDef& op, AttrMap* attrs);
// The types of the inputs (outputs) of a node with these attrs, lists expanded. `is_ref` args give
// reference types.
absl::Status ArgTypes(const std::vector<ArgDef>& args, const AttrMap& attrs, std::vector<DType>* types);
// First and past-the-last flat index of arg `i` given the attrs.
absl::StatusOr<std::pair<int, int>> ArgRange(const std::vector<ArgDef>& args, const AttrMap& attrs,
                                             std::string_view arg);

}  // namespace troupe

#endif  // TROUPE_OP_DEF_H_
