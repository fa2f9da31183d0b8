// Connections whose memory runs out, at each allocation in turn: it is one connection that ends,
// and neither the port nor another one.
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "net/free_ports.h"
#include "net/gate.h"
#include "net/probe.h"
#include "tests/no_memory/each_allocation.h"

namespace troupe {
namespace connections_test {

using namespace std::chrono_literals;
using testing::AtEachAllocation;
using testing::Failing;

// Null where the library has no TLS.
std::shared_ptr<TlsContext> Tls() {
  const auto folder = std::filesystem::temp_directory_path() / StrCat("troupe_no_memory_", ::getpid());
  std::filesystem::remove_all(folder);
  const absl::Status made = MakeClusterCertificate(folder.string());
  if (absl::IsUnimplemented(made)) return nullptr;
  TlsOptions o;
  o.certificate = folder / "node.crt";
  o.key = folder / "node.key";
  o.ca_file = folder / "ca.crt";
  auto tls = TlsContext::Make(o).value();
  std::filesystem::remove_all(folder);
  return tls;
}

// A gate whose thread lacks memory once, at allocation k after the first who has passed.
struct Port {
  Port(const std::shared_ptr<TlsContext>& tls, long k) : port(static_cast<uint16_t>(FreePorts(1).value()[0])) {
    gate = Gate::Open("127.0.0.1", port, tls, [this, k](std::unique_ptr<Link> link) {
             failed = testing::Failed();
             testing::FailNone();
             link->socket()->greeted = true;
             size_t taken = 0;
             (void)link->Write("x", 1, &taken);
             passed.push_back(std::move(link));
             if (passed.size() == 1) testing::Fail(k, 1);
           }).value();
  }
  HostPort Address() const { return {"127.0.0.1", port}; }
  const uint16_t port;
  std::vector<std::unique_ptr<Link>> passed;  // of the gate's thread
  std::atomic<long> failed{0};                // before the last who has passed
  std::unique_ptr<Gate> gate;                 // the first to go
};

BOOST_AUTO_TEST_SUITE(connections)

BOOST_AUTO_TEST_CASE(a_port_outlives_a_connection_that_has_no_memory) {
  for (const auto& tls : {Tls(), std::shared_ptr<TlsContext>()}) {
    AtEachAllocation(
        [&](long k) {
          Port port(tls, k);
          const auto first = Probe(port.Address(), 60s, nullptr, tls);
          BOOST_REQUIRE_MESSAGE(first.ok(), first.status());
          // The one that has no memory is closed, and does not wait for ever; the one after it is
          // let in.
          const auto next = Probe(port.Address(), 60s, nullptr, tls);
          const auto last = next.ok() ? next.status() : Probe(port.Address(), 60s, nullptr, tls).status();
          BOOST_TEST(last.ok(), "allocation " << k << ": " << last);
          return port.failed > 0;
        },
        300);
  }
}

BOOST_AUTO_TEST_CASE(a_link_that_has_no_memory_for_what_it_sends_ends_alone) {
  const auto tls = Tls();
  if (tls == nullptr) return;
  std::vector<char> bytes(1 << 20, 'a');
  AtEachAllocation([&](long k) {
    Port port(tls, -1);
    const auto one = Probe(port.Address(), 60s, nullptr, tls), other = Probe(port.Address(), 60s, nullptr, tls);
    BOOST_REQUIRE((one.ok() && other.ok()));
    size_t taken = 0;
    Link::Result result = Link::Result::kOk;
    bool failed = false;
    {
      const Failing no_memory(k, 1);
      result = (*one->link)->Write(bytes.data(), bytes.size(), &taken);
      failed = Failing::failed() > 0;
    }
    BOOST_TEST((result == (failed ? Link::Result::kEnd : Link::Result::kOk)));
    BOOST_TEST(((*other->link)->Write(bytes.data(), 1, &taken) == Link::Result::kOk));
    return failed;
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace connections_test
}  // namespace troupe
