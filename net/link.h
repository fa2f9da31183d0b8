// A connected socket as a sequence of bytes, plain or encrypted; nothing here blocks.
//
// Whoever accepts or makes a connection brings its Handshake to an end first, and hands the link to
// CAF then (link_scribe.h). A link says what it can do now; waiting is its owner's matter: for
// bytes from the other side, and while it Owes bytes, until the socket takes more.
//
// Thread rule: a link has one thread at a time. Cut and `greeted` of a socket, from any.
#ifndef TROUPE_NET_LINK_H_
#define TROUPE_NET_LINK_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "troupe/status.h"

namespace troupe {

// A descriptor, which is closed when nobody refers to it any more.
class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int descriptor() const { return descriptor_; }
  // Ends the connection: who reads or writes finds it closed.
  void Cut();
  // The other side has said in CAF's protocol who it is.
  std::atomic<bool> greeted{false};

 private:
  const int descriptor_;
};

class Link {
 public:
  enum class Result {
    kOk,
    kAgain,  // when the socket is ready
    kEnd,    // the connection is over: Why
  };
  explicit Link(std::shared_ptr<Socket> socket) : socket_(std::move(socket)) {}
  virtual ~Link() = default;

  // kOk: bytes can be read and written. `why` has the sentence for kEnd.
  virtual Result Handshake(absl::Status* why) = 0;
  // kOk: at least one byte. `most` > 0.
  virtual Result Read(char* to, size_t most, size_t* got) = 0;
  // kOk: a byte can be read, and has not been.
  virtual Result Peek(absl::Status* why) = 0;
  // kOk: `taken` of them, at least one, which may not have left yet. `size` > 0.
  virtual Result Write(const char* from, size_t size, size_t* taken) = 0;
  // Bytes that were taken wait for the socket.
  virtual bool Owes() const = 0;
  // Sends these, as far as the socket takes them; kOk when all are gone.
  virtual Result Flush() = 0;
  // Bytes of the other side may be in here already, of which the socket knows nothing.
  virtual bool Holds() const = 0;
  // No more is written: tells the other side.
  virtual void Finish() = 0;

  const std::shared_ptr<Socket>& socket() const { return socket_; }
  int descriptor() const { return socket_->descriptor(); }

 private:
  const std::shared_ptr<Socket> socket_;
};

// Without encryption. Its handshake is over at once.
std::unique_ptr<Link> PlainLink(std::shared_ptr<Socket> socket);

// What a server with TLS answers to bytes that are no TLS, an alert: the first of them is no byte
// of CAF's protocol, so a client without TLS knows what is there.
inline constexpr unsigned char kNoTlsAlert[] = {0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x0a};

}  // namespace troupe

#endif  // TROUPE_NET_LINK_H_
