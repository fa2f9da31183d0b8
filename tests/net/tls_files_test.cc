// What is made of the files of TLS, without a connection: keys with a passphrase, and certificates
// of several CAs with one name.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "net/tls_context.h"
#include "tests/common/check_ok.h"
#include "tests/net/certificates.h"

namespace troupe {
namespace tls_files_test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

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

// While the object is there, who opens the file waits, as on a disk that does not answer.
class Stuck {
 public:
  explicit Stuck(const std::string& path) : file_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    ::signal(SIGIO, SIG_IGN);  // by which the system says that somebody waits
    held_ = file_ >= 0 && ::fcntl(file_, F_SETLEASE, F_WRLCK) == 0;
  }
  ~Stuck() {
    if (held_) ::fcntl(file_, F_SETLEASE, F_UNLCK);
    ::close(file_);
  }
  bool held() const { return held_; }

 private:
  const int file_;
  bool held_ = false;
};

// The thread of the port has all who are in a handshake.
BOOST_AUTO_TEST_CASE(a_disk_that_does_not_answer_holds_up_no_connection) {
  using Clock = std::chrono::steady_clock;
  const TestCa ca;
  const TlsOptions o = ca.Issue("node");
  const auto tls = TlsContext::Make(o).value();
  const auto accept = [&] {
    int ends[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    ::close(ends[1]);
    const auto begin = Clock::now();
    BOOST_TEST(tls->Accept(std::make_shared<Socket>(ends[0])).ok());
    return Clock::now() - begin;
  };
  std::this_thread::sleep_for(1100ms);  // they may be read again
  auto stuck = std::make_optional<Stuck>(o.key);
  if (!stuck->held()) return;  // a file system without leases
  std::thread end([&] {
    std::this_thread::sleep_for(3s);
    stuck.reset();
  });
  auto all = Clock::duration(0);
  for (int i = 0; i < 20; ++i) all += accept();
  BOOST_TEST((all < 1s));
  end.join();
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

}  // namespace tls_files_test
}  // namespace troupe
