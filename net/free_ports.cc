#include "net/free_ports.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <random>

namespace troupe {
namespace {

// A socket that holds the address, or why it cannot.
absl::StatusOr<int> Bind(const HostPort& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* all = nullptr;
  if (const int e = ::getaddrinfo(address.host.c_str(), StrCat(address.port).c_str(), &hints, &all); e != 0)
    return NotFound(address.ToString(), ": ", ::gai_strerror(e));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(all, &::freeaddrinfo);
  const int s = ::socket(all->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (s < 0) return ResourceExhausted("no socket: ", std::strerror(errno));
  // As servers do, which may take the port of one that has just ended.
  const int yes = 1;
  ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (::bind(s, all->ai_addr, all->ai_addrlen) == 0 && ::listen(s, 1) == 0) return s;
  const int error = errno;
  ::close(s);
  return Unavailable("the port of ", address.ToString(), " cannot be had: ", std::strerror(error));
}

}  // namespace

absl::StatusOr<std::vector<int>> FreePorts(size_t count) {
  constexpr int kFirst = 10000, kPorts = 22000;
  std::random_device random;
  int next = static_cast<int>(random() % kPorts);
  std::vector<int> ports, sockets;
  for (int tries = 0; ports.size() < count && tries < kPorts; ++tries, next = (next + 1) % kPorts) {
    const auto s = Bind({"127.0.0.1", static_cast<uint16_t>(kFirst + next)});
    if (!s.ok()) continue;
    sockets.push_back(*s);
    ports.push_back(kFirst + next);
  }
  for (const int s : sockets) ::close(s);
  if (ports.size() < count) return Unavailable("there are no ", count, " free ports on this machine");
  return ports;
}

absl::Status CheckPort(const HostPort& address) {
  TROUPE_ASSIGN_OR_RETURN(const int s, Bind(address));
  ::close(s);
  return absl::OkStatus();
}

}  // namespace troupe
