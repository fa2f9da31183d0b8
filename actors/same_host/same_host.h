// Whether two nodes of CAF's may be on one host.
#ifndef TROUPE_ACTORS_SAME_HOST_SAME_HOST_H_
#define TROUPE_ACTORS_SAME_HOST_SAME_HOST_H_

#include <caf/node_id.hpp>

namespace troupe {

// By the identity that CAF gives a host; nodes with names of another kind may be on one. Two
// containers can look like one host: what follows from true has to be tried.
//
// Thread rule: any thread.
bool IsSameHost(const caf::node_id& a, const caf::node_id& b) noexcept;

}  // namespace troupe

#endif  // TROUPE_ACTORS_SAME_HOST_SAME_HOST_H_
