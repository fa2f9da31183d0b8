// Names of actors on several devices: all of them know a name alike.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <future>

#include "actors/call/named_actors.h"
#include "actors/runtime/runtime_impl.h"
#include "tests/calls/house.h"
#include "troupe/resource_container.h"

namespace troupe {
namespace names_test {

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

// The second begins when the first has come as far as device 1, and waits for it then.
BOOST_AUTO_TEST_CASE(of_two_who_give_a_name_at_once_one_is_the_last_everywhere) {
  House h(3);
  const caf::actor first = Idle(h.system), second = Idle(h.system);
  std::future<absl::Status> other;
  const auto interrupt = [&](NamedActor* gone) {
    delete gone;
    other = std::async(std::launch::async, [&] { return NameActor(*h.runtime, "a", second); });
    other.wait_for(std::chrono::milliseconds(300));
  };
  std::shared_ptr<Resource> there(new NamedActor(&h.system, "a", first), interrupt);
  TROUPE_REQUIRE_OK(h.runtime->impl()->devices.at(1)->containers()->Put({{"actors of the program", "a", there}}, {}));
  there = nullptr;
  TROUPE_REQUIRE_OK(NameActor(*h.runtime, "a", first));
  BOOST_REQUIRE(other.valid());
  TROUPE_REQUIRE_OK(other.get());
  for (size_t i = 0; i < 3; ++i) BOOST_TEST((At(h, i, "a") == second));
}

}  // namespace names_test
}  // namespace troupe
