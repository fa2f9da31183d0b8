#include "actors/step/freight.h"

#include <map>
#include <mutex>

#include "actors/runtime/remote_tasks.h"

namespace troupe {
namespace {

struct All {
  std::mutex mu;
  std::map<uint64_t, std::weak_ptr<Freight>> by_incarnation;
};
// Never destroyed: threads may still run when the program ends.
All& AllFreight() {
  static All* const all = new All;
  return *all;
}

}  // namespace

std::shared_ptr<Freight> Freight::Make(caf::actor_system* system, uint64_t mine,
                                       std::shared_ptr<const Directory> directory,
                                       std::shared_ptr<ComputeThreads> threads) {
  auto freight = std::make_shared<Freight>(system, mine, std::move(directory), std::move(threads));
  std::lock_guard<std::mutex> lock(AllFreight().mu);
  auto& all = AllFreight().by_incarnation;
  std::erase_if(all, [](const auto& each) { return each.second.expired(); });
  all[mine] = freight;
  return freight;
}

std::shared_ptr<Freight> Freight::Of(uint64_t mine) {
  std::lock_guard<std::mutex> lock(AllFreight().mu);
  const auto it = AllFreight().by_incarnation.find(mine);
  return it == AllFreight().by_incarnation.end() ? nullptr : it->second.lock();
}

caf::actor WorkerOfProcess(const RemoteTasks& remote, uint64_t incarnation) {
  for (const std::string& name : remote.names()) {
    const RemoteTask task = remote.Find(name);
    if (task.incarnation == incarnation && task.worker) return task.worker;
  }
  return nullptr;
}

absl::Status SendWithTensors(caf::actor_system& system, const RemoteTasks& remote, uint64_t mine, const caf::actor& to,
                             uint64_t incarnation, freight_message&& message,
                             const std::optional<FreightOut::Owner>& owner, const caf::strong_actor_ptr& from) {
  const std::shared_ptr<Freight> freight = Freight::Of(mine);
  if (freight == nullptr || !freight->out.IsBig(message))
    return std::visit([&](auto& m) { return SendFar(system, to, std::move(m), from); }, message);
  uint64_t number = 0;
  const absl::Status sent = freight->out.Send(to, incarnation, std::move(message), owner, from, &number);
  const caf::actor there = incarnation == mine ? to : WorkerOfProcess(remote, incarnation);
  // Who went before the note stood in the list did not find it there, nor the memory for it.
  if (!there) freight->out.ForgetPool(incarnation);
  if (!sent.ok() || number == 0 || there == to) return sent;
  freight->out.Drop({mine, incarnation, number});
  return Unavailable("the process of a message with big tensors is not there any more, or its worker was restarted");
}

}  // namespace troupe
