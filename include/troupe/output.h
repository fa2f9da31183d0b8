// What graph builders take and return: Output (one tensor of the graph), Operation (one node),
// Input (an Output or a literal) and InputList.
//
// An Output is a cheap handle: node, output index and the scope it was built in, which is what lets
// `a + b` build without naming a scope (troupe/operators.h). A builder call that failed returns an
// invalid Output; handing it on is harmless, since every builder call after the first error does
// nothing.
//
// A literal becomes a Const node when the op that takes it is built. Plain C++ literals (2, 0.5,
// {1, 2}) are weak: they take the type that the op's other inputs ask for where they can be
// represented in it (integers in every numeric type, floating point in floating and complex types);
// without such a hint they keep their C++ type (int -> int32, double -> float64). A Tensor is
// always taken as it is.
//
// Source of the semantics: tf.Tensor and tf.Operation; what literals become follows
// tf.convert_to_tensor, with the types of C++.
//
// Thread rule: as the Scope they come from: one thread at a time.
#ifndef TROUPE_OUTPUT_H_
#define TROUPE_OUTPUT_H_

#include <concepts>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/export.h"
#include "troupe/graph.h"
#include "troupe/tensor.h"

namespace troupe::internal {
struct ScopeState;
}

namespace TROUPE_EXPORT troupe {

class Output {
 public:
  Output() = default;
  Output(NodeOut out,
         std::shared_ptr<const internal::ScopeState> scope = nullptr)  // NOLINT: a NodeOut is an Output without a scope
      : out_(out), scope_(std::move(scope)) {}

  bool valid() const { return out_.node != nullptr; }
  Node* node() const { return out_.node; }
  int index() const { return out_.index; }
  // kInvalid for an invalid Output. A variable's reference has a reference type.
  DType dtype() const { return valid() ? out_.dtype() : DType::kInvalid; }
  // "fc1/MatMul:0"; "" for an invalid Output.
  std::string name() const { return valid() ? out_.ToString() : std::string(); }
  // What is known of the shape without running the graph.
  PartialTensorShape shape() const;
  template <class S>
  PartialTensorShape shape(const S& scope) const {
    return scope.ShapeOf(*this);
  }

  NodeOut out() const { return out_; }
  operator NodeOut() const { return out_; }  // NOLINT
  const std::shared_ptr<const internal::ScopeState>& scope_state() const { return scope_; }
  // Of a Variable, and of each Output that is a copy of one: the variable's handle or reference.
  // Invalid for others, also for a variable's other reads. It is how Gradients tells "with respect
  // to the variable" from "with respect to this read".
  NodeOut variable() const { return variable_; }

 protected:
  void set_variable(NodeOut handle) { variable_ = handle; }

 private:
  NodeOut out_, variable_;
  std::shared_ptr<const internal::ScopeState> scope_;
};

using OutputList = std::vector<Output>;

// A node as a whole: something to run, or to depend on.
class Operation {
 public:
  Operation() = default;
  explicit Operation(Node* node, std::shared_ptr<const internal::ScopeState> scope = nullptr)
      : node_(node), scope_(std::move(scope)) {}
  Operation(const Output& out) : Operation(out.node(), out.scope_state()) {}  // NOLINT: the node that makes it

  bool valid() const { return node_ != nullptr; }
  Node* node() const { return node_; }
  std::string name() const { return valid() ? node_->name() : std::string(); }
  int num_outputs() const { return valid() ? node_->num_outputs() : 0; }
  // Invalid for an index out of range.
  Output output(int i) const { return i >= 0 && i < num_outputs() ? Output({node_, i}, scope_) : Output(); }
  const std::shared_ptr<const internal::ScopeState>& scope_state() const { return scope_; }

