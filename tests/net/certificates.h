// CAs and certificates for tests, made when they run. With TROUPE_TEST_TLS in the environment, all
// connections of the program's tests, and of the processes that they start, are encrypted.
//
// Thread rule: one thread.
#ifndef TROUPE_TESTS_NET_CERTIFICATES_H_
#define TROUPE_TESTS_NET_CERTIFICATES_H_

#include <memory>
#include <string>
#include <vector>

#include "troupe/tls.h"

namespace troupe {

// A CA with a folder of its own, which goes with it.
class TestCa {
 public:
  struct Wish {
    int from_days = -1, until_days = 30;  // from now
    std::string dns_name, passphrase;
  };
  TestCa();
  ~TestCa();
  // A new certificate, in files of this name; one before with the same name is replaced.
  TlsOptions Issue(const std::string& name, const Wish& wish) const;
  TlsOptions Issue(const std::string& name) const { return Issue(name, Wish()); }
  std::string PathOf(const std::string& file) const { return folder_ + "/" + file; }
  std::string Text() const;  // of its own certificate

 private:
  struct Pair;
  const std::string folder_;
  const std::unique_ptr<Pair> own_;
};

// The flags of `troupe` for these options.
std::vector<std::string> TlsFlagsOf(const TlsOptions& options);

}  // namespace troupe

#endif  // TROUPE_TESTS_NET_CERTIFICATES_H_
