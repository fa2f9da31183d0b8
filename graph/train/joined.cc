#include "graph/train/joined.h"

#include "graph/train/build.h"
#include "troupe/const.h"

namespace troupe::train {

Output Joined(const Scope& here, const std::vector<Output>& tensors, const std::vector<PartialTensorShape>& shapes) {
  std::vector<Output> flat;
  for (size_t i = 0; i < tensors.size(); ++i)
    flat.push_back(shapes[i].rank() == 1 ? tensors[i] : Build(here, "Reshape", {tensors[i], Const(here, {-1})}));
  return JoinRows(here, flat);
}

std::vector<Output> TakenApart(const Scope& here, const Output& joined, const std::vector<PartialTensorShape>& shapes) {
  std::vector<Output> parts{joined};
  if (shapes.size() > 1) {
    std::vector<int64_t> sizes;
    for (const PartialTensorShape& s : shapes) sizes.push_back(s.num_elements());
    const Operation cut =
        EmitOp(here, "SplitV", {joined, Literal(Tensor::Vector<int64_t>(absl::MakeConstSpan(sizes))), 0},
               {{"num_split", static_cast<int64_t>(shapes.size())}});
    parts.clear();
    for (size_t k = 0; k < shapes.size(); ++k) parts.push_back(cut.output(static_cast<int>(k)));
  }
  for (size_t k = 0; k < shapes.size(); ++k) {
    if (shapes[k].rank() == 1) continue;
    const std::vector<int64_t> dims(shapes[k].dims().begin(), shapes[k].dims().end());
    parts[k] =
        Build(here, "Reshape", {parts[k], Const(here, Literal(Tensor::Vector<int64_t>(absl::MakeConstSpan(dims))))});
  }
  return parts;
}

void JoinedByDevice::Add(const std::string& device, const Output& tensor, const PartialTensorShape& shape) {
  const size_t number = tensors_.size();
  tensors_.push_back(tensor);
  shapes_.push_back(shape);
  const int64_t bytes = shape.num_elements() * static_cast<int64_t>(SizeOf(tensor.dtype()));
  const auto [it, is_new] = open_.try_emplace({device, BaseType(tensor.dtype())}, Open{vectors_.size(), 0});
  Open& open = it->second;
  if (bytes > most_bytes_) {
    if (is_new) open_.erase(it);
    vectors_.push_back({number});
    return;
  }
  if (is_new || open.bytes + bytes > most_bytes_) {
    open = {vectors_.size(), 0};
    vectors_.emplace_back();
  }
  open.bytes += bytes;
  vectors_[open.vector].push_back(number);
}

std::vector<Output> JoinedByDevice::Send(const std::function<Scope(size_t)>& from,
                                         const std::function<Scope(size_t)>& to) const {
  std::vector<Output> sent = tensors_;
  for (const std::vector<size_t>& vector : vectors_) {
    if (vector.size() == 1) continue;
    std::vector<Output> tensors;
    std::vector<PartialTensorShape> shapes;
    for (const size_t i : vector) {
      tensors.push_back(tensors_[i]);
      shapes.push_back(shapes_[i]);
    }
    const std::vector<Output> apart = TakenApart(to(vector[0]), Joined(from(vector[0]), tensors, shapes), shapes);
    for (size_t k = 0; k < apart.size(); ++k) sent[vector[k]] = apart[k];
  }
  return sent;
}

}  // namespace troupe::train
