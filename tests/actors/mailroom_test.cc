// The mailroom of a part, alone: every numbered edge of mailroom.h, its bound, and how it tells
// iterations.
#include "actors/executor/mailroom.h"

#include <boost/test/unit_test.hpp>

#include "tests/actors/graphs.h"

namespace troupe {
namespace mailroom_test {

using Place = Mailroom::Place;
using Mail = Mailroom::Mail;

struct Rooms {
  Rooms() {
    for (const char* name : {"w", "x"}) table.Add(StrCat("/job:a/device:CPU:1;7;/job:b/device:CPU:0;edge_", name));
  }
  Mailroom::Waiter Asks(const char* who) {
    return {[this, who](absl::Status s, Tensor value, bool dead) {
      log.push_back(StrCat(who, ": ", s.ok() ? dead ? "dead" : value.DebugString() : std::string(s.message())));
    }};
  }
  // Delivers it to who has asked; true when somebody has.
  bool Comes(Mailroom& room, const Place& place, Mail mail) {
    auto waiter = room.Came(place, &mail);
    BOOST_REQUIRE_MESSAGE(waiter.ok(), waiter.status());
    if (waiter->has_value()) (*waiter)->done(absl::OkStatus(), mail.value, mail.dead);
    return waiter->has_value();
  }
  float Value(const std::optional<Mail>& mail) {
    BOOST_REQUIRE(mail.has_value());
    return mail->value.scalar<float>();
  }
  size_t Waiting(const Mailroom& room) {
    size_t n = 0;
    room.ForEachWaiter([&](const Place&, const Mailroom::Waiter&) { ++n; });
    return n;
  }
  EdgeTable table;
  std::vector<std::string> log;
  Mailroom room{&table};
};

BOOST_FIXTURE_TEST_SUITE(mailroom_tests, Rooms)

BOOST_AUTO_TEST_CASE(edges_1_and_3_an_early_tensor_waits_for_its_recv) {
  BOOST_TEST(!room.Take({0, {}}).has_value());
  BOOST_TEST(!Comes(room, {0, {}}, {Tensor::Scalar(1.0f)}));
  BOOST_TEST(!Comes(room, {0, {{3}}}, {Tensor::Scalar(2.0f)}));
  BOOST_TEST(!Comes(room, {1, {}}, {Tensor(), true}));
  BOOST_TEST(!room.Take({1, {{3}}}).has_value());
  BOOST_TEST(Value(room.Take({0, {{3}}})) == 2.0f);
  BOOST_TEST(!room.Take({0, {{3}}}).has_value());
  BOOST_TEST(Value(room.Take({0, {}})) == 1.0f);
  BOOST_TEST(room.Take({1, {}})->dead);
}

BOOST_AUTO_TEST_CASE(edges_2_and_4_a_recv_waits_for_its_tensor) {
  TROUPE_REQUIRE_OK(room.Ask({0, {{1, 2}}}, Asks("a")));
  TROUPE_REQUIRE_OK(room.Ask({0, {{2, 1}}}, Asks("b")));
  BOOST_TEST(Waiting(room) == 2u);
  BOOST_TEST(Comes(room, {0, {{2, 1}}}, {Tensor(), true}));
  BOOST_TEST(Comes(room, {0, {{1, 2}}}, {Tensor::Scalar(true)}));
  BOOST_TEST(Waiting(room) == 0u);
  BOOST_REQUIRE(log.size() == 2u);
  BOOST_TEST(log[0] == "b: dead");
  BOOST_TEST(log[1].find("a: ") == 0u);
  // Nothing is left of either.
  BOOST_TEST(!Comes(room, {0, {{2, 1}}}, {Tensor::Scalar(1.0f)}));
}

BOOST_AUTO_TEST_CASE(edges_5_and_6_a_place_has_one_recv_and_one_tensor) {
  TROUPE_REQUIRE_OK(room.Ask({0, {}}, Asks("a")));
  Mailroom::Waiter second = Asks("b");
  const absl::Status asked = room.Ask({0, {}}, std::move(second));
  BOOST_TEST(asked.code() == absl::StatusCode::kInvalidArgument);
  BOOST_TEST(std::string(asked.message()).find("another node of the part receives '") == 0u, asked);
  second.done(asked, Tensor(), false);  // who is refused can be told
  BOOST_TEST(log.size() == 1u);
  BOOST_TEST(Comes(room, {0, {}}, {Tensor::Scalar(1.0f)}));
  BOOST_TEST(log[1].find("a: ") == 0u);
  BOOST_TEST(!Comes(room, {0, {}}, {Tensor::Scalar(2.0f)}));
  Mail third{Tensor::Scalar(3.0f)};
  const absl::Status came = room.Came({0, {}}, &third).status();
  BOOST_TEST(came.code() == absl::StatusCode::kInvalidArgument);
  BOOST_TEST(std::string(came.message()).find("another tensor has come for '") == 0u, came);
  BOOST_TEST(Value(room.Take({0, {}})) == 2.0f);
}

BOOST_AUTO_TEST_CASE(edges_7_and_9_a_held_value_goes_when_it_is_granted) {
  BOOST_TEST(!room.TakeGrant({0, {}}));
  TROUPE_REQUIRE_OK(room.Hold({0, {}}, Tensor::Scalar(1.0f), 5));
  TROUPE_REQUIRE_OK(room.Hold({0, {{0}}}, Tensor::Scalar(2.0f), 6));
  BOOST_TEST(room.num_held() == 2u);
  const auto value = room.Granted({0, {{0}}});
  BOOST_REQUIRE(value.ok());
  BOOST_REQUIRE(value->has_value());
  BOOST_TEST((*value)->scalar<float>() == 2.0f);
  BOOST_TEST(room.num_held() == 1u);
  room.ForEachHeld([&](const Place& place, const Mailroom::Held& held) {
    BOOST_TEST((place == Place{0, {}}));
    BOOST_TEST(held.since == 5);
  });
}

BOOST_AUTO_TEST_CASE(edges_8_and_10_a_grant_may_come_first) {
  const auto value = room.Granted({1, {{4}}});
  BOOST_REQUIRE(value.ok());
  BOOST_TEST(!value->has_value());
  BOOST_TEST(!room.TakeGrant({1, {{5}}}));
  BOOST_TEST(room.TakeGrant({1, {{4}}}));
  BOOST_TEST(!room.TakeGrant({1, {{4}}}));
}

BOOST_AUTO_TEST_CASE(edge_11_a_place_has_one_held_value) {
  TROUPE_REQUIRE_OK(room.Hold({0, {}}, Tensor::Scalar(1.0f), 5));
  const absl::Status s = room.Hold({0, {}}, Tensor::Scalar(2.0f), 6);
  BOOST_TEST(s.code() == absl::StatusCode::kInvalidArgument);
  BOOST_TEST(std::string(s.message()).find("another node of the part sends '") == 0u, s);
  BOOST_TEST(room.Granted({0, {}})->value().scalar<float>() == 1.0f);
}

BOOST_AUTO_TEST_CASE(edge_12_the_end_of_a_step_drops_all) {
  const Tensor kept = Tensor::Scalar(1.0f), held = Tensor::Scalar(2.0f);
  BOOST_TEST(!Comes(room, {0, {}}, {kept}));
  TROUPE_REQUIRE_OK(room.Hold({1, {}}, held, 5));
  BOOST_TEST((!kept.BufferUnique() && !held.BufferUnique()));
  BOOST_TEST(!room.Granted({1, {{1}}})->has_value());
  TROUPE_REQUIRE_OK(room.Ask({0, {{1}}}, Asks("a")));
  room.AskInVain(Asks("b"));
  // What is for the next step stays.
  TROUPE_REQUIRE_OK(room.KeepEarly(std::make_unique<Arrival>(tensor_to_part{8, 0, {}, false, Tensor()})));
  room.Clear();
  BOOST_TEST((kept.BufferUnique() && held.BufferUnique()));
  BOOST_TEST(!room.Take({0, {}}).has_value());
  BOOST_TEST(room.num_held() == 0u);
  BOOST_TEST(!room.TakeGrant({1, {{1}}}));
  BOOST_TEST(Waiting(room) == 0u);
  BOOST_TEST(room.TakeWaiters().in_vain.empty());
  BOOST_TEST(log.empty());
  BOOST_TEST(room.has_early());
}

BOOST_AUTO_TEST_CASE(what_comes_before_its_step_is_given_in_order) {
  for (const int64_t step : {7, 9, 8})
    TROUPE_REQUIRE_OK(room.KeepEarly(std::make_unique<Arrival>(grant{step, 0, {{step}}})));
  ArrivalList early;
  room.TakeEarly(&early);
  BOOST_TEST(!room.has_early());
  for (const int64_t step : {7, 9, 8}) {
    const std::unique_ptr<Arrival> a = early.Pop();
    BOOST_REQUIRE(a != nullptr);
    BOOST_TEST(a->step() == step);
  }
  BOOST_TEST(early.empty());
}

BOOST_AUTO_TEST_CASE(who_still_waits_is_told_the_end) {
  TROUPE_REQUIRE_OK(room.Ask({0, {}}, Asks("a")));
  room.AskInVain(Asks("b"));
  const Mailroom::Waiters waiters = room.TakeWaiters();
  BOOST_TEST(waiters.asked.size() == 1u);
  BOOST_TEST(waiters.in_vain.size() == 1u);
  BOOST_TEST(Waiting(room) == 0u);
}

// Tensors, grants and early messages fill one room; whoever is one too many is named.
BOOST_AUTO_TEST_CASE(the_room_is_bounded) {
  Mailroom small(&table, 3);
  const auto too_many = [](const absl::Status& s) {
    BOOST_TEST(s.code() == absl::StatusCode::kResourceExhausted);
    BOOST_TEST(s.message() ==
               "more than 3 messages wait for a part of the step; the next is of tensor 'edge_x' of "
               "/job:a/device:CPU:1");
  };
  const auto early = [&](int64_t step) {
    return small.KeepEarly(std::make_unique<Arrival>(tensor_to_part{step, 1, {}, false, Tensor()}));
  };
  BOOST_TEST(!Comes(small, {0, {}}, {Tensor::Scalar(1.0f)}));
  BOOST_TEST(!small.Granted({0, {}})->has_value());
  TROUPE_REQUIRE_OK(early(9));
  Mail mail{Tensor::Scalar(1.0f)};
  too_many(small.Came({1, {}}, &mail).status());
  too_many(small.Granted({1, {}}).status());
  too_many(early(9));
  // Those that somebody waits for pass, and so does what the step itself says.
  TROUPE_REQUIRE_OK(small.Ask({1, {}}, Asks("a")));
  BOOST_TEST(Comes(small, {1, {}}, {Tensor::Scalar(1.0f)}));
  TROUPE_REQUIRE_OK(small.Hold({1, {}}, Tensor::Scalar(2.0f), 0));
  BOOST_TEST(small.Granted({1, {}})->has_value());
  TROUPE_REQUIRE_OK(small.KeepEarly(std::make_unique<Arrival>(abort_step{9, absl::CancelledError("x")})));
  // A place that becomes free is there for others.
  BOOST_TEST(Value(small.Take({0, {}})) == 1.0f);
  ArrivalList list;
  small.TakeEarly(&list);
  TROUPE_REQUIRE_OK(early(10));
  BOOST_TEST(small.TakeGrant({0, {}}));
  TROUPE_REQUIRE_OK(early(10));
  TROUPE_REQUIRE_OK(early(10));
  too_many(early(10));
}

// A mix of two numbers, by which iterations used to be told: a loop's from the iteration around it
// and its name's hash, an iteration's from its loop's and its number.
uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t h = a * 0x9e3779b97f4a7c15ull ^ (b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2));
  h ^= h >> 32;
  h *= 0xd6e8feb86659fd93ull;
  return h ^ (h >> 32);
}
uint64_t HashName(std::string_view s) {
  uint64_t h = 14695981039346656037ull;
  for (const char c : s) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return h;
}
uint64_t Tag(std::string_view outer, int64_t i, std::string_view inner, int64_t j) {
  const uint64_t outside = Mix(Mix(0, HashName(outer)), static_cast<uint64_t>(i) + 1);
  return Mix(Mix(outside, HashName(inner)), static_cast<uint64_t>(j) + 1);
}

