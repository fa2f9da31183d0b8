// Session::RestoreState in two halves: whether a snapshot fits, and putting it there.
//
// Thread rule: any thread that may block (threads/actor_thread.h).
#ifndef TROUPE_ACTORS_SNAPSHOT_RESTORE_STATE_H_
#define TROUPE_ACTORS_SNAPSHOT_RESTORE_STATE_H_

#include "troupe/session.h"
#include "troupe/state_snapshot.h"

namespace troupe {

// As Session::RestoreState. `only_check`: nothing is changed; what it would say now.
absl::Status RestoreState(const Session& session, const StateSnapshot& snapshot, bool only_check);

}  // namespace troupe

#endif  // TROUPE_ACTORS_SNAPSHOT_RESTORE_STATE_H_
