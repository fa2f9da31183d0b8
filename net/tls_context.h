// What TlsOptions name, read and checked: it makes links that are encrypted and authenticated.
//
// Everything of OpenSSL's is behind this header. Without OpenSSL there is no context.
//
// Thread rule: thread safe. Make reads files; Accept and Connect wait for that for 100 ms at most.
#ifndef TROUPE_NET_TLS_CONTEXT_H_
#define TROUPE_NET_TLS_CONTEXT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "net/link.h"
#include "troupe/tls.h"

namespace troupe {

class TlsContext {
 public:
  virtual ~TlsContext() = default;
  // Null: without TLS. Errors as of UseTls.
  static absl::StatusOr<std::shared_ptr<TlsContext>> Make(const TlsOptions& options);
  // A link on a socket that was accepted, or connected, whose handshake has not begun.
  virtual absl::StatusOr<std::unique_ptr<Link>> Accept(std::shared_ptr<Socket> socket) = 0;
  virtual absl::StatusOr<std::unique_ptr<Link>> Connect(std::shared_ptr<Socket> socket) = 0;
};

// That of the clients of this process.
absl::StatusOr<std::shared_ptr<TlsContext>> ClientTls();

// `options`, or what the environment has in their place.
TlsOptions WithEnvironment(const TlsOptions& options);
// Whether they name anything, so that connections are to have TLS.
bool NamesTls(const TlsOptions& options);

// After so many records of at most 16 KiB a link takes a new key for what it writes; the other side
// does so itself. One key of AES-GCM is good for 2^24.5 of them (RFC 8446, 5.5).
inline constexpr uint64_t kMostRecordsOfAKey = uint64_t{1} << 23;

// With OpenSSL, for Make. `passphrase`: of the environment, used without a file.
absl::StatusOr<std::shared_ptr<TlsContext>> OpenTls(const TlsOptions& options, std::string passphrase,
                                                    uint64_t most_records = kMostRecordsOfAKey);

}  // namespace troupe

#endif  // TROUPE_NET_TLS_CONTEXT_H_
