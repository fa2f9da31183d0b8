#include "net/gate.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "graph/core/guarded.h"
#include "troupe/cluster.h"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::string NameOf(const sockaddr_storage& from, socklen_t size) {
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&from), size, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "somebody";
  return StrCat(host, " port ", port);
}

absl::StatusOr<std::shared_ptr<Socket>> Listen(const std::string& host, uint16_t port) {
  const auto failed = [](std::string_view what, int error) { return Unavailable(what, ": ", std::strerror(error)); };
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  // Of all interfaces the newer protocol, which takes the older one's callers, too.
  addrinfo* all = nullptr;
  const char* const at = host.empty() ? "::" : host.c_str();
  int error = ::getaddrinfo(at, StrCat(port).c_str(), &hints, &all);
  if (error != 0) return Unavailable(host, ": ", ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(all, &::freeaddrinfo);
  absl::Status status = Unavailable("the name has no address");
  for (const addrinfo* a = all; a != nullptr; a = a->ai_next) {
    const int s = ::socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
    if (s < 0) {
      status = failed("no socket", errno);
      continue;
    }
    auto socket = std::make_shared<Socket>(s);
    const int on = 1, off = 0;
    ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (a->ai_family == AF_INET6) ::setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (::bind(s, a->ai_addr, a->ai_addrlen) == 0 && ::listen(s, SOMAXCONN) == 0) return socket;
    status = failed("it cannot be opened", errno);
  }
  return status;
}

}  // namespace

class Gate::Loop {
 public:
  Loop(std::shared_ptr<Socket> listening, std::shared_ptr<Socket> bell, std::shared_ptr<TlsContext> tls,
       Admitted admitted, Bounds bounds)
      : listening_(std::move(listening)),
        bell_(std::move(bell)),
        tls_(std::move(tls)),
        admitted_(std::move(admitted)),
        bounds_(bounds) {}

  void Ring() { (void)::eventfd_write(bell_->descriptor(), 1); }
  void Run() {
    for (;;) {
      std::vector<pollfd> fds{{bell_->descriptor(), POLLIN, 0},
                              {listening_->descriptor(), Clock::now() < full_until_ ? short{0} : short{POLLIN}, 0}};
      for (const Guest& g : greeting_)
        fds.push_back({g.link->descriptor(), static_cast<short>(POLLIN | (g.link->Owes() ? POLLOUT : 0)), 0});
      if (::poll(fds.data(), fds.size(), UntilDue()) < 0 && errno != EINTR)
        std::this_thread::sleep_for(milliseconds(10));
      if (fds[0].revents != 0) break;
      auto guest = greeting_.begin();
      for (size_t i = 2; i < fds.size(); ++i) {
        const auto now = guest++;
        if (fds[i].revents != 0) GoOn(now);
      }
      const Clock::time_point now = Clock::now();
      while (!greeting_.empty() && greeting_.front().until <= now)
        Refuse(greeting_.begin(), Unavailable("it has not ended the handshake in time"));
      ForgetGreeted();
      while (!admittees_.empty() && admittees_.front().until <= now) CutOldest();
      if (fds[1].revents != 0) Accept();
    }
    greeting_.clear();
  }

 private:
  struct Guest {
    std::unique_ptr<Link> link;
    Clock::time_point until;
    std::string from;
  };
  struct Admittee {
    std::weak_ptr<Socket> socket;  // its link's, which closes it
    Clock::time_point until;
  };
  using Guests = std::list<Guest>;  // the oldest first, as the next

  int UntilDue() const {
    Clock::time_point due = Clock::time_point::max();
    if (!greeting_.empty()) due = greeting_.front().until;
    if (!admittees_.empty()) due = std::min(due, admittees_.front().until);
    const Clock::time_point now = Clock::now();
    if (full_until_ > now) due = std::min(due, full_until_);
    if (due == Clock::time_point::max()) return -1;
    return static_cast<int>(std::max<int64_t>(0, std::chrono::ceil<milliseconds>(due - now).count()));
  }

