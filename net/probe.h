// Whether somebody listens at an address and speaks, found out without CAF, whose connector does
// one call after the other and waits for a silent host as long as the system does.
//
// A server of CAF's speaks first. So a probe looks up the name, connects, waits for a byte and
// closes; each with an end. Each address of a name gets an equal part of the time that is left.
// Names are looked up by the system, which alone decides how long.
//
// Thread rule: all methods are thread safe.
#ifndef TROUPE_NET_PROBE_H_
#define TROUPE_NET_PROBE_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "actors/threads/aside.h"
#include "troupe/cluster.h"

namespace troupe {

// The address that answers, as numbers. Blocks, at most `at_most` (and a day) and the time of the
// look-up. UNAVAILABLE with the reason. Ends early, with CANCELLED, once `cancelled` is true; it
// may be null.
absl::StatusOr<HostPort> Probe(const HostPort& address, std::chrono::milliseconds at_most,
                               const std::atomic<bool>* cancelled);

// Probes on threads of their own.
class Probes : public std::enable_shared_from_this<Probes> {
 public:
  using Told = std::function<void(absl::StatusOr<HostPort>)>;
  // `told` is called once, on that thread, unless Close comes before, which destroys it.
  void Start(const HostPort& address, std::chrono::milliseconds at_most, Told told);
  // Of somebody who uses the actor system in a probe's name: Close waits for it, too.
  std::shared_ptr<void> Share() { return UnderWay::Share(under_way_); }
  // From now on nobody is told. False when a share is still there after the time. Threads that
  // still look up a name end later, and refer to nothing but this object.
  bool Close(std::chrono::milliseconds at_most);

 private:
  const std::shared_ptr<UnderWay> under_way_ = std::make_shared<UnderWay>();
  std::atomic<bool> closed_{false};
  std::mutex telling_;
  uint64_t last_ = 0;                 // under telling_, as the next
  std::map<uint64_t, Told> waiting_;  // by the number of the probe
};

}  // namespace troupe

#endif  // TROUPE_NET_PROBE_H_
