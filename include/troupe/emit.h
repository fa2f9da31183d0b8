// The one place where a builder call becomes a node: the generated builders call Emit, and so do
// those that are written by hand (Const, Variable, Cond, ...).
//
// Emit checks the inputs, turns literals into Const nodes of the type that the op's other inputs
// ask for, brings values of outer loops and branches into the scope's own (Enter, Switch), names
// the node, gives it device, container, colocation, control edges and source line, and infers its
// shapes.
//
// ArgRef and AttrRef are borrowed views: they make a call site a few stores, so that hundreds of
// generated builders compile in seconds.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_EMIT_H_
#define TROUPE_EMIT_H_

#include <initializer_list>
#include <string_view>
#include <vector>

#include "troupe/export.h"
#include "troupe/scope.h"

namespace TROUPE_EXPORT troupe {

struct ArgRef {
  ArgRef(const Input& i) : input(&i) {}     // NOLINT
  ArgRef(const InputList& l) : list(&l) {}  // NOLINT
  const Input* input = nullptr;
  const InputList* list = nullptr;
};

class AttrRef {
 public:
  template <class T>
  AttrRef(const char* name, const T& value)
      : name_(name), value_(&value), make_([](const void* v) { return AttrValue(*static_cast<const T*>(v)); }) {}
  const char* name() const { return name_; }
  AttrValue Make() const { return make_(value_); }

 private:
  const char* name_;
  const void* value_;
  AttrValue (*make_)(const void*);
};

// The new node as an Operation; invalid (and the scope has an error) when it could not be built.
Operation Emit(const ScopeAt& at, const char* op, std::initializer_list<ArgRef> args,
               std::initializer_list<AttrRef> attrs = {});
// As Emit, for calls that are made at run time. Attrs that follow from the inputs' types and number
// may be left out.
Operation EmitOp(const ScopeAt& at, std::string_view op, const std::vector<Input>& args, AttrMap attrs = {});
// For list args: each arg one InputList (of one element for a single arg).
Operation EmitLists(const ScopeAt& at, std::string_view op, const std::vector<InputList>& args, AttrMap attrs = {});

// The indices of all axes of `input`, for a reduction over all of them: int32, a literal where the
// rank is known, else the nodes axes/Rank and axes/Range.
Input AllAxes(const ScopeAt& at, const Input& input);

// The Output that `input` is, or a Const of its literal (a weak one converted to `hint`, unless
// that is kInvalid).
Output AsOutput(const ScopeAt& at, const Input& input, DType hint = DType::kInvalid);

// Outputs [first, first + count) as a list.
OutputList OutputsOf(const Operation& op, int first, int count);
// The outputs that belong to output arg `arg` of the op's definition, a list or one.
OutputList OutputsOf(const Operation& op, std::string_view arg);
Output OutputOf(const Operation& op, std::string_view arg);

}  // namespace troupe

#endif  // TROUPE_EMIT_H_
