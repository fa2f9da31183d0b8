// Answers of actors on a device with a memory limit: they are charged as what kernels make, and
// refused where they pass it.
#include "tests/calls/house.h"

namespace troupe {
namespace memory_limit_test {

constexpr int64_t kLimit = 4 << 20;

int64_t InUse(const House& h) { return h.runtime->devices()[0].memory.bytes_in_use; }

// An actor that answers as many bytes as its argument says, in strings or in floats.
caf::actor Big(caf::actor_system& system) {
  return Answering(system, [](const actor_call& c) {
    const auto bytes = static_cast<int64_t>(c.tensors.at(0).data<float>()[0]);
    Tensor floats(DType::kFloat, TensorShape({bytes / 4})), strings(DType::kString, TensorShape({bytes / 32}));
    std::fill_n(floats.data<float>(), floats.num_elements(), 1.0f);
    return actor_answer{{}, {floats, strings}};
  });
}

BOOST_AUTO_TEST_CASE(an_answer_is_charged_to_the_device_and_refused_beyond_its_limit) {
  House h(1, kLimit);
  h.Name("big", Big(h.system));
  const auto call = [&](float bytes) {
    return CallActor(h.root, "big", {ops::Const(h.root, std::vector<float>{bytes})}, {DType::kFloat, DType::kString});
  };
  const OutputList small = call(1 << 20), large = call(32 << 20);
  TROUPE_REQUIRE_OK(h.root.status());
  Tensor out;
  TROUPE_REQUIRE_OK(h.Run(small[0], &out));
  BOOST_TEST(out.num_elements() == (1 << 20) / 4);
  BOOST_TEST(out.data<float>()[out.num_elements() - 1] == 1);
  // The program keeps the result, and so the device's memory.
  BOOST_TEST(InUse(h) >= 1 << 20);
  Tensor strings;
  TROUPE_REQUIRE_OK(h.Run(small[1], &strings));
  BOOST_TEST(InUse(h) >= 2 << 20);
  out = strings = Tensor();
  for (int i = 0; i < 2; ++i) {
    const absl::Status s = h.Fails(large[i]);
    BOOST_TEST(absl::IsResourceExhausted(s), s);
    BOOST_TEST(Says(s, "the answer of actor 'big'"), s);
  }
  BOOST_TEST(InUse(h) < 1 << 20);
  // What did not fit has cost nothing that is needed now.
  for (int i = 0; i < 10; ++i) TROUPE_REQUIRE_OK(h.Run(small[0], &out));
}

// An actor that answers what it was asked with: that is charged already, and stays where it is. It
// is looked at within the step: a fetch is a copy where the actor still has its message in hand.
BOOST_AUTO_TEST_CASE(what_is_charged_already_is_not_copied) {
  House h(1, kLimit);
  const void* asked = nullptr;
  const void* seen = nullptr;
  h.Name("echo", Answering(h.system, [&](const actor_call& c) {
           asked = c.tensors.at(0).raw();
           return actor_answer{{}, {c.tensors.at(0)}};
         }));
  h.Name("looks", Answering(h.system, [&](const actor_call& c) {
           seen = c.tensors.at(0).raw();
           return actor_answer{{}, {Tensor::Scalar(c.tensors.at(0).num_elements())}};
         }));
  const Output made = ops::Fill(h.root, ops::Mul(h.root, ops::Shape(h.root, h.x), 1 << 17), 2.0f),
               back = CallActor(h.root, "echo", {made}, {DType::kFloat})[0],
               size = CallActor(h.root, "looks", {back}, {DType::kInt64})[0];
  TROUPE_REQUIRE_OK(h.root.status());
  Tensor out;
  TROUPE_REQUIRE_OK(h.Run(size, &out));
  BOOST_TEST(out.scalar<int64_t>() == 3 << 17);
  BOOST_REQUIRE(asked != nullptr);
  BOOST_TEST(seen == asked);
}

// Without a limit nothing is copied: whom the node's output is handed to has the answer itself.
BOOST_AUTO_TEST_CASE(without_a_limit_the_answer_itself_is_the_output) {
  House h;
  const Tensor mine(DType::kFloat, TensorShape({1000}));
  const void* seen = nullptr;
  h.Name("mine", Answering(h.system, [mine](const actor_call&) { return actor_answer{{}, {mine}}; }));
  h.Name("looks", Answering(h.system, [&](const actor_call& c) {
           seen = c.tensors.at(0).raw();
           return actor_answer{{}, {Floats({1})}};
         }));
  const Output y = CallActor(h.root, "mine", {h.x}, {DType::kFloat})[0],
               end = CallActor(h.root, "looks", {y}, {DType::kFloat})[0];
  Tensor out;
  TROUPE_REQUIRE_OK(h.Run(end, &out));
  BOOST_TEST(seen == mine.raw());
}

}  // namespace memory_limit_test
}  // namespace troupe
