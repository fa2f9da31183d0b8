#include "kernels/control/tensor_array.h"

#include "kernels/state/variable_owner.h"
#include "troupe/gradient_function.h"

namespace troupe::control {

namespace {

// a + b; both have the same numeric type and shape.
absl::StatusOr<Tensor> Sum(const Tensor& a, const Tensor& b) {
  Buffer* bytes = IsPlainBytes(a.dtype()) ? a.buffer()->Another(a.bytes(), BufferKind::kPlain) : nullptr;
  if (bytes == nullptr && IsPlainBytes(a.dtype()))
    return ResourceExhausted("no memory for a sum of shape ", a.shape().DebugString());
  Tensor sum = bytes == nullptr ? Tensor() : Tensor(a.dtype(), a.shape(), bytes);
  const bool done = VisitNumeric(a.dtype(), false, [&]<class T>() {
    if constexpr (std::is_same_v<T, bool>) {
      return false;
    } else {
      const T *x = a.data<T>(), *y = b.data<T>();
      T* z = sum.data<T>();
      for (int64_t i = 0, n = a.num_elements(); i < n; ++i) z[i] = static_cast<T>(x[i] + y[i]);
      return true;
    }
  });
  if (!done) return InvalidArgument("elements of type ", Name(a.dtype()), " cannot be added");
  return sum;
}

absl::StatusOr<Tensor> Zeros(DType dtype, const TensorShape& shape) {
  Tensor t(dtype, shape);
  if (!t.valid()) return ResourceExhausted("no memory for zeros of shape ", shape.DebugString());
  if (IsPlainBytes(dtype)) std::memset(t.raw(), 0, t.bytes());
  return t;
}

}  // namespace

TensorArray::TensorArray(std::string name, const TensorArray& of) : name_(std::move(name)) {
  std::lock_guard<std::mutex> lock(of.mu_);
  options_ = of.options_;
  options_.dynamic_size = false;
  options_.sum_writes = true;
  elements_.resize(of.elements_.size());
  for (size_t i = 0; i < elements_.size(); ++i) elements_[i].shape = of.elements_[i].shape;
}

int64_t TensorArray::size() const {
  std::lock_guard<std::mutex> lock(mu_);
  return static_cast<int64_t>(elements_.size());
}

PartialTensorShape TensorArray::element_shape() const {
  std::lock_guard<std::mutex> lock(mu_);
  return options_.element_shape;
}

absl::Status TensorArray::Write(int64_t index, Tensor value) {
  std::lock_guard<std::mutex> lock(mu_);
  if (closed_) return InvalidArgument("TensorArray '", name_, "' has already been closed");
  if (value.dtype() != options_.dtype) {
    return InvalidArgument("TensorArray '", name_, "' holds ", Name(options_.dtype),
                           ", but the value written to index ", index, " is ", Name(value.dtype()));
  }
  const int64_t size = static_cast<int64_t>(elements_.size());
  if (index < 0 || (index >= size && !options_.dynamic_size)) {
    return InvalidArgument("TensorArray '", name_, "': tried to write to index ", index, ", but the array is ",
                           options_.dynamic_size ? "" : "not resizeable and ", "of size ", size);
  }
  if (!options_.element_shape.IsCompatibleWith(value.shape())) {
    return InvalidArgument("TensorArray '", name_, "': could not write to index ", index,
                           " because the value has shape ", value.shape().DebugString(),
                           ", which does not fit the element shape ", options_.element_shape.DebugString());
  }
  if (index >= size) elements_.resize(static_cast<size_t>(index) + 1);
  Element& e = elements_[static_cast<size_t>(index)];
  if (e.read) {
    return InvalidArgument("TensorArray '", name_, "': could not write to index ", index,
                           " because it has already been read");
  }
  if (e.written) {
    if (!options_.sum_writes) {
      return InvalidArgument("TensorArray '", name_, "': could not write to index ", index,
                             " because it has already been written to");
    }
    if (!e.value.SameShape(value)) {
      return InvalidArgument("TensorArray '", name_, "': could not add to index ", index, ": its shape is ",
                             e.value.shape().DebugString(), ", that of the addend ", value.shape().DebugString());
    }
    TROUPE_ASSIGN_OR_RETURN(value, Sum(e.value, value));
  }
  if (options_.identical_element_shapes) {
    TROUPE_ASSIGN_OR_RETURN(options_.element_shape, options_.element_shape.MergeWith(value.shape()));
  }
  e.shape = value.shape();
  e.value = std::move(value);
  e.written = true;
  return absl::OkStatus();
}

absl::StatusOr<Tensor> TensorArray::ReadLocked(int64_t index) {
  if (closed_) return InvalidArgument("TensorArray '", name_, "' has already been closed");
  if (index < 0 || index >= static_cast<int64_t>(elements_.size())) {
    return InvalidArgument("TensorArray '", name_, "': tried to read from index ", index, ", but the array size is ",
                           elements_.size());
  }
  Element& e = elements_[static_cast<size_t>(index)];
  if (e.cleared) {
    return InvalidArgument(
        "TensorArray '", name_, "': could not read index ", index,
        " twice because it was cleared after a previous read (perhaps set clear_after_read = false)");
  }
  if (!e.written) {
    if (!e.shape && !options_.element_shape.IsFullyDefined()) {
      return InvalidArgument("TensorArray '", name_, "': could not read index ", index,
                             ", which was never written; zeros cannot stand for it, since the element shape ",
                             options_.element_shape.DebugString(), " is not fully defined");
    }
    TROUPE_ASSIGN_OR_RETURN(e.value,
                            Zeros(options_.dtype, e.shape ? *e.shape : options_.element_shape.AsTensorShape()));
    e.written = true;
  }
  e.read = true;
  if (!options_.clear_after_read) return e.value;
  e.cleared = true;
  return std::move(e.value);
}

absl::StatusOr<Tensor> TensorArray::Read(int64_t index) {
  std::lock_guard<std::mutex> lock(mu_);
  return ReadLocked(index);
}

absl::StatusOr<std::vector<Tensor>> TensorArray::ReadAll(absl::Span<const int32_t> indices) {
  std::lock_guard<std::mutex> lock(mu_);
  std::vector<Tensor> values;
  values.reserve(indices.size());
  for (const int32_t i : indices) {
    TROUPE_ASSIGN_OR_RETURN(Tensor t, ReadLocked(i));
    values.push_back(std::move(t));
  }
  return values;
}

void TensorArray::Close() {
  std::vector<Element> dropped;  // freed outside of the lock
  std::lock_guard<std::mutex> lock(mu_);
  dropped.swap(elements_);
  closed_ = true;
}

void TensorArray::VisitTensors(const std::function<void(const Tensor&)>& visit) const {
  std::lock_guard<std::mutex> lock(mu_);
  for (const Element& e : elements_) {
    if (e.value.valid()) visit(e.value);
  }
}

std::string TensorArray::DebugString() const {
  std::lock_guard<std::mutex> lock(mu_);
  return StrCat("TensorArray '", name_, "' of ", elements_.size(), " x ", Name(options_.dtype), " ",
                options_.element_shape.DebugString());
}

Tensor NewFlow() { return Tensor::Scalar(0.0f); }

void SetArrayOutputs(KernelContext& ctx, std::string key, std::shared_ptr<TensorArray> array) {
  ctx.set_output(0, state::MakeHandle(DType::kResource, ResourceHandle(ctx.device()->name(), kTensorArrays,
                                                                       std::move(key), std::move(array))));
  ctx.set_output(1, NewFlow());
}

absl::StatusOr<int32_t> ScalarInput(const KernelContext& ctx, int i, const char* what) {
  if (ctx.input(i).rank() != 0)
    return InvalidArgument(what, " must be a scalar, but has shape ", ctx.input(i).shape().DebugString());
  return ctx.input(i).scalar<int32_t>();
}

GradientArray GradientArrayOf(GradientContext& g, NodeOut flow) {
  const NodeOut handle =
      g.Op("TensorArrayGradV3", std::vector<GradArg>{g.Input(0), flow}, {{"source", std::string("gradients")}});
  if (!handle.valid()) return {};
  // Two calls of the gradient builder must not share arrays: the source is the prefix that this
  // call's nodes have, "a/gradients_1". A node's name is made of it and that of the forward node,
  // which may have the same parts.
  const std::string_view name = handle.node->name();
  const size_t end = name.rfind(StrCat("/", g.node().name(), "_grad/"));
  if (end != std::string_view::npos) handle.node->SetAttr("source", std::string(name.substr(0, end)));
  return {handle, {handle.node, 1}};
}

}  // namespace troupe::control
