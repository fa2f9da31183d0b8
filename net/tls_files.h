// The files that TlsOptions name, as they are now, and what OpenSSL makes of them.
//
// Thread rule: pure functions and plain values.
#ifndef TROUPE_NET_TLS_FILES_H_
#define TROUPE_NET_TLS_FILES_H_

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/tls.h"

namespace troupe {

// Frees what OpenSSL made.
template <auto kFree>
struct FreeBy {
  template <class T>
  void operator()(T* t) const {
    kFree(t);
  }
};
using SslContext = std::shared_ptr<SSL_CTX>;

struct TlsFiles {
  std::string certificate, key, passphrase;
  std::vector<std::pair<std::string, std::string>> cas;  // path, text
  friend bool operator==(const TlsFiles&, const TlsFiles&) = default;
};

// NOT_FOUND or INVALID_ARGUMENT with the file's name. `passphrase` when no file has it.
absl::StatusOr<TlsFiles> ReadTlsFiles(const TlsOptions& options, const std::string& passphrase);
// INVALID_ARGUMENT names the file that has no such thing, has expired, or does not fit the others.
absl::StatusOr<SslContext> MakeSslContext(const TlsOptions& options, const TlsFiles& files);

// What OpenSSL says of its last failure on this thread.
std::string SslReason();

}  // namespace troupe

#endif  // TROUPE_NET_TLS_FILES_H_
