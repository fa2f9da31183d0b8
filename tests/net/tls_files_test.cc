// What is made of the files of TLS, without a connection: keys with a passphrase, and certificates
// of several CAs with one name.
#include <sys/resource.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
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

// In a folder where others may write, or which another link can take the place of, they could put a
// key of their own there.
BOOST_AUTO_TEST_CASE(a_certificate_is_made_where_nobody_else_can_replace_it) {
  const TestCa folder;  // for its folder
  const auto refused = [](const std::string& path, std::string_view why) {
    const absl::Status s = MakeClusterCertificate(path);
    BOOST_TEST((CodeOf(s) == "FAILED_PRECONDITION" && Has(s.message(), {why.data(), why.size()})), s);
    BOOST_TEST(!fs::exists(path + "/node.key"));
  };
  const std::string open = folder.PathOf("open"), link = folder.PathOf("link"), own = folder.PathOf("a/b/own");
  fs::create_directory(open);
  fs::permissions(open, fs::perms::all);
  refused(open, "any user may write there");
  fs::permissions(open, fs::perms::all & ~fs::perms::others_write);
  fs::create_directory_symlink(open, link);
  refused(link, "it is a symbolic link");
  refused(link + "/", "it is a symbolic link");
  const absl::Status good = MakeClusterCertificate(own + "/");
  BOOST_TEST(good.ok(), good);
  BOOST_TEST((fs::status(own).permissions() == fs::perms::owner_all));
  REQUIRE_OK(MakeClusterCertificate(open));
}

BOOST_AUTO_TEST_CASE(of_files_that_cannot_all_be_made_none_is) {
  const TestCa folder;  // for its folder
  const std::string path = folder.PathOf("half");
  fs::create_directory(path);
  // It leads nowhere: no file is there, and none can be made.
  fs::create_symlink(path + "/nowhere", path + "/node.key");
  const absl::Status there = MakeClusterCertificate(path);
  BOOST_TEST((CodeOf(there) == "UNAVAILABLE" && Has(there.message(), "node.key: the file is there already")), there);
  BOOST_TEST(!fs::exists(path + "/ca.crt"));
  fs::remove(path + "/node.key");
  // As on a full disk.
  rlimit before{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  ::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t most : {1, 100}) {
    rlimit little = before;
    little.rlim_cur = most;
    BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &little) == 0);
    const absl::Status full = MakeClusterCertificate(path);
    BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    BOOST_TEST((CodeOf(full) == "UNAVAILABLE" && Has(full.message(), "it cannot be written: File too large")), full);
    BOOST_TEST(fs::is_empty(path));
  }
  REQUIRE_OK(MakeClusterCertificate(path));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace troupe
