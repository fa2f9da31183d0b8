// The saved form of a resource: its kind, and tensors by key. Snapshots are made of these.
//
// A kind of resource overrides Resource::Save, which says how it is saved, and registers by its
// name how one is made again:
//
//   class Counter : public Resource {
//     ...
//     void Save(const StateVisitor& visit) const override {
//       visit(ResourceState{"my counter", {{"count", Tensor::Scalar<int64_t>(count_)}}});
//     }
//   };
//   const ResourceKind counter("my counter", [](const std::string& name, const ResourceState& state)
//       -> absl::StatusOr<std::shared_ptr<Resource>> { ... });
//
// Thread rule: ResourceState is a plain value; the functions may be called from any thread.
#ifndef TROUPE_RESOURCE_STATE_H_
#define TROUPE_RESOURCE_STATE_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/export.h"
#include "troupe/resource.h"
#include "troupe/status.h"
#include "troupe/tensor.h"

namespace TROUPE_EXPORT troupe {

struct ResourceState {
  std::string kind;
  // They may share memory with the resource, which copies before it changes; nobody else writes to
  // them.
  std::vector<std::pair<std::string, Tensor>> tensors;

  // Null when there is none of this key.
  const Tensor* Find(std::string_view key) const;
  // The tensor of this key. INVALID_ARGUMENT when there is none, or it is of another type or shape.
  absl::StatusOr<Tensor> Get(std::string_view key, DType dtype, const TensorShape& shape) const;
};

using ResourceMaker = absl::StatusOr<std::shared_ptr<Resource>> (*)(const std::string& name,
                                                                    const ResourceState& state);
// Registers how resources of a kind are made of their states; an object of static storage. The
// first one of a name counts.
struct ResourceKind {
  ResourceKind(std::string_view kind, ResourceMaker make);
};
// A resource in this state. UNIMPLEMENTED for a kind that is not registered; otherwise what the
// kind says of a state that does not fit it.
absl::StatusOr<std::shared_ptr<Resource>> MakeResource(const std::string& name, const ResourceState& state);

}  // namespace troupe

#endif  // TROUPE_RESOURCE_STATE_H_
