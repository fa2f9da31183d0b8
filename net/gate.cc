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

#include "graph/core/guarded.h"
#include "graph/core/log.h"
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
        bounds_(bounds) {
    fds_.reserve(2 + bounds_.most);
  }

  void Ring() { (void)::eventfd_write(bell_->descriptor(), 1); }
  void Run() noexcept {
    for (bool open = true; open;) {
      const absl::Status done = Guarded("a turn of the port", [&] { open = Turn(); });
      if (done.ok()) continue;
      // What could not be had was dropped on the way.
      Complain("a connection", done);
      std::this_thread::sleep_for(milliseconds(10));
    }
    greeting_.clear();
  }

 private:
  struct Guest {
    std::unique_ptr<Link> link;
    std::string from;
    Clock::time_point came;
    bool spoke = false;
  };
  struct Admittee {
    std::weak_ptr<Socket> socket;  // its link's, which closes it
    Clock::time_point came;
  };
  using Guests = std::list<Guest>;  // the oldest first, as the next

  // False once the bell has rung.
  bool Turn() {
    if (admittees_.size() >= bounds_.most) ForgetGreeted();
    Clock::time_point now = Clock::now();
    const bool accepts = now >= full_until_ && HasRoom(now);
    fds_.clear();  // it has room for all
    fds_.push_back({bell_->descriptor(), POLLIN, 0});
    fds_.push_back({listening_->descriptor(), accepts ? short{POLLIN} : short{0}, 0});
    for (const Guest& g : greeting_)
      fds_.push_back({g.link->descriptor(), static_cast<short>(POLLIN | (g.link->Owes() ? POLLOUT : 0)), 0});
    if (::poll(fds_.data(), fds_.size(), UntilDue(now)) < 0 && errno != EINTR)
      std::this_thread::sleep_for(milliseconds(10));
    if (fds_[0].revents != 0) return false;
    now = Clock::now();
    auto guest = greeting_.begin();
    for (size_t i = 2; i < fds_.size(); ++i) {
      const auto next = guest++;
      if ((fds_[i].revents & POLLIN) != 0) next->spoke = true;
      if (fds_[i].revents != 0) GoOn(next);
    }
    while (!greeting_.empty() && greeting_.front().came + bounds_.patience <= now)
      Refuse(greeting_.begin(), "it has not ended the handshake in time");
    ForgetGreeted();
    while (!admittees_.empty() && admittees_.front().came + bounds_.patience <= now) Cut(admittees_.begin());
    if (fds_[1].revents != 0) Accept(now);
    return true;
  }

  // Until when others cannot have its place. Who has come only now may be heard in the next turn.
  Clock::time_point SafeUntil(const Guest& g) const { return g.came + bounds_.patience / (g.spoke ? 10 : 50); }
  Clock::time_point SafeUntil(const Admittee& a) const { return a.came + bounds_.patience / 20; }
  // The oldest that is no newcomer.
  template <class List>
  auto Oldest(List* list, Clock::time_point now) const {
    return std::find_if(list->begin(), list->end(), [&](const auto& one) { return SafeUntil(one) <= now; });
  }
  template <class List>
  bool HasRoom(List* list, Clock::time_point now) const {
    return list->size() < bounds_.most || Oldest(list, now) != list->end();
  }
  bool HasRoom(Clock::time_point now) { return HasRoom(&greeting_, now) && HasRoom(&admittees_, now); }

  int UntilDue(Clock::time_point now) const {
    Clock::time_point due = Clock::time_point::max();
    const auto look = [&](const auto& list) {
      if (!list.empty()) due = std::min(due, list.front().came + bounds_.patience);
      if (list.size() < bounds_.most) return;
      for (const auto& one : list) {
        if (SafeUntil(one) > now) due = std::min(due, SafeUntil(one));
      }
    };
    look(greeting_);
    look(admittees_);
    // Nobody rings when one of them has greeted.
    if (admittees_.size() >= bounds_.most) due = std::min(due, now + milliseconds(5));
    if (full_until_ > now) due = std::min(due, full_until_);
    if (due == Clock::time_point::max()) return -1;
    return static_cast<int>(std::max<int64_t>(0, std::chrono::ceil<milliseconds>(due - now).count()));
  }

  static std::shared_ptr<Socket> Owned(int descriptor) {
    try {
      return std::make_shared<Socket>(descriptor);
    } catch (...) {
      ::close(descriptor);
      throw;
    }
  }

  void Accept(Clock::time_point now) {
    // So many of those who wait in one turn.
    for (int i = 0; i < 16; ++i) {
      if (admittees_.size() >= bounds_.most) ForgetGreeted();
      if (!HasRoom(now)) return;
      sockaddr_storage from{};
      socklen_t size = sizeof(from);
      const int s =
          ::accept4(listening_->descriptor(), reinterpret_cast<sockaddr*>(&from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (s < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) MakeRoom(now);
        if (errno == EINTR || errno == ECONNABORTED) continue;
        return;
      }
      std::shared_ptr<Socket> socket = Owned(s);
      const int on = 1;
      ::setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
      if (tls_ == nullptr) {
        Admit(PlainLink(std::move(socket)), now);
        continue;
      }
      absl::StatusOr<std::unique_ptr<Link>> link = tls_->Accept(std::move(socket));
      if (!link.ok()) {
        Complain(NameOf(from, size), link.status());
        continue;
      }
      if (greeting_.size() >= bounds_.most)
        Refuse(Oldest(&greeting_, now), "it has not ended the handshake, and others wait");
      greeting_.push_back({*std::move(link), NameOf(from, size), now});
    }
  }

  // No descriptor is left for who wants to come.
  void MakeRoom(Clock::time_point now) {
    const int error = errno;
    if (const auto guest = Oldest(&greeting_, now); guest != greeting_.end()) {
      Refuse(guest, "it has not ended the handshake, and there is no descriptor for others");
    } else {
      ForgetGreeted();
      if (const auto a = Oldest(&admittees_, now); a != admittees_.end()) Cut(a);
    }
    full_until_ = now + milliseconds(50);
    Say([&] { return StrCat("connections wait, since none can be accepted: ", std::strerror(error)); });
    errno = error;
  }

  void GoOn(Guests::iterator guest) {
    absl::Status why;
    Link::Result result = Link::Result::kEnd;
    const absl::Status done = Guarded("its handshake", [&] { result = guest->link->Handshake(&why); });
    if (!done.ok()) why = done;
    switch (result) {
      case Link::Result::kAgain:
        return;
      case Link::Result::kEnd:
        return Refuse(guest, std::string_view(why.message().data(), why.message().size()));
      case Link::Result::kOk:
        std::unique_ptr<Link> link = std::move(guest->link);
        greeting_.erase(guest);
        Admit(std::move(link), Clock::now());
    }
  }
  void Admit(std::unique_ptr<Link> link, Clock::time_point now) {
    if (admittees_.size() >= bounds_.most) ForgetGreeted();
    if (admittees_.size() >= bounds_.most) {
      if (const auto oldest = Oldest(&admittees_, now); oldest != admittees_.end()) Cut(oldest);
    }
    admittees_.push_back({link->socket(), now});
    const absl::Status done = Guarded("a new connection", [&] { admitted_(std::move(link)); });
    if (!done.ok()) Complain("a new connection", done);
  }
  void ForgetGreeted() {
    admittees_.remove_if([](const Admittee& a) {
      const std::shared_ptr<Socket> socket = a.socket.lock();
      return socket == nullptr || socket->greeted.load(std::memory_order_relaxed);
    });
  }
  void Cut(std::list<Admittee>::iterator a) {
    if (const std::shared_ptr<Socket> socket = a->socket.lock()) socket->Cut();
    admittees_.erase(a);
  }
  void Refuse(Guests::iterator guest, std::string_view why) {
    const std::string from = std::move(guest->from);
    greeting_.erase(guest);
    Complain(from, why);
  }
  void Complain(std::string_view whom, const absl::Status& why) {
    Complain(whom, std::string_view(why.message().data(), why.message().size()));
  }
  void Complain(std::string_view whom, std::string_view why) {
    Say([&] { return StrCat("refused ", whom, ": ", why); });
  }
  // Whoever reaches the port can make it say something: once a second. Throws nothing: without
  // memory, nothing is said.
  template <class Text>
  void Say(Text text) {
    const Clock::time_point now = Clock::now();
    if (now < silent_until_) {
      ++unsaid_;
      return;
    }
    (void)Guarded("a warning", [&] {
      LogWarning(text(), unsaid_ == 0 ? "" : StrCat("; and ", unsaid_, " such things before"));
      silent_until_ = now + std::chrono::seconds(1);
      unsaid_ = 0;
    });
  }

  const std::shared_ptr<Socket> listening_, bell_;
  const std::shared_ptr<TlsContext> tls_;
  const Admitted admitted_;
  const Bounds bounds_;
  Guests greeting_;
  std::list<Admittee> admittees_;
  std::vector<pollfd> fds_;
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
