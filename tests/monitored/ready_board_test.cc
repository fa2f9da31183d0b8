// The readiness actor by itself: who waits hears of the next chief.
#include "actors/train/ready_board.h"

#include <boost/test/unit_test.hpp>
#include <thread>

#include "actors/messages/messages.h"
#include "actors/runtime/runtime_impl.h"

namespace troupe {
namespace ready_board_test {

using Clock = std::chrono::steady_clock;
using train::ReadyBoard;

BOOST_AUTO_TEST_CASE(edges_1_to_4_who_waits_hears_of_the_next_chief) {
  const auto runtime = *Runtime::Start();
  ReadyBoard board(*runtime);
  BOOST_TEST(board.Count() == 0u);
  BOOST_TEST(!board.WaitForMore(0, Clock::now()));
  BOOST_TEST(!board.WaitForMore(0, Clock::now() + std::chrono::milliseconds(5)));
  std::atomic<bool> waits{false};
  std::thread worker([&] {
    ReadyBoard mine(*runtime);
    const uint64_t told = mine.Count();
    BOOST_TEST(told == 0u);
    waits = true;
    BOOST_TEST(mine.WaitForMore(told, Clock::time_point::max()));
    BOOST_TEST(mine.Count() == 1u);
  });
  while (!waits) std::this_thread::yield();
  board.Tell();
  worker.join();
  // One that has become ready before the question is not missed.
  BOOST_TEST(board.WaitForMore(0, Clock::time_point::max()));
}

BOOST_AUTO_TEST_CASE(who_waits_looks_again_when_the_actor_dies) {
  const auto runtime = *Runtime::Start();
  ReadyBoard board(*runtime);
  BOOST_TEST(board.Count() == 0u);
  const caf::actor first = runtime->impl()->directory->Find("readiness");
  BOOST_REQUIRE(first);
  caf::anon_send_exit(first, caf::exit_reason::kill);
  BOOST_TEST(board.WaitForMore(0, Clock::time_point::max()));
  board.Tell();
  // The next incarnation comes by itself; what was told to the dead one is lost.
  while (!runtime->impl()->directory->Find("readiness") || runtime->impl()->directory->Find("readiness") == first) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  board.Tell();
  while (board.Count() == 0) std::this_thread::yield();
  BOOST_TEST(board.WaitForMore(0, Clock::time_point::max()));
}

}  // namespace ready_board_test
}  // namespace troupe
