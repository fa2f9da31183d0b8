// What the chiefs of all kinds of training by several processes do alike: they tell how they have
// begun, save and tell of it, and call at_end.
//
// Thread rule: that of the TrainingLoop: one thread.
#ifndef TROUPE_ACTORS_TRAIN_CHIEF_H_
#define TROUPE_ACTORS_TRAIN_CHIEF_H_

#include <cstdint>

#include "actors/train/server_recovery.h"
#include "actors/train/training_loop.h"

namespace troupe::train {

// Tells of where it goes on; of a start also that the first values were saved.
void TellBegun(const TrainingLoop& loop, const ServerRecovery::Begun& begun);

// Whether the policy wants a checkpoint of this step.
bool IsSaved(const CheckpointPolicy& policy, int64_t step);

// Saves, and tells of it; `*saved` is the step then. An error of a checkpoint that is not the last
// one is told, and OK, unless it says that a process is lost.
absl::Status SaveAndTell(ServerRecovery* recovery, TrainingLoop* loop, int64_t step, bool last, int64_t* saved);

// Calls at_end, if there is one.
absl::Status RunAtEnd(TrainingLoop* loop);

}  // namespace troupe::train

#endif  // TROUPE_ACTORS_TRAIN_CHIEF_H_
