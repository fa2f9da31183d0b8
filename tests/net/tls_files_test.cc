// What is made of the files of TLS, without a connection: keys with a passphrase, and certificates
// of several CAs with one name.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "net/tls_context.h"
#include "tests/common/check_ok.h"
#include "tests/net/certificates.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

// A variable of the environment, while the object is there.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* const name_;
  std::optional<std::string> before_;
};

std::string CodeOf(const absl::Status& s) { return absl::StatusCodeToString(s.code()); }
bool Has(absl::string_view text, absl::string_view what) { return text.find(what) != absl::string_view::npos; }

// What MakeClusterCertificate has made.
TlsOptions Made(const std::string& folder) {
  TlsOptions o;
  o.certificate = folder + "/node.crt";
  o.key = folder + "/node.key";
  o.ca_file = folder + "/ca.crt";
  return o;
}

BOOST_AUTO_TEST_SUITE(tls_files)

BOOST_AUTO_TEST_CASE(the_passphrase_of_a_key_is_of_a_file_or_of_the_environment) {
  const TestCa ca;
  TlsOptions o = ca.Issue("node", {.passphrase = "open sesame"});
  const auto why = [&] { return TlsContext::Make(o).status(); };
  {
    const Variable right("TROUPE_TLS_PASSPHRASE", "open sesame");
    BOOST_TEST(why().ok(), why());
    // Who does not use the environment does not use this of it either.
    o.use_environment = false;
    BOOST_TEST(Has(why().message(), ": the key cannot be read, without a passphrase: "), why());
  }
  o.use_environment = true;
  const Variable wrong("TROUPE_TLS_PASSPHRASE", "open barley");
  BOOST_TEST(Has(why().message(), ": the key cannot be read, with the passphrase that is given: "), why());
  // A file goes before it.
  o.passphrase_file = ca.PathOf("passphrase");
  std::ofstream(o.passphrase_file) << "open sesame\n";
  BOOST_TEST(why().ok(), why());
}

// With all of a process's files named by the environment, too.
BOOST_AUTO_TEST_CASE(the_environment_may_name_a_key_with_a_passphrase) {
  const TestCa ca;
  const TlsOptions o = ca.Issue("node", {.passphrase = "open sesame"});
  const Variable certificate("TROUPE_TLS_CERTIFICATE", o.certificate), key("TROUPE_TLS_KEY", o.key),
      ca_file("TROUPE_TLS_CA_FILE", o.ca_file), passphrase("TROUPE_TLS_PASSPHRASE", "open sesame");
  const auto context = TlsContext::Make(TlsOptions());
  BOOST_REQUIRE_MESSAGE(context.ok(), context.status());
  BOOST_TEST((*context != nullptr));
}

// Certificates without identifiers of keys are those of tests/net/certificates.cc: by them, all
// other tests show that these are accepted. Those that have them are told apart by them.
BOOST_AUTO_TEST_CASE(clusters_whose_cas_have_one_name_are_told_apart) {
  const TestCa folder;  // for its folder
  const TlsOptions a = Made(folder.PathOf("a")), b = Made(folder.PathOf("b"));
  REQUIRE_OK(MakeClusterCertificate(folder.PathOf("a")));
  REQUIRE_OK(MakeClusterCertificate(folder.PathOf("b")));
  BOOST_TEST(CodeOf(TlsContext::Make(a).status()) == "OK");
  fs::create_directories(folder.PathOf("both"));
  fs::copy_file(a.ca_file, folder.PathOf("both/1.crt"));
  fs::copy_file(b.ca_file, folder.PathOf("both/2.crt"));
  for (TlsOptions o : {a, b}) {
    const absl::Status alone = TlsContext::Make(o).status();
    BOOST_TEST(alone.ok(), alone);
    o.ca_file = "";
    o.ca_folder = folder.PathOf("both");
    const absl::Status both = TlsContext::Make(o).status();
    BOOST_TEST(both.ok(), both);
  }
  TlsOptions foreign = a;
  foreign.ca_file = b.ca_file;
  BOOST_TEST(CodeOf(TlsContext::Make(foreign).status()) == "INVALID_ARGUMENT");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace troupe
