// What a process sends to others, and gets from them, that is too big for a message (freight_out.h,
// freight_in.h).
//
// Thread rule: thread safe.
#ifndef TROUPE_ACTORS_STEP_FREIGHT_H_
#define TROUPE_ACTORS_STEP_FREIGHT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "actors/step/freight_in.h"
#include "actors/step/freight_out.h"

namespace troupe {

class RemoteTasks;

struct Freight {
  Freight(caf::actor_system* system, uint64_t mine, std::shared_ptr<const Directory> directory,
          std::shared_ptr<ComputeThreads> threads)
      : out(system, mine, std::move(threads)), in(system, mine, std::move(directory)) {}
  FreightOut out;
  FreightIn in;

  // Of the process with this incarnation, as long as it lives. There may be several in one program.
  static std::shared_ptr<Freight> Make(caf::actor_system* system, uint64_t mine,
                                       std::shared_ptr<const Directory> directory,
                                       std::shared_ptr<ComputeThreads> threads);
  static std::shared_ptr<Freight> Of(uint64_t mine);
};

// The worker that a process with this incarnation has now; null: none.
caf::actor WorkerOfProcess(const RemoteTasks& remote, uint64_t incarnation);

// Sends a message from the process `mine` to the worker `to` of another, whatever its size.
// `owner` and `from` as FreightOut::Send has them. UNAVAILABLE also when that worker is not the
// one that `remote` knows any more.
absl::Status SendWithTensors(caf::actor_system& system, const RemoteTasks& remote, uint64_t mine, const caf::actor& to,
                             uint64_t incarnation, freight_message&& message,
                             const std::optional<FreightOut::Owner>& owner, const caf::strong_actor_ptr& from);

}  // namespace troupe

#endif  // TROUPE_ACTORS_STEP_FREIGHT_H_
