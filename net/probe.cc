#include "net/probe.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

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

// Until one of the link's handshake, or its first byte, is there.
template <class Step>
absl::Status Bring(Link* link, const HostPort& address, std::string_view what, Clock::time_point end,
                   const std::atomic<bool>* cancelled, Step step) {
  for (;;) {
    absl::Status why;
    switch (step(&why)) {
      case Link::Result::kOk:
        return absl::OkStatus();
      case Link::Result::kEnd:
        return Annotate(why, address.ToString());
      case Link::Result::kAgain:
        break;
    }
    const short events = static_cast<short>(POLLIN | (link->Owes() ? POLLOUT : 0));
    TROUPE_RETURN_IF_ERROR(Await(link->descriptor(), events, address, what, end, cancelled));
  }
}

// Who says nothing may wait for the handshake of TLS. A byte that is none of it is answered by an
// alert.
absl::Status AskWhySilent(Link* link, const HostPort& address, absl::Status silent, std::chrono::milliseconds time,
                          const std::atomic<bool>* cancelled) {
  size_t taken = 0;
  absl::Status why;
  if (link->Write("\n", 1, &taken) != Link::Result::kOk) return silent;
  (void)Await(link->descriptor(), POLLIN, address, "", Clock::now() + time, cancelled);
  const bool said = link->Peek(&why) == Link::Result::kEnd && absl::IsFailedPrecondition(why);
  return said ? Annotate(why, address.ToString()) : silent;
}

absl::StatusOr<std::unique_ptr<Link>> Try(const addrinfo& where, const HostPort& address, Clock::time_point end,
                                          const std::atomic<bool>* cancelled, const std::shared_ptr<TlsContext>& tls) {
  const int s = ::socket(where.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, where.ai_protocol);
  if (s < 0) return Failed(address, "no socket", errno);
  auto socket = std::make_shared<Socket>(s);
  if (::connect(s, where.ai_addr, where.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return Failed(address, "connect", errno);
    TROUPE_RETURN_IF_ERROR(Await(s, POLLOUT, address, "connect", end, cancelled));
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return Failed(address, "connect", error);
  }
  const int on = 1;
  ::setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  ::setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  absl::StatusOr<std::unique_ptr<Link>> link = tls == nullptr ? PlainLink(socket) : tls->Connect(socket);
  if (!link.ok()) return Annotate(link.status(), address.ToString());
  Link* const l = link->get();
  TROUPE_RETURN_IF_ERROR(Bring(l, address, "it accepted the connection and does not answer the handshake of TLS", end,
                               cancelled, [&](absl::Status* why) { return l->Handshake(why); }));
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  const auto spare = tls == nullptr ? std::min(left / 4, std::chrono::milliseconds(200)) : std::chrono::milliseconds(0);
  absl::Status spoke = Bring(l, address, "it accepted the connection and does not speak", end - spare, cancelled,
                             [&](absl::Status* why) { return l->Peek(why); });
  if (tls == nullptr && absl::IsUnavailable(spoke)) spoke = AskWhySilent(l, address, spoke, spare, cancelled);
  TROUPE_RETURN_IF_ERROR(spoke);
  return link;
}

// The address in numbers, which CAF does not look up again.
absl::StatusOr<HostPort> Numeric(const addrinfo& where, const HostPort& address) {
  char host[NI_MAXHOST] = "";
  const int error = ::getnameinfo(where.ai_addr, where.ai_addrlen, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  if (error != 0) return Failed(address, StrCat("its address cannot be written: ", ::gai_strerror(error)), 0);
  return HostPort{host, address.port};
}

}  // namespace

absl::StatusOr<Reached> Probe(const HostPort& address, std::chrono::milliseconds at_most,
                              const std::atomic<bool>* cancelled, const std::shared_ptr<TlsContext>& tls) {
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
    auto link = Try(*a, address, std::min(end, now + (end - now) / addresses_left), cancelled, tls);
    if (link.ok()) {
      TROUPE_ASSIGN_OR_RETURN(HostPort at, Numeric(*a, address));
      return Reached{std::move(at), std::make_shared<std::unique_ptr<Link>>(*std::move(link))};
    }
    status = link.status();
    if (absl::IsCancelled(status) || Clock::now() >= end) return status;
  }
  return status;
}

std::shared_ptr<Probes> Probes::With(std::shared_ptr<TlsContext> tls) {
  return std::make_shared<Probes>(
      [tls = std::move(tls)](const HostPort& address, std::chrono::milliseconds at_most,
                             const std::atomic<bool>* cancelled) { return Probe(address, at_most, cancelled, tls); });
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
    absl::StatusOr<Reached> found = me->find_(address, at_most, &me->closed_);
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
