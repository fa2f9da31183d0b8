// The messages that pass between processes, through CAF's binary serialiser.
#include <boost/test/unit_test.hpp>
#include <caf/all.hpp>
#include <cstring>
#include <random>

#include "actors/messages/messages.h"
#include "actors/wire/freight_messages.h"
#include "tests/cast/same_tensor.h"
#include "tests/common/message_bytes.h"

namespace troupe {
namespace wire_test {

using testing::System;

link_graph Link() {
  link_graph m;
  m.master = uint64_t{1} << 63;
  m.handle = 7;
  m.tasks = {"/job:a/replica:0/task:0", "/job:b/replica:0/task:1"};
  m.task = 1;
  m.first_part = 3;
  m.feeds = 4;
  m.fetches = 5;
  m.edges = {{"key", {1, 3}, {0, 0}, true, uint64_t{1} << 62}};
  m.check_kernels = true;
  return m;
}
run_parts Run() {
  run_parts m;
  m.master = 3;
  m.step = -1;
  m.handle = 7;
  m.task = 2;
  m.partial = m.timed = true;
  m.numerics_folder = "f";
  m.arguments = {{4, Tensor::Scalar(2.5f)}, {9, Tensor::Vector<std::string>({"a", ""})}};
  return m;
}
parts_done Done() {
  parts_done m{3, 5, 1, WithAddress(InvalidArgument("no"), "n", "Op", "/device:CPU:0", {}), true, false, {}, "bytes"};
  m.results = {{0, Tensor::Scalar(1)}, {1, Tensor()}};
  return m;
}
std::vector<part_letter> PartLetters() {
  return {{3, 5, {1, 2}, tensor_to_part{5, 6, {{7, 8}}, false, Tensor::Scalar(2.0f), 9}},
          {3, 5, {1, 2}, grant{5, 6, {{7}}, 9}},
          {3, 5, {1, 2}, abort_step{5, Aborted("why")}},
          {3, 5, {1, 2}, argument{5, 1, Tensor::Scalar(3)}},
          {3, 5, {1, 2}, question{11}}};
}
std::vector<step_letter> StepLetters() {
  return {{3, 5, {1, 2}, part_failed{5, Aborted("why")}},
          {3, 5, {1, 2}, result{5, 1, Tensor::Scalar(3)}},
          {3, 5, {1, 2}, stall_report{4, {}}}};
}
freight_note Note() {
  run_parts run = Run();
  run.arguments.emplace_back(11, Tensor());
  return {1,
          uint64_t{1} << 63,
          3,
          16,
          {77, 5, {1, ~uint64_t{0}}, 4096, 8},
          {{2, 1, {2, 3}, uint64_t{1} << 40}, {0, 7, {}, 4}},
          run};
}

// Equal bytes come back from what has been read.
template <class T>
void CheckReturns(const T& message) {
  T sent = message;
  auto copy = wire::ThroughBytes(System(), sent);
  BOOST_REQUIRE_MESSAGE(copy.ok(), copy.status());
  BOOST_TEST((testing::BytesOf(*copy) == testing::BytesOf(message)));
}

BOOST_AUTO_TEST_CASE(messages_between_processes_come_back_equal) {
  CheckReturns(Link());
  CheckReturns(Run());
  CheckReturns(Done());
  CheckReturns(drop_graph{1, 2});
  CheckReturns(settle_step{1, 2, 3, true});
  CheckReturns(to_container{"/device:CPU:0"});
  for (const part_letter& m : PartLetters()) CheckReturns(m);
  for (const step_letter& m : StepLetters()) CheckReturns(m);
  CheckReturns(Note());
  CheckReturns(freight_go{1, 2, 3, true});
  CheckReturns(freight_taken{1, 2, 3});
  CheckReturns(freight_returned{1, 2, 3, true});
  CheckReturns(freight_drop{1, 2, 3});
  CheckReturns(freight_gone{1, 2, 3, Aborted("why")});
  parts_done sent = Done();
  const parts_done done = wire::ThroughBytes(System(), sent).value();
  BOOST_TEST((done.status == Done().status));
  BOOST_TEST(done.failed_check);
  BOOST_TEST(Same(done.results.at(0).second, Tensor::Scalar(1)));
  link_graph edges = Link();
  const link_graph link = wire::ThroughBytes(System(), edges).value();
  BOOST_TEST((link.edges.at(0).receiver == PartAddress{0, 0}));
  BOOST_TEST(link.edges.at(0).granted);
}

// Bytes that are cut off, or changed, give an error or another value.
template <class T>
void CheckWrongBytes(const T& message, std::mt19937* random) {
  const std::vector<char> bytes = testing::BytesOf(message);
  for (size_t n = 0; n < bytes.size(); ++n) {
    const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
    caf::binary_deserializer from(System(), cut);
    T read;
    BOOST_TEST(!!from(read), "of " << bytes.size() << " bytes " << n << " were enough");
  }
  for (int i = 0; i < 300; ++i) {
    std::vector<char> changed = bytes;
    for (int k = 0; k < 1 + i % 3; ++k)
      changed[(*random)() % changed.size()] ^= static_cast<char>(1 << (*random)() % 8);
    caf::binary_deserializer from(System(), changed);
    T read;
    (void)from(read);
  }
}

BOOST_AUTO_TEST_CASE(wrong_bytes_between_processes_give_an_error_or_a_value) {
  std::mt19937 random(1);
  CheckWrongBytes(Link(), &random);
  CheckWrongBytes(Run(), &random);
  CheckWrongBytes(Done(), &random);
  CheckWrongBytes(settle_step{1, 2, 3, true}, &random);
  for (const part_letter& m : PartLetters()) CheckWrongBytes(m, &random);
  for (const step_letter& m : StepLetters()) CheckWrongBytes(m, &random);
  CheckWrongBytes(Note(), &random);
  CheckWrongBytes(freight_gone{1, 2, 3, Aborted("why")}, &random);
  CheckWrongBytes(freight_piece{1, 2, 3, 4, 0, 8, 0, Tensor::Scalar(2.0), false}, &random);
  CheckWrongBytes(freight_piece{1, 2, 3, 4, 0, 8, 5, Tensor(), false}, &random);
}

// CAF would drop it without a word: it comes without its value, and its step fails for that.
BOOST_AUTO_TEST_CASE(a_tensor_that_cannot_be_read_leaves_its_message) {
  const auto read = [](auto message, unsigned char dtype) {
    std::vector<char> bytes = testing::BytesOf(message);
    // Of a scalar: dtype, rank.
    for (size_t i = 0; i + 6 <= bytes.size(); ++i) {
      if (bytes[i] != static_cast<char>(DType::kFloat) || bytes[i + 1] != 0) continue;
      if (std::memcmp(&bytes[i + 2], "\xcd\xcc\xcc\x3d", 4) == 0) bytes[i] = static_cast<char>(dtype);
    }
    BOOST_REQUIRE(bytes != testing::BytesOf(message));
    caf::binary_deserializer from(System(), bytes);
    decltype(message) copy;
    BOOST_TEST(!from(copy));
    return copy;
  };
  const Tensor value = Tensor::Scalar(0.1f);
  const auto letter = read(part_letter{3, 5, {1, 2}, tensor_to_part{5, 6, {{7, 8}}, false, value, 9}}, 200);
  BOOST_TEST(letter.step == 5);
  const auto& to_part = std::get<tensor_to_part>(letter.message);
  BOOST_TEST(to_part.edge == 6u);
  BOOST_TEST(!to_part.dead);
  BOOST_TEST(!to_part.value.valid());
  const auto fed = read(part_letter{3, 5, {1, 2}, argument{5, 1, value}}, 200);
  BOOST_TEST(!std::get<argument>(fed.message).value.valid());
  const auto told = read(step_letter{3, 5, {1, 2}, result{5, 1, value}}, 200);
  BOOST_TEST(!std::get<result>(told.message).value.valid());
  parts_done done;
  done.step = 5;
  done.task = 3;
  done.results = {{0, value}};
  const auto answer = read(done, 200);
  BOOST_TEST(answer.step == 5);
  BOOST_TEST(absl::IsResourceExhausted(answer.status));
  BOOST_TEST(answer.results.empty());
}

// What CAF could not make bytes of is refused before it is sent.
BOOST_AUTO_TEST_CASE(what_cannot_cross_is_refused) {
  Tensor reference(MakeRef(DType::kFloat), TensorShape({}));
  if (reference.valid()) {
    run_parts m;
    m.arguments = {{0, reference}};
    BOOST_TEST(absl::IsInvalidArgument(CheckCross(m)));
  }
  Tensor half(DType::kUint8, TensorShape({int64_t{1} << 30}));
  BOOST_REQUIRE(half.valid());
  parts_done done;
  done.results = {{0, half}};
  BOOST_TEST(CheckCross(done).ok());
  done.results.emplace_back(1, half);
  BOOST_TEST(absl::IsInvalidArgument(CheckCross(done)));
  BOOST_TEST(absl::IsUnavailable(SendRemote(System(), nullptr, drop_graph{})));
}

}  // namespace wire_test
}  // namespace troupe
