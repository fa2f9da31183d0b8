// The messages of servers through CAF's binary serialiser: equal values come back, no size is
// believed, and wrong bytes give an error or a value.
#include "net/client_messages.h"

#include <boost/test/unit_test.hpp>
#include <random>

#include "tests/common/message_bytes.h"

namespace troupe {
namespace messages_test {

using testing::BytesOf;
using testing::Read;
using testing::System;

// Every cut and many changes: a value or an error.
template <class T>
void Damage(const std::vector<char>& bytes) {
  std::mt19937 random(7);
  for (size_t size = 0; size < bytes.size(); ++size) {
    T message;
    BOOST_TEST(!Read(std::vector<char>(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size)), &message));
  }
  for (int i = 0; i < 3000; ++i) {
    std::vector<char> other = bytes;
    for (int changes = 1 + i % 3; changes > 0; --changes) other[random() % other.size()] = static_cast<char>(random());
    T message;
    (void)Read(other, &message);
  }
}

BOOST_AUTO_TEST_SUITE(net_messages)

BOOST_AUTO_TEST_CASE(messages_of_servers_come_back_equal_and_wrong_bytes_are_errors) {
  hello h;
  h.cluster = ~uint64_t{0};
  h.from = {"worker", 1 << 20};
  h.to = {"ps", 0};
  h.incarnation = 77;
  h.number = 78;
  hello h2;
  BOOST_REQUIRE(Read(BytesOf(h), &h2));
  BOOST_TEST((h2.protocol == kNetProtocol && h2.cluster == h.cluster && h2.from == h.from && h2.to == h.to &&
              h2.incarnation == 77 && h2.number == 78));
  Damage<hello>(BytesOf(h));

  welcome w{AlreadyExists("it is alive"), 3, 4, {"ps", 2}, 5, 6, {}, 7}, w2;
  BOOST_REQUIRE(Read(BytesOf(w), &w2));
  BOOST_TEST((w2.status == w.status && w2.protocol == 3 && w2.cluster == 4 && w2.from == w.from &&
              w2.incarnation == 5 && w2.greeted == 6 && w2.number == 7));
  Damage<welcome>(BytesOf(w));

  cluster_state s, s2;
  s.value = {{"ps", 0}, "a:1", 8, 9, {{{"worker", 3}, "b:2", TaskHealth::kSuspected, 10, 11, 12, "silent"}, {}}};
  BOOST_REQUIRE(Read(BytesOf(s), &s2));
  BOOST_REQUIRE(s2.value.others.size() == 2u);
  const TaskStatus& t = s2.value.others[0];
  BOOST_TEST((s2.value.task == s.value.task && s2.value.address == "a:1" && s2.value.incarnation == 8 &&
              s2.value.cluster == 9));
  BOOST_TEST((t.task == ClusterTask{"worker", 3} && t.address == "b:2" && t.health == TaskHealth::kSuspected));
  BOOST_TEST((t.incarnation == 10 && t.since_ms == 11 && t.silent_ms == 12 && t.why == "silent"));
  Damage<cluster_state>(BytesOf(s));

  task_down d{{"ps", 1}, 5, Unavailable("gone")}, d2;
  BOOST_REQUIRE(Read(BytesOf(d), &d2));
  BOOST_TEST((d2.task == d.task && d2.incarnation == 5 && d2.status == d.status));
  Damage<task_down>(BytesOf(d));
  task_up u{{"ps", 1}, 5}, u2;
  BOOST_REQUIRE(Read(BytesOf(u), &u2));
  BOOST_TEST((u2.task == u.task && u2.incarnation == 5));
  beat b{5}, b2;
  BOOST_REQUIRE(Read(BytesOf(b), &b2));
  BOOST_TEST(b2.incarnation == 5u);
}

BOOST_AUTO_TEST_CASE(messages_of_clients_come_back_equal_and_wrong_bytes_are_errors) {
  open_session o, o2;
  o.name = "trainer";
  o.options.share_variables = true;
  o.options.max_signatures = 5;
  BOOST_REQUIRE(Read(BytesOf(o), &o2));
  BOOST_TEST((o2.name == "trainer" && o2.options.share_variables && o2.options.max_signatures == 5 && !o2.client));
  Damage<open_session>(BytesOf(o));

  session_opened s, s2;
  s.status = Unavailable("not now");
  s.status.SetPayload("url", absl::Cord("bytes"));
  s.lease_ms = 7;
  BOOST_REQUIRE(Read(BytesOf(s), &s2));
  BOOST_TEST((s2.status == s.status && s2.lease_ms == 7));
  Damage<session_opened>(BytesOf(s));

  extend_session e, e2;
  e.call = 3;
  e.graph = {'a', 'b', 'c'};
  BOOST_REQUIRE(Read(BytesOf(e), &e2));
  BOOST_TEST((e2.call == 3 && e2.graph == e.graph));
  Damage<extend_session>(BytesOf(e));

  run_session r, r2;
  r.call = 4;
  r.step.feeds = {{"x", Tensor::Vector<float>({1, 2})}, {"text", Tensor::Scalar(std::string("words"))}};
  r.step.fetches = {"y"};
  r.step.options.timeout_ms = 9;
  BOOST_REQUIRE(Read(BytesOf(r), &r2));
  BOOST_TEST((r2.call == 4 && r2.step.feeds.size() == 2 && r2.step.fetches == r.step.fetches));
  BOOST_TEST(r2.step.options.timeout_ms == 9);
  Damage<run_session>(BytesOf(r));

  call_answer a, a2;
  a.call = 5;
  a.reply.outputs = {Tensor::Vector<float>({3, 4})};
  a.texts = {"one", "two"};
  a.partial_run = "three";
  a.devices.resize(1);
  a.devices[0].name = "/device:CPU:0";
  a.devices[0].memory.bytes_in_use = 11;
  BOOST_REQUIRE(Read(BytesOf(a), &a2));
  BOOST_TEST(
      (a2.call == 5 && a2.texts == a.texts && a2.partial_run == "three" && a2.reply.outputs[0].data<float>()[1] == 4));
  BOOST_TEST((a2.devices.size() == 1 && a2.devices[0].name == a.devices[0].name));
  BOOST_TEST(a2.devices[0].memory.bytes_in_use == 11);
  Damage<call_answer>(BytesOf(a));
  Damage<ask_session>(BytesOf(ask_session{1, ask_session::What::kSteps}));
  Damage<session_over>(BytesOf(session_over{Aborted("over")}));
  Damage<worker_here>(BytesOf(worker_here{1, {}}));
}

BOOST_AUTO_TEST_CASE(a_size_of_a_text_or_a_list_is_not_believed) {
  hello h;
  h.from.job = std::string(255, 'a');
  hello read;
  BOOST_TEST(Read(BytesOf(h), &read));
  h.from.job.push_back('a');
  BOOST_TEST(!Read(BytesOf(h), &read));
  // Of a status the first bytes are sent.
  welcome w, w2;
  w.status = Internal(std::string(kMostText + 1, 'x'));
  BOOST_REQUIRE(Read(BytesOf(w), &w2));
  BOOST_TEST(w2.status.message().size() == kMostText);
  open_session o, o2;
  o.name = std::string(kMostText + 1, 'x');
  BOOST_TEST(!Read(BytesOf(o), &o2));
  // A graph of gigabytes that is not there.
  {
    std::vector<char> bytes;
    caf::binary_serializer out(System(), bytes);
    uint64_t call = 1;
    size_t size = size_t{1} << 30;
    BOOST_REQUIRE((!out(call) && !out.begin_sequence(size)));
    extend_session e;
    BOOST_TEST(!Read(bytes, &e));
    BOOST_TEST(e.graph.capacity() == 0u);
  }
  // A number of entries that would be gigabytes.
  cluster_state s;
  std::vector<char> bytes;
  caf::binary_serializer out(System(), bytes);
  std::string job = "ps", address = "a:1";
  int index = 0;
  uint64_t number = 0;
  uint32_t count = ~uint32_t{0};
  BOOST_REQUIRE(!out(job, index, address, number, number, count));
  BOOST_TEST(!Read(bytes, &s));
  BOOST_TEST(s.value.others.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace messages_test
}  // namespace troupe
