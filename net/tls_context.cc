#include "net/tls_context.h"

#include <cstdlib>
#include <mutex>
#include <utility>

namespace troupe {
namespace {

std::string EnvironmentText(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// What UseTls was told, and what was made of it. Without, what the environment says now.
struct Clients {
  std::mutex mu;
  bool told = false;
  std::shared_ptr<TlsContext> context;
};
Clients& OfClients() {
  static auto& clients = *new Clients;
  return clients;
}

}  // namespace

#ifndef TROUPE_TLS
absl::StatusOr<std::shared_ptr<TlsContext>> OpenTls(const TlsOptions&, std::string, uint64_t) {
  return absl::UnimplementedError("this Troupe was built without OpenSSL, and has no TLS");
}
absl::Status MakeClusterCertificate(const std::string&) {
  return absl::UnimplementedError("this Troupe was built without OpenSSL, and makes no certificates");
}
#endif

bool NamesTls(const TlsOptions& o) {
  return !(o.certificate.empty() && o.key.empty() && o.ca_file.empty() && o.ca_folder.empty() &&
           o.passphrase_file.empty() && o.peer_name.empty());
}

TlsOptions WithEnvironment(const TlsOptions& options) {
  if (NamesTls(options) || !options.use_environment) return options;
  TlsOptions o;
  o.certificate = EnvironmentText("TROUPE_TLS_CERTIFICATE");
  o.key = EnvironmentText("TROUPE_TLS_KEY");
  o.ca_file = EnvironmentText("TROUPE_TLS_CA_FILE");
  o.ca_folder = EnvironmentText("TROUPE_TLS_CA_FOLDER");
  o.passphrase_file = EnvironmentText("TROUPE_TLS_PASSPHRASE_FILE");
  o.peer_name = EnvironmentText("TROUPE_TLS_PEER_NAME");
  return o;
}

absl::StatusOr<std::shared_ptr<TlsContext>> TlsContext::Make(const TlsOptions& options) {
  const TlsOptions o = WithEnvironment(options);
  if (!NamesTls(o)) return std::shared_ptr<TlsContext>();
  const auto needed = [](const char* what, const char* variable) {
    return InvalidArgument("TLS needs a certificate, its key, and a CA to trust: TlsOptions.", what, " (", variable,
                           ") names none");
  };
  if (o.certificate.empty()) return needed("certificate", "TROUPE_TLS_CERTIFICATE");
  if (o.key.empty()) return needed("key", "TROUPE_TLS_KEY");
  if (o.ca_file.empty() && o.ca_folder.empty()) return needed("ca_file", "TROUPE_TLS_CA_FILE");
  const bool from_environment = options.use_environment && o.passphrase_file.empty();
  return OpenTls(o, from_environment ? EnvironmentText("TROUPE_TLS_PASSPHRASE") : "");
}

absl::Status UseTls(const TlsOptions& options) {
  TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<TlsContext> context, TlsContext::Make(options));
  Clients& clients = OfClients();
  std::lock_guard<std::mutex> lock(clients.mu);
  clients.told = NamesTls(options) || !options.use_environment;
  clients.context = std::move(context);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<TlsContext>> ClientTls() {
  {
    Clients& clients = OfClients();
    std::lock_guard<std::mutex> lock(clients.mu);
    if (clients.told) return clients.context;
  }
  return TlsContext::Make(TlsOptions());
}

}  // namespace troupe
