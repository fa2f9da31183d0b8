// Clocks that are set apart, and messages that take their time: what the bounds tell of the offset.
#include <boost/test/unit_test.hpp>
#include <random>

#include "actors/trace/clock_bounds.h"

namespace troupe {
namespace clock_bounds_test {

constexpr int64_t kMicro = 1000, kMilli = 1000 * kMicro, kSecond = 1000 * kMilli;

BOOST_AUTO_TEST_SUITE(clock_bounds)

BOOST_AUTO_TEST_CASE(nothing_is_known_before_messages_went_both_ways) {
  ClockBounds b;
  BOOST_TEST(!b.known());
  b.Sent(1000, 5500);
  BOOST_TEST(!b.known());
  b.Heard(5600, 1200);
  BOOST_TEST(b.known());
}

// sent 1000 -> asked at 1100, which the other clock calls 51100; answered at 1400; heard at 1460.
BOOST_AUTO_TEST_CASE(an_exchange_bounds_the_offset_by_its_two_ways) {
  ClockBounds b;
  b.Exchange(1000, 51100, 51400, 1460);
  BOOST_TEST(b.high() == 50100);
  BOOST_TEST(b.low() == 49940);
  BOOST_TEST(b.offset() == 50020);
  BOOST_TEST(b.uncertainty() == 80);  // half of 100 + 60 on the way
}

BOOST_AUTO_TEST_CASE(the_fastest_message_of_each_way_counts) {
  constexpr int64_t kOffset = -7 * kSecond;
  ClockBounds b;
  // Each exchange has one slow way, and the fast ones together bound it by 10 us.
  b.Exchange(0, kOffset + 10 * kMicro, kOffset + kMilli, 40 * kMilli);
  BOOST_TEST(b.uncertainty() > 19 * kMilli);
  b.Exchange(50 * kMilli, 90 * kMilli + kOffset, 91 * kMilli + kOffset, 91 * kMilli + 10 * kMicro);
  // And what the clocks may have drifted meanwhile.
  BOOST_TEST(b.uncertainty() <= 10 * kMicro + 50 * kMilli / ClockBounds::kDriftDivisor);
  BOOST_TEST(std::abs(b.offset() - kOffset) <= b.uncertainty());
}

BOOST_AUTO_TEST_CASE(a_tensor_bounds_it_further_and_contradicts_nothing) {
  ClockBounds b;
  b.Exchange(0, 10'000, 20'000, 30'000);  // between -10000 and 10000
  b.Sent(50'000, 51'000);
  b.Heard(60'000, 61'500);
  BOOST_TEST(b.high() == 1000);
  BOOST_TEST(b.low() == -1500);
  b.Sent(70'000, 60'000);  // was heard before it was sent, whatever the offset may be
  BOOST_TEST(b.high() == 1000);
}

BOOST_AUTO_TEST_CASE(bounds_of_long_ago_are_let_out_by_the_drift) {
  ClockBounds b;
  b.Exchange(0, 10, 20, 30);
  const int64_t narrow = b.uncertainty();
  // Ten seconds later an exchange with slow ways, by a clock that gained 50 millionths.
  const int64_t later = 10 * kSecond, gained = later / 20000;
  b.Exchange(later, later + gained + 5 * kMilli, later + gained + 5 * kMilli, later + 10 * kMilli);
  BOOST_TEST(b.uncertainty() > narrow);
  BOOST_TEST(b.uncertainty() <= narrow + (later + 10 * kMilli) / ClockBounds::kDriftDivisor + 1);
  BOOST_TEST(std::abs(b.offset() - gained) <= b.uncertainty());
}

BOOST_AUTO_TEST_CASE(a_clock_that_was_set_is_told_anew) {
  ClockBounds b;
  b.Exchange(0, 10, 20, 30);
  constexpr int64_t kJump = 3600 * kSecond;
  b.Exchange(kSecond, kSecond + kJump + 10, kSecond + kJump + 20, kSecond + 40);
  BOOST_TEST(std::abs(b.offset() - kJump) <= b.uncertainty());
  BOOST_TEST(b.uncertainty() < 100);
}

// Whatever the delays: the true offset lies within what is stated, and the estimate gets better.
BOOST_AUTO_TEST_CASE(the_true_offset_is_within_the_stated_uncertainty) {
  std::mt19937_64 random(7);
  std::exponential_distribution<double> delay(1.0 / 200);  // microseconds
  const auto way = [&] { return 20 * kMicro + static_cast<int64_t>(delay(random) * 1000); };
  for (int run = 0; run < 50; ++run) {
    const int64_t offset = static_cast<int64_t>(random() % (200 * kSecond)) - 100 * kSecond;
    const double rate = 1 + (static_cast<double>(random() % 161) - 80) / 1e6;  // 80 millionths at most
    const auto there = [&](int64_t t) { return offset + static_cast<int64_t>(static_cast<double>(t) * rate); };
    ClockBounds b;
    int64_t now = 0, first = 0;
    for (int i = 0; i < 40; ++i) {
      const int64_t sent = now, asked = sent + way(), answered = asked + 300 * kMicro, heard = answered + way();
      b.Exchange(sent, there(asked), there(answered), heard);
      if (i == 0) first = b.uncertainty();
      BOOST_TEST_REQUIRE(std::abs(b.offset() - (there(heard) - heard)) <= b.uncertainty() + 1);
      now = heard + 200 * kMicro;
    }
    BOOST_TEST(b.uncertainty() <= first);
    BOOST_TEST(b.uncertainty() < 120 * kMicro);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace clock_bounds_test
}  // namespace troupe
