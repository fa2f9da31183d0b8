// What the tests of tensors that travel in pieces share: processes whose tensors are big, and the
// other side as a test plays it.
#ifndef TROUPE_TESTS_REMOTE_FREIGHT_PLAY_H_
#define TROUPE_TESTS_REMOTE_FREIGHT_PLAY_H_

#include <string>
#include <utility>
#include <vector>

#include "tests/remote/held_op.h"
#include "tests/remote/processes.h"

namespace troupe {

// 40 bytes: three pieces, two under way.
inline constexpr FreightOut::Limits kSmall{.big = 8, .piece = 16, .under_way = 2, .share = false};
inline Tensor Ten(float first = 1.0f) {
  Tensor t(DType::kFloat, TensorShape({10}));
  for (int i = 0; i < 10; ++i) t.data<float>()[i] = first + static_cast<float>(i);
  return t;
}

// RemotePlay whose tensors are big.
struct BigPlay : RemotePlay {
  explicit BigPlay(SessionOptions options = {}, std::vector<std::string> names = {kMasterTask, kPsTask})
      : RemotePlay(options, std::move(names)) {
    for (const std::string& name : processes->names) processes->StepsOf(name).freight().out.set_limits(kSmall);
  }
  void StartBig(const Names& fetches, const RunOptions& run = {}) {
    answer.reset();
    session->RunAsync(run, {{"x", Ten()}}, fetches, {}, [this](absl::Status s, std::vector<Tensor> out) {
      BOOST_TEST(!answer.has_value());
      answer = std::move(s);
      outputs = std::move(out);
    });
  }
  void RunBig() {
    StartBig({"back"});
    stage.Play();
    BOOST_REQUIRE_MESSAGE(State() == "OK", Message());
    for (int i = 0; i < 10; ++i) BOOST_TEST(outputs.at(0).data<float>()[i] == -1.0f - static_cast<float>(i));
    CheckNothingIsLeft();
  }
  void CheckNothingIsLeft() {
    for (const std::string& name : processes->names) {
      Freight& f = processes->StepsOf(name).freight();
      BOOST_TEST(f.out.size() == 0u, name);
      BOOST_TEST(f.out.under_way() == 0, name);
      BOOST_TEST(f.in.size() == 0u, name);
      BOOST_TEST(f.in.coming_bytes() == 0u, name);
    }
  }
};

// What the other side gets.
struct Peer {
  explicit Peer(Stage* stage) : stage(stage), relay(stage, nullptr) { relay.hold = true; }
  caf::strong_actor_ptr ptr() const { return caf::actor_cast<caf::strong_actor_ptr>(relay.actor); }
  template <class Message>
  std::vector<Message> Got() {
    stage->Play();
    std::vector<Message> all;
    for (const auto& each : relay.held) {
      const caf::message& m = each.second;
      if (m.template match_elements<Message>()) all.push_back(m.template get_as<Message>(0));
    }
    std::erase_if(relay.held, [](const auto& each) { return each.second.template match_elements<Message>(); });
    return all;
  }
  Stage* const stage;
  Relay relay;
};

}  // namespace troupe

#endif  // TROUPE_TESTS_REMOTE_FREIGHT_PLAY_H_