  void Accept() {
    // So many of those who wait in one turn.
    for (int i = 0; i < 16; ++i) {
      sockaddr_storage from{};
      socklen_t size = sizeof(from);
      const int s =
          ::accept4(listening_->descriptor(), reinterpret_cast<sockaddr*>(&from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (s < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) MakeRoom();
        if (errno == EINTR || errno == ECONNABORTED) continue;
        return;
      }
      auto socket = std::make_shared<Socket>(s);
      const int on = 1;
      ::setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
      if (tls_ == nullptr) {
        Admit(PlainLink(std::move(socket)));
        continue;
      }
      absl::StatusOr<std::unique_ptr<Link>> link = tls_->Accept(std::move(socket));
      if (!link.ok()) {
        Complain(NameOf(from, size), link.status());
        continue;
      }
      if (greeting_.size() >= bounds_.most)
        Refuse(greeting_.begin(), Unavailable("it has not ended the handshake, and others wait"));
      greeting_.push_back({*std::move(link), Clock::now() + bounds_.patience, NameOf(from, size)});
      GoOn(std::prev(greeting_.end()));
    }
  }

  // No descriptor is left for who wants to come.
  void MakeRoom() {
    const int error = errno;
    if (!greeting_.empty()) {
      Refuse(greeting_.begin(), Unavailable("it has not ended the handshake, and there is no descriptor for others"));
    } else {
      ForgetGreeted();
      if (!admittees_.empty()) CutOldest();
    }
    Say(StrCat("connections wait, since none can be accepted: ", std::strerror(error)));
    full_until_ = Clock::now() + milliseconds(50);
    errno = error;
  }

  void GoOn(Guests::iterator guest) {
    absl::Status why;
    switch (guest->link->Handshake(&why)) {
      case Link::Result::kAgain:
        return;
      case Link::Result::kEnd:
        return Refuse(guest, why);
      case Link::Result::kOk:
        std::unique_ptr<Link> link = std::move(guest->link);
        greeting_.erase(guest);
        Admit(std::move(link));
    }
  }
  void Admit(std::unique_ptr<Link> link) {
    if (admittees_.size() >= bounds_.most) ForgetGreeted();
    if (admittees_.size() >= bounds_.most) CutOldest();
    admittees_.push_back({link->socket(), Clock::now() + bounds_.patience});
    const absl::Status done = Guarded("a new connection", [&] {
      admitted_(std::move(link));
      return absl::OkStatus();
    });
    if (!done.ok()) Complain("a new connection", done);
  }
  void ForgetGreeted() {
    admittees_.remove_if([](const Admittee& a) {
      const std::shared_ptr<Socket> socket = a.socket.lock();
      return socket == nullptr || socket->greeted.load(std::memory_order_relaxed);
    });
  }
  void CutOldest() {
    if (const std::shared_ptr<Socket> socket = admittees_.front().socket.lock()) socket->Cut();
    admittees_.pop_front();
  }
  void Refuse(Guests::iterator guest, const absl::Status& why) {
    Complain(guest->from, why);
    greeting_.erase(guest);
  }
  void Complain(const std::string& whom, const absl::Status& why) {
    Say(StrCat("refused ", whom, ": ", std::string_view(why.message().data(), why.message().size())));
  }
  // Whoever reaches the port can make it say something: once a second.
  void Say(const std::string& what) {
    const Clock::time_point now = Clock::now();
    if (now < silent_until_) {
      ++unsaid_;
      return;
    }
    spdlog::warn("{}{}", what, unsaid_ == 0 ? "" : StrCat("; and ", unsaid_, " such things before"));
    silent_until_ = now + std::chrono::seconds(1);
    unsaid_ = 0;
  }

  const std::shared_ptr<Socket> listening_, bell_;
  const std::shared_ptr<TlsContext> tls_;
  const Admitted admitted_;
  const Bounds bounds_;
  Guests greeting_;
  std::list<Admittee> admittees_;
  Clock::time_point full_until_{}, silent_until_{};
  int64_t unsaid_ = 0;
};

absl::StatusOr<std::unique_ptr<Gate>> Gate::Open(const std::string& host, uint16_t port,
                                                 std::shared_ptr<TlsContext> tls, Admitted admitted, Bounds bounds) {
  auto listening = Listen(host, port);
  // An older machine may not have the newer protocol at all.
  if (!listening.ok() && host.empty()) listening = Listen("0.0.0.0", port);
  if (!listening.ok()) return listening.status();
  const int bell = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (bell < 0) return Unavailable("no descriptor for the port: ", std::strerror(errno));
  return std::unique_ptr<Gate>(new Gate(std::make_shared<Loop>(*std::move(listening), std::make_shared<Socket>(bell),
                                                               std::move(tls), std::move(admitted), bounds)));
}

Gate::Gate(std::shared_ptr<Loop> loop) : loop_(std::move(loop)), thread_([loop = loop_] { loop->Run(); }) {}

void Gate::Close() {
  if (loop_ == nullptr) return;
  loop_->Ring();
  thread_.join();
  loop_ = nullptr;  // and with it the port
}

}  // namespace troupe
