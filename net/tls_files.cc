#ifdef TROUPE_TLS
#include "net/tls_files.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "graph/core/read_file.h"

namespace troupe {
namespace {

using Certificate = std::unique_ptr<X509, FreeBy<X509_free>>;
using Bio = std::unique_ptr<BIO, FreeBy<BIO_free>>;

// A file of certificates or of a key. Others, a pipe for one, may block or never end.
absl::StatusOr<std::string> ReadPem(const std::string& path) {
  constexpr uintmax_t kMost = 1 << 20;
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return ReadFile(path, kMost).status();  // with the system's reason
  if (!std::filesystem::is_regular_file(status)) return InvalidArgument(path, ": it is no regular file");
  if (std::filesystem::file_size(path, error) > kMost || error)
    return InvalidArgument(path, ": it has more than ", uint64_t{kMost}, " bytes");
  return ReadFile(path, kMost);
}

absl::Status ReadFolder(const std::string& folder, std::vector<std::pair<std::string, std::string>>* cas) {
  constexpr size_t kMost = 1000;
  std::error_code error;
  std::vector<std::string> paths;
  for (std::filesystem::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    const std::string extension = i->path().extension().string();
    if (extension != ".pem" && extension != ".crt") continue;
    paths.push_back(i->path().string());
    if (paths.size() > kMost) return InvalidArgument(folder, ": a folder of CAs has at most ", kMost, " files");
  }
  if (error) return NotFound(folder, ": ", error.message());
  if (paths.empty()) return InvalidArgument(folder, ": no file *.pem or *.crt is there");
  std::sort(paths.begin(), paths.end());
  for (std::string& path : paths) {
    TROUPE_ASSIGN_OR_RETURN(std::string text, ReadPem(path));
    cas->emplace_back(std::move(path), std::move(text));
  }
  return absl::OkStatus();
}

Bio Over(const std::string& text) { return Bio(::BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

// Nobody is asked on a terminal.
int Passphrase(char* to, int most, int /*writing*/, void* passphrase) {
  const auto& p = *static_cast<const std::string*>(passphrase);
  if (p.size() > static_cast<size_t>(most)) return -1;
  std::memcpy(to, p.data(), p.size());
  return p.empty() ? -1 : static_cast<int>(p.size());
}

// All of the file, at least one.
absl::StatusOr<std::vector<Certificate>> Certificates(const std::string& path, const std::string& text) {
  const Bio from = Over(text);
  std::vector<Certificate> all;
  std::string none;  // a certificate has no passphrase
  while (X509* const next = ::PEM_read_bio_X509(from.get(), nullptr, &Passphrase, &none)) all.emplace_back(next);
  const unsigned long error = ::ERR_peek_last_error();  // NOLINT(runtime/int): OpenSSL's
  const bool at_end = ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  if (!at_end) return InvalidArgument(path, ": a certificate in it cannot be read: ", SslReason());
  ::ERR_clear_error();
  if (all.empty()) return InvalidArgument(path, ": no certificate in PEM form is there");
  return all;
}

std::string Printed(const ASN1_TIME* time) {
  const Bio to(::BIO_new(::BIO_s_mem()));
  ::ASN1_TIME_print(to.get(), time);
  char* text = nullptr;
  const auto size = BIO_get_mem_data(to.get(), &text);
  return std::string(text, static_cast<size_t>(std::max<decltype(size)>(0, size)));
}

absl::Status CheckTimes(const std::string& path, const X509& c) {
  const ASN1_TIME* const from = ::X509_get0_notBefore(&c);
  const ASN1_TIME* const until = ::X509_get0_notAfter(&c);
  if (::X509_cmp_current_time(until) < 0) return InvalidArgument(path, ": the certificate expired at ", Printed(until));
  if (::X509_cmp_current_time(from) > 0)
    return InvalidArgument(path, ": the certificate is not valid before ", Printed(from));
  return absl::OkStatus();
}

// That those of the same CA accept it.
absl::Status CheckChain(const TlsOptions& o, X509_STORE* store, X509* own, STACK_OF(X509) * others) {
  const std::unique_ptr<X509_STORE_CTX, FreeBy<X509_STORE_CTX_free>> check(::X509_STORE_CTX_new());
  if (check == nullptr || ::X509_STORE_CTX_init(check.get(), store, own, others) != 1)
    return ResourceExhausted(o.certificate, ": ", SslReason());
  if (::X509_verify_cert(check.get()) == 1) return absl::OkStatus();
  const std::string why = ::X509_verify_cert_error_string(::X509_STORE_CTX_get_error(check.get()));
  ::ERR_clear_error();
  const char* const both = o.ca_file.empty() || o.ca_folder.empty() ? "" : " and ";
  return InvalidArgument(o.certificate, ": the CAs of ", o.ca_file, both, o.ca_folder, " do not accept it: ", why);
}

}  // namespace

std::string SslReason() {
  const unsigned long error = ::ERR_peek_last_error();  // NOLINT(runtime/int): OpenSSL's
  ::ERR_clear_error();
  const char* const reason = ::ERR_reason_error_string(error);
  return reason == nullptr ? "no reason is given" : reason;
}

absl::StatusOr<TlsFiles> ReadTlsFiles(const TlsOptions& o, const std::string& passphrase) {
  TlsFiles files;
  TROUPE_ASSIGN_OR_RETURN(files.certificate, ReadPem(o.certificate));
  TROUPE_ASSIGN_OR_RETURN(files.key, ReadPem(o.key));
  files.passphrase = passphrase;
  if (!o.passphrase_file.empty()) {
    TROUPE_ASSIGN_OR_RETURN(files.passphrase, ReadPem(o.passphrase_file));
    files.passphrase.resize(std::min(files.passphrase.find_first_of("\r\n"), files.passphrase.size()));
  }
  if (!o.ca_file.empty()) {
    TROUPE_ASSIGN_OR_RETURN(std::string text, ReadPem(o.ca_file));
    files.cas.emplace_back(o.ca_file, std::move(text));
  }
  if (!o.ca_folder.empty()) TROUPE_RETURN_IF_ERROR(ReadFolder(o.ca_folder, &files.cas));
  return files;
}

absl::StatusOr<SslContext> MakeSslContext(const TlsOptions& o, const TlsFiles& files) {
  ::ERR_clear_error();
  SslContext context(::SSL_CTX_new(::TLS_method()), FreeBy<SSL_CTX_free>());
  SSL_CTX* const c = context.get();
  const auto failed = [] { return ResourceExhausted("OpenSSL: ", SslReason()); };
  if (c == nullptr || ::SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) != 1) return failed();
  if (::SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256") != 1)
    return failed();
  // A connection is for long, and each begins anew: there is nothing to resume.
  ::SSL_CTX_set_options(c, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  ::SSL_CTX_set_num_tickets(c, 0);
  ::SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  ::SSL_CTX_set_verify_depth(c, 8);
  // Several records with one call of the system.
  ::SSL_CTX_set_read_ahead(c, 1);
  ::SSL_CTX_set_default_read_buffer_len(c, 128 << 10);

  TROUPE_ASSIGN_OR_RETURN(std::vector<Certificate> chain, Certificates(o.certificate, files.certificate));
  const auto none = [](STACK_OF(X509) * stack) { sk_X509_free(stack); };
  const std::unique_ptr<STACK_OF(X509), decltype(none)> others(sk_X509_new_null(), none);
  if (others == nullptr || ::SSL_CTX_use_certificate(c, chain[0].get()) != 1)
    return InvalidArgument(o.certificate, ": ", SslReason());
  for (size_t i = 1; i < chain.size(); ++i) {
    if (::SSL_CTX_add1_chain_cert(c, chain[i].get()) != 1) return InvalidArgument(o.certificate, ": ", SslReason());
    sk_X509_push(others.get(), chain[i].get());
  }
  TROUPE_RETURN_IF_ERROR(CheckTimes(o.certificate, *chain[0]));

  const Bio from = Over(files.key);
  const std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>> key(
      ::PEM_read_bio_PrivateKey(from.get(), nullptr, &Passphrase, const_cast<std::string*>(&files.passphrase)));
  if (key == nullptr) {
    return InvalidArgument(
        o.key, ": the key cannot be read, ",
        files.passphrase.empty() ? "without a passphrase: " : "with the passphrase that is given: ", SslReason());
  }
  if (::SSL_CTX_use_PrivateKey(c, key.get()) != 1 || ::SSL_CTX_check_private_key(c) != 1)
    return InvalidArgument(o.key, ": the key is not that of the certificate ", o.certificate, ": ", SslReason());

  X509_STORE* const store = ::SSL_CTX_get_cert_store(c);
  for (const auto& [path, text] : files.cas) {
    TROUPE_ASSIGN_OR_RETURN(const std::vector<Certificate> cas, Certificates(path, text));
    for (const Certificate& ca : cas) {
      if (::X509_STORE_add_cert(store, ca.get()) != 1) return InvalidArgument(path, ": ", SslReason());
    }
  }
  TROUPE_RETURN_IF_ERROR(CheckChain(o, store, chain[0].get(), others.get()));
  if (!o.peer_name.empty()) {
    X509_VERIFY_PARAM* const p = ::SSL_CTX_get0_param(c);
    ::X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_WILDCARDS);
    if (::X509_VERIFY_PARAM_set1_host(p, o.peer_name.data(), o.peer_name.size()) != 1)
      return InvalidArgument("TlsOptions.peer_name: ", SslReason());
  }
  ::ERR_clear_error();
  return context;
}

}  // namespace troupe
#endif  // TROUPE_TLS
