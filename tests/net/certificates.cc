#include "tests/net/certificates.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "graph/core/read_file.h"
#include "troupe/strings.h"

namespace troupe {
namespace {

std::string NewFolder() {
  static int number = 0;
  const auto path = std::filesystem::temp_directory_path() / StrCat("troupe_ca_", ::getpid(), "_", ++number);
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path.string();
}

void Extend(X509* c, X509* by, int what, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, by, c, nullptr, nullptr, 0);
  X509_EXTENSION* const e = ::X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str());
  BOOST_REQUIRE(e != nullptr);
  BOOST_REQUIRE(::X509_add_ext(c, e, -1) == 1);
  ::X509_EXTENSION_free(e);
}

std::FILE* Open(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  std::FILE* const file = std::fopen(path.c_str(), "w");
  BOOST_REQUIRE(file != nullptr);
  return file;
}

void WriteCertificate(const std::string& path, X509* c) {
  std::FILE* const file = Open(path);
  BOOST_REQUIRE(::PEM_write_X509(file, c) == 1);
  std::fclose(file);
}

}  // namespace

struct TestCa::Pair {
  Pair(const std::string& name, const Wish& wish, Pair* ca) : key(::EVP_EC_gen("P-256")), certificate(::X509_new()) {
    static int number = 0;
    ::X509_set_version(certificate, 2);
    ::ASN1_INTEGER_set(::X509_get_serialNumber(certificate), ++number);
    constexpr long kDay = 24 * 3600;  // NOLINT(runtime/int): OpenSSL's
    ::X509_gmtime_adj(::X509_getm_notBefore(certificate), wish.from_days * kDay);
    ::X509_gmtime_adj(::X509_getm_notAfter(certificate), wish.until_days * kDay);
    X509_NAME* const subject = ::X509_get_subject_name(certificate);
    ::X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name.c_str()), -1,
                                 -1, 0);
    X509* const by = ca == nullptr ? certificate : ca->certificate;
    ::X509_set_issuer_name(certificate, ::X509_get_subject_name(by));
    ::X509_set_pubkey(certificate, key);
    Extend(certificate, by, NID_basic_constraints, ca == nullptr ? "critical,CA:TRUE" : "CA:FALSE");
    if (!wish.dns_name.empty()) Extend(certificate, by, NID_subject_alt_name, "DNS:" + wish.dns_name);
    BOOST_REQUIRE(::X509_sign(certificate, ca == nullptr ? key : ca->key, ::EVP_sha256()) != 0);
  }
  ~Pair() {
    ::X509_free(certificate);
    ::EVP_PKEY_free(key);
  }
  EVP_PKEY* const key;
  X509* const certificate;
};

TestCa::TestCa() : folder_(NewFolder()), own_(std::make_unique<Pair>("CA in " + folder_, Wish(), nullptr)) {
  WriteCertificate(PathOf("ca.crt"), own_->certificate);
}

TestCa::~TestCa() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

TlsOptions TestCa::Issue(const std::string& name, const Wish& wish) const {
  const Pair pair(name, wish, own_.get());
  WriteCertificate(PathOf(name + ".crt"), pair.certificate);
  std::FILE* const file = Open(PathOf(name + ".key"));
  const int size = static_cast<int>(wish.passphrase.size());
  BOOST_REQUIRE(::PEM_write_PKCS8PrivateKey(file, pair.key, size == 0 ? nullptr : ::EVP_aes_256_cbc(),
                                            wish.passphrase.c_str(), size, nullptr, nullptr) == 1);
  std::fclose(file);
  TlsOptions o;
  o.certificate = PathOf(name + ".crt");
  o.key = PathOf(name + ".key");
  o.ca_file = PathOf("ca.crt");
  return o;
}

std::string TestCa::Text() const { return ReadFile(PathOf("ca.crt")).value(); }

std::vector<std::string> TlsFlagsOf(const TlsOptions& o) {
  return {"--tls_certificate", o.certificate, "--tls_key", o.key, "--tls_ca", o.ca_file};
}

namespace {

struct AllWithTls {
  AllWithTls() {
    if (std::getenv("TROUPE_TEST_TLS") == nullptr) return;
    ca = std::make_unique<TestCa>();
    const TlsOptions o = ca->Issue("node");
    ::setenv("TROUPE_TLS_CERTIFICATE", o.certificate.c_str(), 1);
    ::setenv("TROUPE_TLS_KEY", o.key.c_str(), 1);
    ::setenv("TROUPE_TLS_CA_FILE", o.ca_file.c_str(), 1);
  }
  std::unique_ptr<TestCa> ca;
};
BOOST_TEST_GLOBAL_FIXTURE(AllWithTls);

}  // namespace
}  // namespace troupe
