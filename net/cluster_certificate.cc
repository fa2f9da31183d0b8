// MakeClusterCertificate: a CA that lives as long as the call, and the one certificate that it
// gives.
#ifdef TROUPE_TLS
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "net/tls_files.h"

namespace troupe {
namespace {

using Key = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreeBy<X509_free>>;

bool AddExtension(X509* to, X509* by, int what, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, by, to, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, FreeBy<X509_EXTENSION_free>> e(
      ::X509V3_EXT_conf_nid(nullptr, &context, what, value));
  return e != nullptr && ::X509_add_ext(to, e.get(), -1) == 1;
}

// Of `key`, signed by `ca` with its key, or by itself where that is null. Null when OpenSSL fails.
Certificate Sign(const char* name, EVP_PKEY* key, X509* ca, EVP_PKEY* ca_key) {
  constexpr long kTenYears = 10L * 365 * 24 * 3600;  // NOLINT(runtime/int): OpenSSL's
  Certificate c(::X509_new());
  uint64_t number = 0;
  if (c == nullptr || ::RAND_bytes(reinterpret_cast<unsigned char*>(&number), sizeof(number)) != 1) return nullptr;
  X509_NAME* const subject = ::X509_get_subject_name(c.get());
  const bool made = ::X509_set_version(c.get(), 2) == 1 &&
                    ::ASN1_INTEGER_set_uint64(::X509_get_serialNumber(c.get()), number | 1) == 1 &&
                    // Clocks of machines differ a little.
                    ::X509_gmtime_adj(::X509_getm_notBefore(c.get()), -3600) != nullptr &&
                    ::X509_gmtime_adj(::X509_getm_notAfter(c.get()), kTenYears) != nullptr &&
                    ::X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                                 reinterpret_cast<const unsigned char*>(name), -1, -1, 0) == 1 &&
                    ::X509_set_issuer_name(c.get(), ca == nullptr ? subject : ::X509_get_subject_name(ca)) == 1 &&
                    ::X509_set_pubkey(c.get(), key) == 1 &&
                    AddExtension(c.get(), ca == nullptr ? c.get() : ca, NID_basic_constraints,
                                 ca == nullptr ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE") &&
                    AddExtension(c.get(), ca == nullptr ? c.get() : ca, NID_key_usage,
                                 ca == nullptr ? "critical,keyCertSign" : "critical,digitalSignature") &&
                    // By which a CA is told from another of this name.
                    AddExtension(c.get(), ca == nullptr ? c.get() : ca, NID_subject_key_identifier, "hash") &&
                    (ca == nullptr || AddExtension(c.get(), ca, NID_authority_key_identifier, "keyid:always")) &&
                    ::X509_sign(c.get(), ca_key, ::EVP_sha256()) != 0;
  return made ? std::move(c) : nullptr;
}

// The folder of the files, as a descriptor: what is checked is what is written to.
class Folder {
 public:
  // A new one is its owner's alone. FAILED_PRECONDITION where others could put a key or a CA of
  // their own in place of these.
  static absl::StatusOr<std::unique_ptr<Folder>> Open(std::string path) {
    namespace fs = std::filesystem;
    // Behind a '/' a link would be followed.
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    std::error_code error;
    if (const fs::path above = fs::path(path).parent_path(); !above.empty()) fs::create_directories(above, error);
    if (error) return Unavailable(path, ": ", error.message());
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return Unavailable(path, ": ", std::strerror(errno));
    if (fs::is_symlink(path, error))
      return FailedPrecondition(path, ": it is a symbolic link: name the folder itself, which no other can take ",
                                "the place of");
    const int d = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (d < 0) return Unavailable(path, ": ", std::strerror(errno));
    auto folder = std::make_unique<Folder>(d, std::move(path));
    struct stat seen {};
    if (::fstat(d, &seen) != 0) return Unavailable(folder->path_, ": ", std::strerror(errno));
    if ((seen.st_mode & S_IWOTH) != 0)
      return FailedPrecondition(folder->path_, ": any user may write there, and put another key or CA in place of ",
                                "these: take a folder of your own (chmod o-w)");
    return folder;
  }
  Folder(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  // All files, or none.
  ~Folder() {
    for (const char* const file : made_) ::unlinkat(descriptor_, file, 0);
    ::close(descriptor_);
  }
  std::string PathOf(const char* file) const { return StrCat(path_, "/", file); }
  bool Has(const char* file) const {
    struct stat seen {};
    return ::fstatat(descriptor_, file, &seen, AT_SYMLINK_NOFOLLOW) == 0;
  }
  // A new file, which only its owner may read.
  template <class Writes>
  absl::Status Write(const char* file, const Writes& writes) {
    const std::unique_ptr<BIO, FreeBy<BIO_free>> text(::BIO_new(::BIO_s_mem()));
    if (text == nullptr || !writes(text.get())) return ResourceExhausted(PathOf(file), ": ", SslReason());
    const int d = ::openat(descriptor_, file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (d < 0) return Unavailable(PathOf(file), ": ", std::strerror(errno));
    made_.push_back(file);
    char* from = nullptr;
    auto left = static_cast<size_t>(BIO_get_mem_data(text.get(), &from));
    bool good = true;
    while (good && left > 0) {
      const ssize_t n = ::write(d, from, left);
      if (n < 0 && errno == EINTR) continue;
      good = n > 0;
      from += good ? n : 0;
      left -= good ? static_cast<size_t>(n) : 0;
    }
    good = good && ::fsync(d) == 0;
    const int error = errno;
    ::close(d);
    return good ? absl::OkStatus() : Unavailable(PathOf(file), ": it cannot be written: ", std::strerror(error));
  }
  void Keep() { made_.clear(); }

 private:
  const int descriptor_;
  const std::string path_;
  std::vector<const char*> made_;
};

}  // namespace

absl::Status MakeClusterCertificate(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<Folder> folder, Folder::Open(path));
  for (const char* const file : {"ca.crt", "node.crt", "node.key"}) {
    if (folder->Has(file)) return Unavailable(folder->PathOf(file), ": the file is there already");
  }
  (void)::OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr);  // as OpenTls
  ::ERR_clear_error();
  const Key ca_key(::EVP_EC_gen("P-256")), key(::EVP_EC_gen("P-256"));
  if (ca_key == nullptr || key == nullptr) return ResourceExhausted("OpenSSL makes no key: ", SslReason());
  const Certificate ca = Sign("Troupe cluster", ca_key.get(), nullptr, ca_key.get());
  const Certificate node = ca == nullptr ? nullptr : Sign("node", key.get(), ca.get(), ca_key.get());
  if (node == nullptr) return ResourceExhausted("OpenSSL makes no certificate: ", SslReason());
  const auto certificate = [](X509* c) { return [c](BIO* to) { return ::PEM_write_bio_X509(to, c) == 1; }; };
  TROUPE_RETURN_IF_ERROR(folder->Write("ca.crt", certificate(ca.get())));
  TROUPE_RETURN_IF_ERROR(folder->Write("node.crt", certificate(node.get())));
  TROUPE_RETURN_IF_ERROR(folder->Write("node.key", [&](BIO* to) {
    return ::PEM_write_bio_PKCS8PrivateKey(to, key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1;
  }));
  folder->Keep();
  return absl::OkStatus();
}

}  // namespace troupe
#endif  // TROUPE_TLS
