// A list of tensors that lives as long as its step: what loops read their inputs from and write
// their results to, element by element.
//
// Each element is written once; reading gives it away when the array clears after reads. The
// gradient of an array is another array of the same step, found by (array, source): there, writes
// to one element add up, so that an element that was read twice gets the sum of both gradients.
//
// A gradient array can be differentiated in its turn, by an array of another source: each of its
// writes gets what was written to that element there, and each of its reads writes there. What
// orders the one orders the other: their flows.
//
// Shapes: an element must fit the array's element shape; with identical shapes the first write
// makes that exact. An element that was never written reads as zeros when the element shape is
// fully known, or when it is the gradient of an element that was written.
//
// Thread rule: all methods are thread safe.
#ifndef TROUPE_KERNELS_CONTROL_TENSOR_ARRAY_H_
#define TROUPE_KERNELS_CONTROL_TENSOR_ARRAY_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/resource.h"

namespace troupe::control {

class TensorArray : public Resource {
 public:
  struct Options {
    DType dtype = DType::kInvalid;
    PartialTensorShape element_shape;
    bool dynamic_size = false;
    bool clear_after_read = true;
    bool identical_element_shapes = false;
    bool sum_writes = false;  // a gradient
  };
  TensorArray(std::string name, int64_t size, const Options& options)
      : name_(std::move(name)), options_(options), elements_(static_cast<size_t>(size)) {}
  // The array of the gradients of `of`: of the size, and with elements of the shapes, that this one
  // has now.
  TensorArray(std::string name, const TensorArray& of);

  const std::string& name() const { return name_; }
  DType dtype() const { return options_.dtype; }
  int64_t size() const;
  PartialTensorShape element_shape() const;

  // INVALID_ARGUMENT: another dtype, an index out of range of an array of fixed size, a shape that
  // does not fit, an element that was written or read before. RESOURCE_EXHAUSTED: no memory for a
  // sum.
  absl::Status Write(int64_t index, Tensor value);
  // INVALID_ARGUMENT: an index out of range, an element that was cleared by a read, or never
  // written while the element shape is not known. RESOURCE_EXHAUSTED: no memory for zeros.
  absl::StatusOr<Tensor> Read(int64_t index);
  // The elements, each in its own place of the result. As Read.
  absl::StatusOr<std::vector<Tensor>> ReadAll(absl::Span<const int32_t> indices);
  // Drops the elements; later calls are INVALID_ARGUMENT.
  void Close();
  std::string DebugString() const override;
  void VisitTensors(const std::function<void(const Tensor&)>& visit) const override;

 private:
  struct Element {
    Tensor value;
    std::optional<TensorShape> shape;  // once written, or that of what it is the gradient of
    bool written = false, read = false, cleared = false;
  };
  absl::StatusOr<Tensor> ReadLocked(int64_t index);
  const std::string name_;
  Options options_;
  mutable std::mutex mu_;
  std::vector<Element> elements_;
  bool closed_ = false;
};

// The container of a step's resources in which its arrays are.
inline constexpr char kTensorArrays[] = "tensor_arrays";

// Output 0 is the array's handle, output 1 a new flow.
void SetArrayOutputs(KernelContext& ctx, std::string key, std::shared_ptr<TensorArray> array);
// The scalar int32 input `i`, called `what` in errors.
absl::StatusOr<int32_t> ScalarInput(const KernelContext& ctx, int i, const char* what);
// A float scalar: flows carry no value, they order what happens to an array.
Tensor NewFlow();

// In a gradient function: the array of the gradients of the array that is input 0, reached after
// `flow`. Handle, then flow. One call of the gradient builder makes one array of each array;
// another call makes another.
struct GradientArray {
  NodeOut handle, flow;
};
GradientArray GradientArrayOf(GradientContext& g, NodeOut flow);

}  // namespace troupe::control

#endif  // TROUPE_KERNELS_CONTROL_TENSOR_ARRAY_H_
