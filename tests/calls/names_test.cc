// Names of actors on several devices: all of them know a name alike.
#include <boost/test/unit_test.hpp>
#include <thread>

#include "actors/call/named_actors.h"
#include "actors/runtime/runtime_impl.h"
#include "tests/calls/house.h"
#include "troupe/resource_container.h"

namespace troupe {
namespace {

struct Stranger : Resource {
  std::string DebugString() const override { return "no actor"; }
};

caf::actor Idle(caf::actor_system& system) {
  return Answering(system, [](const actor_call&) { return actor_answer{}; });
}
// Who has the name on device i; null: nobody.
caf::actor At(const House& h, size_t i, const std::string& name) {
  const auto found = FindNamedActor(*h.runtime->impl()->devices.at(i), name);
  return found.ok() ? (*found)->actor : nullptr;
}

BOOST_AUTO_TEST_CASE(a_name_is_given_on_all_devices_or_on_none) {
  House h(3);
  const caf::actor first = Idle(h.system), second = Idle(h.system);
  // A graph may have what it likes in that container.
  ResourceContainers& last = *h.runtime->impl()->devices.at(2)->containers();
  const std::vector<ResourceContainers::Entry> strange = {
      {"actors of the program", "new", std::make_shared<Stranger>()}};
  TROUPE_REQUIRE_OK(last.Put(strange, {}));
  const absl::Status refused = NameActor(*h.runtime, "new", first);
  BOOST_TEST(absl::IsInvalidArgument(refused), refused);
  BOOST_TEST(Says(refused, "device:CPU:2"), refused);
  for (size_t i = 0; i < 3; ++i) BOOST_TEST((At(h, i, "new") == nullptr));
  // Nor is it anybody else's that is taken away.
  BOOST_TEST(absl::IsInvalidArgument(UnnameActor(*h.runtime, "new")));
  BOOST_TEST(last.LookUp<Stranger>("actors of the program", "new").ok());
  TROUPE_REQUIRE_OK(last.Delete("actors of the program", "new"));
  TROUPE_REQUIRE_OK(NameActor(*h.runtime, "new", second));
  for (size_t i = 0; i < 3; ++i) BOOST_TEST((At(h, i, "new") == second));
  TROUPE_REQUIRE_OK(UnnameActor(*h.runtime, "new"));
  for (size_t i = 0; i < 3; ++i) BOOST_TEST((At(h, i, "new") == nullptr));
}

BOOST_AUTO_TEST_CASE(of_two_who_give_a_name_at_once_one_is_the_last_everywhere) {
  House h(8);
  const caf::actor actors[] = {Idle(h.system), Idle(h.system)};
  for (int round = 0; round < 100; ++round) {
    std::thread other([&] {
      for (int i = 0; i < 20; ++i) (void)NameActor(*h.runtime, "a", actors[1]);
    });
    for (int i = 0; i < 20; ++i) (void)NameActor(*h.runtime, "a", actors[0]);
    other.join();
    const caf::actor who = At(h, 0, "a");
    size_t alike = 0;
    for (size_t i = 0; i < 8; ++i) alike += At(h, i, "a") == who ? 1 : 0;
    BOOST_REQUIRE(alike == 8u);
  }
}

}  // namespace
}  // namespace troupe