 private:
  Node* node_ = nullptr;
  std::shared_ptr<const internal::ScopeState> scope_;
};

// A C++ type that can be an element of a literal.
template <class T>
concept LiteralElement = std::integral<T> ||(requires { DTypeOfImpl<T>::kValue; } && !std::same_as<T, ResourceHandle>);

// A scalar, a nested list of scalars, or a tensor. Lists must be rectangular; in a list of integers
// and floating point numbers the integers follow.
class Literal {
 public:
  template <LiteralElement T>
  Literal(const T& v) : value_(Tensor::Scalar(Widen(v))) {}  // NOLINT: literals are meant to convert
  // Templates, so that a 0 in braces is a list with a number and no null pointer to characters
  // (compilers differ there).
  template <std::same_as<char> T>
  Literal(const T* v) : value_(Tensor::Scalar(v)) {}  // NOLINT
  template <std::same_as<std::string_view> T>
  Literal(T v) : value_(Tensor::Scalar(std::string(v))) {}  // NOLINT
  Literal(const Tensor& v) : value_(v), weak_(false) {      // NOLINT
    if (!v.valid()) error_ = InvalidArgument("a tensor without a value was given");
  }
  Literal(std::initializer_list<Literal> list) { SetList(list); }  // NOLINT
  // A vector, with the type of its elements.
  template <LiteralElement T>
  Literal(const std::vector<T>& v)  // NOLINT
      : value_(kDTypeOf<decltype(Widen(T{}))>, TensorShape({static_cast<int64_t>(v.size())})), weak_(false) {
    auto* to = value_.data<decltype(Widen(T{}))>();
    for (const auto& x : v) *to++ = x;
  }

  const Tensor& value() const { return value_; }
  // True for C++ literals, whose type may still be chosen.
  bool weak() const { return weak_; }
  // Not OK for a ragged or mixed list.
  const absl::Status& error() const { return error_; }

 private:
  template <class T>
  static auto Widen(const T& v) {
    if constexpr (std::is_integral_v<T> && !requires { DTypeOfImpl<T>::kValue; }) {
      return static_cast<int64_t>(v);  // long long and its kin
    } else {
      return v;
    }
  }
  void SetList(std::initializer_list<Literal> list);
  Tensor value_;
  bool weak_ = true;
  absl::Status error_;
};

class Input {
 public:
  Input(const Output& out) : out_(out) {}  // NOLINT: outputs and literals are meant to convert
  Input(NodeOut out) : out_(out) {}        // NOLINT
  Input(const Literal& literal) : literal_(std::make_shared<const Literal>(literal)) {}  // NOLINT
  template <LiteralElement T>
  Input(const T& v) : Input(Literal(v)) {}  // NOLINT
  template <LiteralElement T>
  Input(const std::vector<T>& v) : Input(Literal(v)) {}  // NOLINT
  template <std::same_as<char> T>
  Input(const T* v) : Input(Literal(v)) {}  // NOLINT
  template <std::same_as<std::string_view> T>
  Input(T v) : Input(Literal(v)) {}                                     // NOLINT
  Input(const Tensor& v) : Input(Literal(v)) {}                         // NOLINT
  Input(std::initializer_list<Literal> list) : Input(Literal(list)) {}  // NOLINT

  // Null for an Output.
  const Literal* literal() const { return literal_.get(); }
  const Output& out() const { return out_; }
  // The dtype of the Output or of the literal as written.
  DType dtype() const { return literal_ ? literal_->value().dtype() : out_.dtype(); }

 private:
  Output out_;
  std::shared_ptr<const Literal> literal_;
};

class InputList {
 public:
  InputList(std::initializer_list<Input> list) : inputs_(list) {}                    // NOLINT
  InputList(std::vector<Input> list) : inputs_(std::move(list)) {}                   // NOLINT
  InputList(const std::vector<Output>& list) : inputs_(list.begin(), list.end()) {}  // NOLINT
  InputList(const Output& single) : inputs_{Input(single)} {}                        // NOLINT

  size_t size() const { return inputs_.size(); }
  auto begin() const { return inputs_.begin(); }
  auto end() const { return inputs_.end(); }
  const Input& operator[](size_t i) const { return inputs_[i]; }

 private:
  std::vector<Input> inputs_;
};

// `value` with elements of `dtype`. INVALID_ARGUMENT when it is no number, or one that `dtype`
// cannot represent (a fraction as an integer, an integer out of range, anything but a bool as a
// bool).
absl::StatusOr<Tensor> ConvertLiteral(const Tensor& value, DType dtype);

}  // namespace troupe

#endif  // TROUPE_OUTPUT_H_
