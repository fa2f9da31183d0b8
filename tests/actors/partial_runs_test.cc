// The places of a session's partial runs: a run that is only being begun has one, too.
#include "actors/session/partial_runs.h"

#include <boost/test/unit_test.hpp>
#include <memory>
#include <new>

#include "actors/step/partial_step.h"

namespace troupe {
namespace partial_runs_test {

using Begun = absl::StatusOr<std::shared_ptr<PartialStep>>;

BOOST_AUTO_TEST_SUITE(partial_runs)

BOOST_AUTO_TEST_CASE(two_that_begin_at_one_time_do_not_share_the_last_place) {
  PartialRuns runs(1);
  absl::Status second;
  const auto first = runs.Add([&]() -> Begun {
    second = runs.Add([]() -> Begun { return nullptr; }).status();
    return nullptr;
  });
  BOOST_TEST(first.ok());
  BOOST_TEST(absl::IsResourceExhausted(second), second);
}

BOOST_AUTO_TEST_CASE(one_that_cannot_begin_leaves_its_place) {
  PartialRuns runs(1);
  BOOST_TEST(absl::IsInvalidArgument(runs.Add([]() -> Begun { return InvalidArgument("no"); }).status()));
  BOOST_TEST(absl::IsResourceExhausted(runs.Add([]() -> Begun { throw std::bad_alloc(); }).status()));
  BOOST_TEST(runs.Add([]() -> Begun { return nullptr; }).ok());
}

BOOST_AUTO_TEST_CASE(one_that_is_given_up_while_it_begins_is_not_found) {
  PartialRuns runs(1);
  const auto handle = runs.Add([&]() -> Begun {
    runs.GiveUpAll();
    return nullptr;
  });
  BOOST_REQUIRE(handle.ok());
  BOOST_TEST(absl::IsInvalidArgument(runs.Find(*handle).status()));
  BOOST_TEST(absl::IsInvalidArgument(runs.Remove(*handle).status()));
  BOOST_TEST(runs.Add([]() -> Begun { return nullptr; }).ok());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace partial_runs_test
}  // namespace troupe