// Two iterations of a loop in a loop that no 64 bits of a hash tell apart.
BOOST_AUTO_TEST_CASE(iterations_are_told_by_their_numbers) {
  const IterationPath one{{209194, 87900}}, other{{402134, 588247}};
  BOOST_TEST(Tag("outer", 209194, "inner1872", 87900) == Tag("outer", 402134, "inner1872", 588247));
  BOOST_TEST(!Comes(room, {0, one}, {Tensor::Scalar(1.0f)}));
  BOOST_TEST(!Comes(room, {0, other}, {Tensor::Scalar(2.0f)}));
  BOOST_TEST(Value(room.Take({0, one})) == 1.0f);
  BOOST_TEST(Value(room.Take({0, other})) == 2.0f);
  // Depth counts, too.
  BOOST_TEST(!Comes(room, {0, {}}, {Tensor::Scalar(3.0f)}));
  BOOST_TEST(!Comes(room, {0, {{0}}}, {Tensor::Scalar(4.0f)}));
  BOOST_TEST(!Comes(room, {0, {{0, 0}}}, {Tensor::Scalar(5.0f)}));
  BOOST_TEST(Value(room.Take({0, {{0}}})) == 4.0f);
  BOOST_TEST(Value(room.Take({0, {}})) == 3.0f);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace mailroom_test
}  // namespace troupe
