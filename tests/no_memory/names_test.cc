// The name of an actor, given while memory runs out at each allocation in turn: all devices have it
// afterwards, or all whoever had it before.
#include <caf/all.hpp>

#include "actors/call/named_actors.h"
#include "actors/runtime/runtime_impl.h"
#include "tests/no_memory/each_allocation.h"
#include "troupe/open_cast.h"
#include "troupe/troupe.h"

namespace troupe {
namespace names_test {

using testing::AtEachAllocation;
using testing::Failing;

caf::actor Idle(caf::actor_system& system) {
  return system.spawn([](caf::event_based_actor*, int) -> caf::behavior { return {[](int i) { return i; }}; }, 0);
}

BOOST_AUTO_TEST_SUITE(names)

BOOST_AUTO_TEST_CASE(an_actor_is_named_everywhere_or_nowhere) {
  caf::actor_system_config config;
  caf::actor_system system(config);
  const auto runtime = StartRuntimeIn(system, {.threads = 1, .cpu_devices = 3}).value();
  const caf::actor old = Idle(system), next = Idle(system);
  const auto who = [&](size_t device, const std::string& name) {
    const auto found = FindNamedActor(*runtime->impl()->devices[device], name);
    return found.ok() ? (*found)->actor : nullptr;
  };
  for (const std::string name : {"had before", "of nobody"}) {
    const caf::actor before = name == "had before" ? old : nullptr;
    AtEachAllocation([&](long k) {
      if (before) {
        BOOST_REQUIRE(NameActor(*runtime, name, before).ok());
      } else {
        (void)UnnameActor(*runtime, name);
      }
      long failed = 0;
      absl::Status status;
      {
        const Failing no_memory(k, 3);
        status = NameActor(*runtime, name, next);
        failed = Failing::failed();
      }
      BOOST_TEST((status.ok() || absl::IsResourceExhausted(status)), status);
      for (size_t i = 0; i < 3; ++i) BOOST_TEST((who(i, name) == (status.ok() ? next : before)));
      return failed > 0;
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace names_test
}  // namespace troupe
