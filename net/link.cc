#include "net/link.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace troupe {
namespace {

bool Later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

class Plain : public Link {
 public:
  explicit Plain(std::shared_ptr<Socket> socket) : Link(std::move(socket)) {}
  Result Handshake(absl::Status* /*why*/) override { return Result::kOk; }
  Result Read(char* to, size_t most, size_t* got) override {
    if (begin_ == end_) {
      // Messages are short mostly, and come in twos and threes: one call of the system for several.
      const bool straight = most >= sizeof(ahead_);
      const ssize_t n = straight ? ::recv(descriptor(), to, most, MSG_DONTWAIT)
                                 : ::recv(descriptor(), ahead_, sizeof(ahead_), MSG_DONTWAIT);
      if (n < 0 && Later(errno)) return Result::kAgain;
      if (n <= 0) return Result::kEnd;
      *got = static_cast<size_t>(n);
      if (straight) return Result::kOk;
      begin_ = 0;
      end_ = *got;
    }
    *got = std::min(most, end_ - begin_);
    std::memcpy(to, ahead_ + begin_, *got);
    begin_ += *got;
    return Result::kOk;
  }
  Result Peek(absl::Status* why) override {
    unsigned char byte = 0;
    const ssize_t n = ::recv(descriptor(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && Later(errno)) return Result::kAgain;
    if (n > 0 && byte != kNoTlsAlert[0]) return Result::kOk;
    *why = n > 0 ? FailedPrecondition("its connections are encrypted (TLS), and this process has no certificate: see ",
                                      "TlsOptions")
                 : Unavailable("it closed the connection", n < 0 ? ": " : "", n < 0 ? std::strerror(errno) : "");
    return Result::kEnd;
  }
  Result Write(const char* from, size_t size, size_t* taken) override {
    const ssize_t n = ::send(descriptor(), from, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && Later(errno)) return Result::kAgain;
    if (n <= 0) return Result::kEnd;
    *taken = static_cast<size_t>(n);
    return Result::kOk;
  }
  bool Owes() const override { return false; }
  Result Flush() override { return Result::kOk; }
  bool Holds() const override { return begin_ != end_; }
  void Finish() override { ::shutdown(descriptor(), SHUT_WR); }

 private:
  char ahead_[16384];
  size_t begin_ = 0, end_ = 0;  // what has been read ahead
};

}  // namespace

Socket::~Socket() { ::close(descriptor_); }
void Socket::Cut() { ::shutdown(descriptor_, SHUT_RDWR); }

std::unique_ptr<Link> PlainLink(std::shared_ptr<Socket> socket) { return std::make_unique<Plain>(std::move(socket)); }

}  // namespace troupe
