#include "troupe/resource_state.h"

#include <map>
#include <mutex>
#include <typeinfo>

namespace troupe {
namespace {

struct Makers {
  std::mutex mu;
  std::map<std::string, ResourceMaker, std::less<>> by_kind;
  static Makers& Get() {
    static Makers* makers = new Makers;
    return *makers;
  }
};

}  // namespace

void Resource::VisitTensors(const std::function<void(const Tensor&)>&) const {}

void Resource::Save(const StateVisitor& visit) const {
  visit(Unimplemented("this kind of resource does not say how it is saved (", DebugString(), ")"));
}

absl::Status Resource::TakePlaceOf(const Resource& other) {
  if (typeid(*this) == typeid(other)) return absl::OkStatus();
  return InvalidArgument("there is ", other.DebugString(), ", which is of another kind");
}

const Tensor* ResourceState::Find(std::string_view key) const {
  for (const auto& [name, tensor] : tensors) {
    if (name == key) return &tensor;
  }
  return nullptr;
}

absl::StatusOr<Tensor> ResourceState::Get(std::string_view key, DType dtype, const TensorShape& shape) const {
  const Tensor* const t = Find(key);
  if (t == nullptr || !t->valid()) return InvalidArgument("the state of a ", kind, " has no '", key, "'");
  if (t->dtype() != dtype || !t->HasShape(shape)) {
    return InvalidArgument("'", key, "' in the state of a ", kind, " is ", t->TypeAndShape(), ", not ", Name(dtype),
                           " ", shape.DebugString());
  }
  return *t;
}

ResourceKind::ResourceKind(std::string_view kind, ResourceMaker make) {
  Makers& makers = Makers::Get();
  std::lock_guard<std::mutex> lock(makers.mu);
  makers.by_kind.emplace(kind, make);
}

absl::StatusOr<std::shared_ptr<Resource>> MakeResource(const std::string& name, const ResourceState& state) {
  ResourceMaker make = nullptr;
  {
    Makers& makers = Makers::Get();
    std::lock_guard<std::mutex> lock(makers.mu);
    const auto it = makers.by_kind.find(state.kind);
    if (it != makers.by_kind.end()) make = it->second;
  }
  if (make == nullptr) return Unimplemented("nobody here knows how to make a resource of kind '", state.kind, "'");
  return make(name, state);
}

}  // namespace troupe
