// Reaches a server at an address: a connection, with the handshake of TLS where there is one, on
// which the server has spoken. CAF's own connector does one call after the other and waits for a
// silent host as long as the system does.
//
// A server of CAF's speaks first. So a probe looks up the name, connects, and waits for a byte,
// each with an end; the connection is CAF's then (link_scribe.h). With TLS the byte says also that
// the server accepts the certificate of this process. Each address of a name gets an equal part of
// the time that is left. Names are looked up by the system, which alone decides how long.
//
// Thread rule: all methods are thread safe.
#ifndef TROUPE_NET_PROBE_H_
#define TROUPE_NET_PROBE_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "actors/threads/aside.h"
#include "net/tls_context.h"
#include "troupe/cluster.h"

namespace troupe {

// Who answered.
struct Reached {
  HostPort at;                                  // in numbers
  std::shared_ptr<std::unique_ptr<Link>> link;  // for one taker
};

// Blocks, at most `at_most` (and a day) and the time of the look-up. UNAVAILABLE with the reason;
// PERMISSION_DENIED when one side does not accept the other's certificate, FAILED_PRECONDITION when
// only one of them uses TLS. Ends early, with CANCELLED, once `cancelled` is true; it may be null.
// Without `tls` connections are plain.
absl::StatusOr<Reached> Probe(const HostPort& address, std::chrono::milliseconds at_most,
                              const std::atomic<bool>* cancelled, const std::shared_ptr<TlsContext>& tls);

// Probes on threads of their own: at most one at a time of an address, and kMost in all. So names
// whose look-up takes longer than those who ask are willing to wait take no more threads each time.
class Probes : public std::enable_shared_from_this<Probes> {
 public:
  using Told = std::function<void(absl::StatusOr<Reached>)>;
  using Find = std::function<absl::StatusOr<Reached>(const HostPort& address, std::chrono::milliseconds at_most,
                                                     const std::atomic<bool>* cancelled)>;
  static constexpr size_t kMost = 64;
  explicit Probes(Find find) : find_(std::move(find)) {}
  // By Probe.
  static std::shared_ptr<Probes> With(std::shared_ptr<TlsContext> tls);
  // `told` is called once, on that thread, unless Close comes before, which destroys it; here, with
  // UNAVAILABLE, while there are too many.
  void Start(const HostPort& address, std::chrono::milliseconds at_most, Told told);
  // Of somebody who uses the actor system in a probe's name: Close waits for it, too.
  std::shared_ptr<void> Share() { return UnderWay::Share(under_way_); }
  // From now on nobody is told. False when a share is still there after the time. Threads that
  // still look up a name end later, and refer to nothing but this object.
  bool Close(std::chrono::milliseconds at_most);

 private:
  const Find find_;
  const std::shared_ptr<UnderWay> under_way_ = std::make_shared<UnderWay>();
  std::atomic<bool> closed_{false};
  std::mutex telling_;
  uint64_t last_ = 0;                 // under telling_, as the next
  std::map<uint64_t, Told> waiting_;  // by the number of the probe
  std::set<std::string> threads_;     // by address
};

}  // namespace troupe

#endif  // TROUPE_NET_PROBE_H_
