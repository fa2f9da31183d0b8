#include "actors/wire/part_messages.h"

#include <algorithm>

#include "kernels/numerics_check.h"
#include "troupe/kernel.h"

namespace troupe {

uint32_t EdgeTable::Add(const std::string& name) {
  const auto [it, is_new] = numbers_.try_emplace(name, static_cast<uint32_t>(edges_.size()));
  if (is_new) edges_.emplace_back().name = name;
  return it->second;
}

bool EdgeTable::Live() const {
  return std::all_of(edges_.begin(), edges_.end(), [](const Edge& e) { return e.Lives(); });
}

void EdgeTable::Renew(std::string_view device, uint64_t incarnation) const {
  for (const Edge& e : edges_) {
    if (EdgeSender(e.name) != device) continue;
    std::atomic_ref<bool>(e.over).store(e.incarnation != incarnation, std::memory_order_relaxed);
  }
}

absl::Status EdgeTable::Outdated(const Edge& edge, uint64_t incarnation) {
  return absl::AbortedError(StrCat("a message on edge '", edge.name, "' is refused: it comes from incarnation ",
                                   incarnation, " of its device, which is not the one that lives now"));
}

int64_t EdgeTable::Find(const std::string& name) const {
  const auto it = numbers_.find(name);
  return it == numbers_.end() ? -1 : int64_t{it->second};
}

std::string_view EdgeTensor(std::string_view name) { return name.substr(name.rfind(';') + 1); }
std::string_view EdgeSender(std::string_view name) {
  const size_t end = name.find(';');
  return end == std::string_view::npos ? std::string_view() : name.substr(0, end);
}

caf::error inspect(caf::serializer& f, IterationPath& x) {
  auto depth = static_cast<uint32_t>(x.numbers.size());
  if (caf::error e = f(depth)) return e;
  for (int64_t& n : x.numbers) {
    if (caf::error e = f(n)) return e;
  }
  return caf::none;
}
caf::error inspect(caf::deserializer& f, IterationPath& x) {
  x.numbers.clear();
  uint32_t depth = 0;
  if (caf::error e = f(depth)) return e;
  // Memory is taken as the numbers come: the depth may be anything.
  for (; depth > 0; --depth) {
    int64_t n = 0;
    if (caf::error e = f(n)) return e;
    if (n < 0) return caf::sec::invalid_argument;
    x.numbers.push_back(n);
  }
  return caf::none;
}

caf::error inspect(caf::serializer& f, abort_step& x) {
  wire::StatusFields status = wire::FieldsOf(x.status);
  return f(x.step, status);
}
caf::error inspect(caf::deserializer& f, abort_step& x) {
  wire::StatusFields status;
  if (caf::error e = f(x.step, status)) return e;
  x.status = wire::StatusOf(status);
  // A part that is told to end must have a reason.
  if (x.status.ok()) return caf::sec::invalid_argument;
  return caf::none;
}

caf::error inspect(caf::serializer& f, run_step& x) {
  if (x.input.context != nullptr) {
    x.step = x.input.context->step_id;
    x.cancelled = x.input.context->cancelled.load(std::memory_order_relaxed);
    x.timed = x.input.timings != nullptr;
    x.checks_numerics = x.input.numerics != nullptr;
    if (x.checks_numerics) x.numerics_folder = x.input.numerics->folder;
    x.arguments.assign(x.input.arguments, x.input.arguments + x.num_arguments);
  }
  StepInput& i = x.input;
  return f(x.step, x.cancelled, i.partial, i.token_messages, i.check_kernels, i.measure, x.timed, x.checks_numerics,
           x.numerics_folder, x.arguments);
}
caf::error inspect(caf::deserializer& f, run_step& x) {
  StepInput& i = x.input;
  if (caf::error e = f(x.step, x.cancelled, i.partial, i.token_messages, i.check_kernels, i.measure, x.timed,
                       x.checks_numerics, x.numerics_folder, x.arguments))
    return e;
  x.num_arguments = static_cast<uint32_t>(x.arguments.size());
  return caf::none;
}

void MakeMemory(run_step* message, uint32_t num_results, std::shared_ptr<UpdateLog> updates) {
  struct OwnMemory : StepContext {
    std::vector<Tensor> arguments, results;
    std::vector<node_run> timings;
  };
  auto own = std::make_shared<OwnMemory>();
  own->step_id = message->step;
  own->cancelled.store(message->cancelled, std::memory_order_relaxed);
  own->arguments = std::move(message->arguments);
  own->results.resize(num_results);
  StepInput& i = message->input;
  i.arguments = own->arguments.data();
  i.results = own->results.data();
  i.timings = message->timed ? &own->timings : nullptr;
  if (message->checks_numerics) {
    auto numerics = std::make_shared<NumericsCheck>();
    numerics->folder = std::move(message->numerics_folder);
    if (updates != nullptr) numerics->log = std::move(updates);
    i.numerics = std::move(numerics);
  }
  i.context = std::move(own);
}

caf::error inspect(caf::serializer& f, part_done& x) {
  for (uint32_t i = 0; x.input.results != nullptr && i < x.num_results; ++i) {
    if (x.input.results[i].valid()) x.results.emplace_back(i, x.input.results[i]);
  }
  if (x.input.timings != nullptr) x.statistics = *x.input.timings;
  wire::StatusFields status = wire::FieldsOf(x.status);
  return f(x.step, status, x.results, x.statistics);
}
caf::error inspect(caf::deserializer& f, part_done& x) {
  wire::StatusFields status;
  if (caf::error e = f(x.step, status, x.results, x.statistics)) return e;
  x.status = wire::StatusOf(status);
  return caf::none;
}

caf::error inspect(caf::serializer& f, part_failed& x) {
  wire::StatusFields status = wire::FieldsOf(x.status);
  return f(x.step, status);
}
caf::error inspect(caf::deserializer& f, part_failed& x) {
  wire::StatusFields status;
  if (caf::error e = f(x.step, status)) return e;
  x.status = wire::StatusOf(status);
  // A part that fails has a reason.
  if (x.status.ok()) return caf::sec::invalid_argument;
  return caf::none;
}

namespace {

template <class Variant>
absl::StatusOr<Variant> EachThroughBytes(caf::actor_system& system, Variant& message) {
  return std::visit(
      [&](auto& m) -> absl::StatusOr<Variant> {
        auto copy = wire::ThroughBytes(system, m);
        if (!copy.ok()) return copy.status();
        return Variant(*std::move(copy));
      },
      message);
}

}  // namespace

absl::StatusOr<part_message> ThroughBytes(caf::actor_system& system, part_message message) {
  return EachThroughBytes(system, message);
}
absl::StatusOr<step_message> ThroughBytes(caf::actor_system& system, step_message message) {
  return EachThroughBytes(system, message);
}

void BindResources(Tensor* value, const std::function<ResourceContainers*(const std::string& device)>& find) {
  if (!value->valid() || value->dtype() != DType::kResource) return;
  auto* handles = static_cast<ResourceHandle*>(value->raw());
  for (int64_t i = 0; i < value->num_elements(); ++i) {
    ResourceHandle& h = handles[i];
    ResourceContainers* containers = h.object() == nullptr ? find(h.device()) : nullptr;
    if (containers == nullptr) continue;
    auto object = containers->LookUp<Resource>(h.container(), h.name());
    if (object.ok()) h = ResourceHandle(h.device(), h.container(), h.name(), *std::move(object));
  }
}

}  // namespace troupe
