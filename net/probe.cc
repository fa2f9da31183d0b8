#include "net/probe.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

struct Closer {
  ~Closer() { ::close(descriptor); }
  const int descriptor;
};

absl::Status Failed(const HostPort& address, std::string_view what, int error) {
  return Unavailable(address.ToString(), ": ", what, error == 0 ? "" : ": ", error == 0 ? "" : std::strerror(error));
}

// OK when the socket is ready for one of `events`.
absl::Status Await(int socket, short events, const HostPort& address, std::string_view what, Clock::time_point end,
                   const std::atomic<bool>* cancelled) {
  constexpr std::chrono::milliseconds kSlice{20};
  for (;;) {
    if (cancelled != nullptr && cancelled->load()) return Cancelled("the probe of ", address.ToString(), " was ended");
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return Failed(address, StrCat(what, ": no answer in time"), 0);
    pollfd p{socket, events, 0};
    const int ready = ::poll(&p, 1, static_cast<int>(std::min(left, kSlice).count()));
    if (ready < 0 && errno != EINTR) return Failed(address, what, errno);
    if (ready > 0) return absl::OkStatus();
  }
}

absl::Status Try(const addrinfo& where, const HostPort& address, Clock::time_point end,
                 const std::atomic<bool>* cancelled) {
  const Closer socket{::socket(where.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, where.ai_protocol)};
  const int s = socket.descriptor;
  if (s < 0) return Failed(address, "no socket", errno);
  if (::connect(s, where.ai_addr, where.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return Failed(address, "connect", errno);
    TROUPE_RETURN_IF_ERROR(Await(s, POLLOUT, address, "connect", end, cancelled));
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return Failed(address, "connect", error);
  }
  TROUPE_RETURN_IF_ERROR(Await(s, POLLIN, address, "it accepted the connection and does not speak", end, cancelled));
  char byte;
  const ssize_t n = ::recv(s, &byte, 1, 0);
  if (n > 0) return absl::OkStatus();
  return Failed(address, "it closed the connection", n < 0 ? errno : 0);
}

// The address in numbers, which CAF does not look up again.
absl::StatusOr<HostPort> Numeric(const addrinfo& where, const HostPort& address) {
  char host[NI_MAXHOST] = "";
  const int error = ::getnameinfo(where.ai_addr, where.ai_addrlen, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  if (error != 0) return Failed(address, StrCat("its address cannot be written: ", ::gai_strerror(error)), 0);
  return HostPort{host, address.port};
}

}  // namespace

absl::StatusOr<HostPort> Probe(const HostPort& address, std::chrono::milliseconds at_most,
                               const std::atomic<bool>* cancelled) {
  const Clock::time_point end =
      Clock::now() + std::clamp<std::chrono::milliseconds>(at_most, std::chrono::hours(0), std::chrono::hours(24));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* all = nullptr;
  if (const int error = ::getaddrinfo(address.host.c_str(), StrCat(address.port).c_str(), &hints, &all); error != 0)
    return Failed(address, StrCat("the name is not found: ", ::gai_strerror(error)), 0);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(all, &::freeaddrinfo);
  int addresses_left = 0;
  for (const addrinfo* a = all; a != nullptr; a = a->ai_next) ++addresses_left;
  absl::Status status = Failed(address, "the name has no address", 0);
  for (const addrinfo* a = all; a != nullptr; a = a->ai_next, --addresses_left) {
    const Clock::time_point now = Clock::now();
    status = Try(*a, address, std::min(end, now + (end - now) / addresses_left), cancelled);
    if (status.ok()) return Numeric(*a, address);
    if (absl::IsCancelled(status) || Clock::now() >= end) return status;
  }
  return status;
}

void Probes::Start(const HostPort& address, std::chrono::milliseconds at_most, Told told) {
  uint64_t number = 0;
  const std::string name = address.ToString();
  absl::Status too_many;
  {
    std::lock_guard<std::mutex> lock(telling_);
    if (closed_.load()) return;
    if (threads_.contains(name)) {
      too_many = Failed(address, "an earlier probe of it, or the look-up of its name, has not ended yet", 0);
    } else if (threads_.size() >= kMost) {
      too_many = Failed(address, StrCat(kMost, " other probes, or look-ups of names, have not ended yet"), 0);
    } else {
      number = ++last_;
      threads_.insert(name);
      waiting_.emplace(number, std::move(told));
    }
  }
  if (!too_many.ok()) return told(too_many);
  // The thread may be in a look-up long after the actor system has ended: it holds no actor.
  RunAside(true, [me = shared_from_this(), address, name, at_most, number] {
    absl::StatusOr<HostPort> found = me->find_(address, at_most, &me->closed_);
    std::lock_guard<std::mutex> lock(me->telling_);
    me->threads_.erase(name);
    const auto it = me->waiting_.find(number);
    if (it == me->waiting_.end()) return;
    it->second(std::move(found));
    me->waiting_.erase(it);
  });
}

bool Probes::Close(std::chrono::milliseconds at_most) {
  std::map<uint64_t, Told> nobody;
  {
    std::lock_guard<std::mutex> lock(telling_);
    closed_.store(true);
    waiting_.swap(nobody);
  }
  nobody.clear();
  return under_way_->WaitUntilNone(at_most);
}

}  // namespace troupe
