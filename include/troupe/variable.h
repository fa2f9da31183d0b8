// Variables: tensors that live between steps.
//
//   Variable w(scope.WithOpName("w"), Const(scope, {{0.5f}, {0.25f}}));  // nodes w, w/Assign, w/Read
//   Output y = ops::MatMul(scope, x, w);               // a Variable is an Output: its value, read once in a step
//   Output slope = Gradients(scope, {y}, {w})[0];      // with respect to the variable, however it is read
//   Output after = w.AssignSub(scope, 0.1f * slope);   // the value afterwards
//   Operation init = GlobalVariablesInitializer(scope);
//   absl::Status status = session->Extend(*scope.graph());
//   if (status.ok()) status = session->Run({}, {}, {init}, nullptr);  // before anything else
//
// Kinds. With use_resource (the default) the variable is a VarHandleOp: a read is a snapshot that
// later updates do not change. Otherwise the variable is a VariableV2 with a reference edge: reads
// go through an Identity, as in graphs of TensorFlow 1.
//
// The value is set by its initializer, run by GlobalVariablesInitializer, LocalVariablesInitializer
// or VariablesInitializer; reading before that is FAILED_PRECONDITION naming the variable. dtype
// and shape are those of the initial value unless the options say otherwise.
//
// Collections of the graph list variables by the name of their node: "variables" (all global ones),
// "local_variables", "trainable_variables". A variable can be found again from that name (Find),
// also in a graph that was imported, since its parts have fixed names below its own: <name>/Assign,
// <name>/Read.
//
// A Variable that is made inside of a While or Cond is built outside of it, where its initializer
// can run; its initial value must come from outside, too.
//
// Source of the semantics: section 2 of TensorFlow's white paper ("Variables"), tf.Variable and
// tf.get_variable's use_resource.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_VARIABLE_H_
#define TROUPE_VARIABLE_H_

#include <string>
#include <string_view>
#include <vector>

#include "troupe/export.h"
#include "troupe/scope.h"

namespace TROUPE_EXPORT troupe {

inline constexpr char kGlobalVariables[] = "variables";
inline constexpr char kLocalVariables[] = "local_variables";
inline constexpr char kTrainableVariables[] = "trainable_variables";

struct VariableOptions {
  std::string name;               // else WithOpName's, else "Variable"
  DType dtype = DType::kInvalid;  // else the initial value's
  PartialTensorShape shape;       // else the initial value's
  bool trainable = true;          // also listed in "trainable_variables"
  std::vector<std::string> collections = {kGlobalVariables};
  bool use_resource = true;
  std::string container;    // else the scope's
  std::string shared_name;  // else the node's name
};

// The Output that it is, is the value.
class Variable : public Output {
 public:
  Variable() = default;
  Variable(const ScopeAt& at, const Input& initial_value, const VariableOptions& options = {});
  // The variable whose handle or reference node has this name. The scope's error (and an invalid
  // Variable) when there is none.
  static Variable Find(const ScopeAt& at, std::string_view name);

  bool is_resource() const { return handle_.valid() && handle_.dtype() == DType::kResource; }
  // The resource handle, or the reference.
  const Output& handle() const { return handle_; }
  // The name of its node: "fc1/w".
  std::string variable_name() const { return handle_.valid() ? handle_.node()->name() : std::string(); }
  DType variable_dtype() const { return dtype_; }
  const PartialTensorShape& variable_shape() const { return shape_; }
  // Sets the initial value. Invalid for an imported variable that has none.
  const Operation& initializer() const { return initializer_; }
  const Output& initial_value() const { return initial_value_; }

  // A read of its own, here: after the scope's control dependencies.
  Output Read(const ScopeAt& at) const;
  // Updates by a value of the variable's dtype; AssignAdd and AssignSub by one of its shape. The
  // result is the value after the update; depending on it, or running it, runs the update. A shape
  // that does not fit is INVALID_ARGUMENT, of the scope where it is known, else of the step;
  // AssignAdd and AssignSub of a variable without a value are FAILED_PRECONDITION.
  Output Assign(const ScopeAt& at, const Input& value) const;
  Output AssignAdd(const ScopeAt& at, const Input& delta) const;
  Output AssignSub(const ScopeAt& at, const Input& delta) const;
  // A bool scalar.
  Output IsInitialized(const ScopeAt& at) const;

 private:
  Output Update(const ScopeAt& at, const char* name, const char* resource_op, const char* ref_op,
                const Input& value) const;
  Output handle_, initial_value_;
  Operation initializer_;
  DType dtype_ = DType::kInvalid;
  PartialTensorShape shape_;
};

// The variables of a collection, in order of creation.
std::vector<Variable> VariablesIn(const ScopeAt& at, std::string_view collection);

// One operation that runs the initializers of these variables, of all global ones, of all local
// ones; named "init" unless WithOpName says otherwise.
Operation VariablesInitializer(const ScopeAt& at, const std::vector<Variable>& variables);
Operation GlobalVariablesInitializer(const ScopeAt& at);
Operation LocalVariablesInitializer(const ScopeAt& at);
// The names of the variables that have no value yet, a string vector.
Output ReportUninitializedVariables(const ScopeAt& at, const std::vector<Variable>& variables);
// Of all global and local ones.
Output ReportUninitializedVariables(const ScopeAt& at);

}  // namespace troupe

#endif  // TROUPE_VARIABLE_H_
