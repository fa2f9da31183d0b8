// The bytes of pieces go straight between a connection and their tensors, whatever the connection
// does meanwhile.
#include "actors/wire/piece_bytes.h"

#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <mutex>
#include <numeric>
#include <vector>

#include "tests/net/nodes.h"

namespace troupe {
namespace piece_bytes_test {

using namespace std::chrono_literals;

constexpr uint64_t kFrom = 0x70656365, kTo = 0x70656366;
constexpr uint32_t kPiece = 256 << 10;

Tensor Bytes(int64_t n, uint32_t seed) {
  Tensor t(DType::kUint8, TensorShape({n}));
  for (int64_t i = 0; i < n; ++i) t.data<uint8_t>()[i] = static_cast<uint8_t>(seed = seed * 1664525u + 1013904223u);
  return t;
}
bool Same(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && std::equal(a.data<uint8_t>(), a.data<uint8_t>() + a.bytes(), b.data<uint8_t>());
}

// A plain link that notes how many bytes go straight out of a tensor, or into it, and that may be
// slow.
class Watched : public Link {
 public:
  explicit Watched(const std::shared_ptr<Socket>& socket) : Link(socket), under_(PlainLink(socket)) {}
  Result Handshake(absl::Status* /*why*/) override { return Result::kOk; }
  Result Read(char* to, size_t most, size_t* got) override {
    if (read_at_most > 0) {
      most = std::min<size_t>(most, read_at_most);
      // Where the socket will tell of it again.
      if (++reads_ % 3 == 0 && !under_->Holds()) return Result::kAgain;
    }
    const Result r = under_->Read(to, most, got);
    if (r == Result::kOk && Within(to)) into_target += *got;
    if (r == Result::kOk && on_read) on_read();
    return r;
  }
  Result Peek(absl::Status* why) override { return under_->Peek(why); }
  Result Write(const char* from, size_t size, size_t* taken) override {
    ++writes;
    if (blocked) return Result::kAgain;
    const Result r = under_->Write(from, size, taken);
    if (r == Result::kOk && Within(from)) out_of_source += *taken;
    return r;
  }
  bool Owes() const override { return under_->Owes(); }
  Result Flush() override { return under_->Flush(); }
  bool Holds() const override { return under_->Holds(); }
  void Finish() override { under_->Finish(); }

  void Watch(const Tensor& t) {
    begin_ = static_cast<const char*>(t.raw());
    end_ = begin_ + t.bytes();
  }
  // Set before the link is given away.
  size_t read_at_most = 0;  // 0: any number
  std::function<void()> on_read;
  std::atomic<size_t> into_target{0}, out_of_source{0}, writes{0};
  std::atomic<bool> blocked{false};  // nothing can be written

 private:
  bool Within(const char* at) const { return at >= begin_ && at < end_; }
  const std::unique_ptr<Link> under_;
  const char *begin_ = nullptr, *end_ = nullptr;
  size_t reads_ = 0;
};

// The caller sends pieces of `source`; `berth` is where the other node reads them to.
struct Sending : Nodes {
  explicit Sending(int64_t bytes, std::function<void(Watched&)> set = nullptr)
      : source(Bytes(bytes, 1)),
        target(DType::kUint8, TensorShape({bytes})),
        sender(new Watched(caller_socket)),
        receiver(new Watched(called_socket)) {
    std::fill_n(target.data<uint8_t>(), bytes, uint8_t{0});
    sender->Watch(source);
    receiver->Watch(target);
    if (set) set(*receiver);
    sink = called.spawn(
        [this](caf::event_based_actor*, int) -> caf::behavior {
          return {[this](const freight_piece& p) {
                    std::lock_guard<std::mutex> lock(mu);
                    came.push_back(p);
                  },
                  [](const std::string& s) { return s; }};
        },
        0);
    FreightBerth::Open(Name(), std::make_shared<FreightBerth>(target, bytes, kPiece));
    Admit(called, std::unique_ptr<Link>(receiver), 1, sink);
    there = Call(std::unique_ptr<Link>(sender));
    BOOST_REQUIRE(there);
  }
  ~Sending() {
    FreightBerth::Close(Name());
    caf::anon_send_exit(sink, caf::exit_reason::user_shutdown);
  }
  static FreightBerth::Name Name() { return {kTo, kFrom, 7, 0}; }
  freight_piece At(uint64_t offset) const {
    freight_piece p;
    p.from = kFrom;
    p.to = kTo;
    p.number = 7;
    p.offset = offset;
    p.size = FreightBerth::SizeAt(source.bytes(), kPiece, offset);
    p.source = source;
    return p;
  }
  void SendAll() {
    for (uint64_t offset = 0; offset < source.bytes(); offset += kPiece) caf::anon_send(there, At(offset));
  }
  // Those that have come, when there are so many; the connection has been in order until then.
  std::vector<freight_piece> Came(size_t n) {
    BOOST_TEST(Await([&] {
      std::lock_guard<std::mutex> lock(mu);
      return came.size() >= n;
    }));
    std::lock_guard<std::mutex> lock(mu);
    return came;
  }
  bool Answers() {
    caf::scoped_actor self(caller);
    bool same = false;
    self->request(there, 60s, std::string(100'000, 'a'))
        .receive([&](const std::string& s) { same = s == std::string(100'000, 'a'); }, [](const caf::error&) {});
    return same;
  }
  Tensor source, target;
  Watched *sender, *receiver;  // the connection's
  caf::actor sink, there;
  std::mutex mu;
  std::vector<freight_piece> came;
};

BOOST_AUTO_TEST_SUITE(piece_bytes)

BOOST_AUTO_TEST_CASE(bytes_go_from_tensor_to_tensor) {
  // The last piece is too small for it, and copied.
  constexpr size_t kLast = 1000, kStraight = size_t{40} * kPiece;
  Sending s(kStraight + kLast);
  s.SendAll();
  for (const freight_piece& p : s.Came(41)) BOOST_TEST(p.taken);
  BOOST_TEST(Same(s.source, s.target));
  BOOST_TEST(s.sender->out_of_source == kStraight);
  BOOST_TEST(s.receiver->into_target == kStraight);
  BOOST_TEST(s.Answers());
}

BOOST_AUTO_TEST_CASE(they_may_come_in_parts_of_any_size) {
  for (const size_t most : {size_t{1}, size_t{7}, size_t{100}, size_t{4097}}) {
    Sending s(most < 100 ? 40'000 : 3 * kPiece + 40'000, [&](Watched& link) { link.read_at_most = most; });
    s.SendAll();
    for (const freight_piece& p : s.Came(most < 100 ? 1 : 4)) BOOST_TEST(p.taken);
    BOOST_TEST(Same(s.source, s.target));
    BOOST_TEST(s.receiver->into_target == s.source.bytes());
  }
}

BOOST_AUTO_TEST_CASE(who_has_no_berth_or_comes_twice_costs_nothing_else) {
  Sending s(4 * kPiece);
  freight_piece none = s.At(0), twice = s.At(kPiece), crooked = s.At(0), far = s.At(0);
  none.number = 8;
  crooked.size -= 1;
  far.offset = 4 * kPiece;
  far.source = Bytes(5 * kPiece, 2);
  caf::anon_send(s.there, none);
  caf::anon_send(s.there, twice);
  caf::anon_send(s.there, twice);
  caf::anon_send(s.there, crooked);
  caf::anon_send(s.there, far);
  const std::vector<freight_piece> came = s.Came(5);
  const std::vector<bool> taken = {false, true, false, false, false};
  for (size_t i = 0; i < taken.size(); ++i) BOOST_TEST(came.at(i).taken == taken[i], i);
  BOOST_TEST(s.receiver->into_target == kPiece);
  // Nothing of the others has been written anywhere.
  const uint8_t* const got = s.target.data<uint8_t>();
  BOOST_TEST(std::accumulate(got, got + kPiece, uint64_t{0}) == 0u);
  BOOST_TEST(std::accumulate(got + 2 * kPiece, got + 4 * kPiece, uint64_t{0}) == 0u);
  BOOST_TEST(s.Answers());
}

// Its step is over, say, and nobody else has the tensor any more.
BOOST_AUTO_TEST_CASE(a_berth_may_close_while_its_bytes_come) {
  std::atomic<size_t> closed_at{0};
  Watched* link = nullptr;
  Sending s(2 * kPiece, [&](Watched& receiver) {
    link = &receiver;
    receiver.read_at_most = 5000;
    receiver.on_read = [&] {
      if (closed_at > 0 || link->into_target < kPiece / 2) return;
      closed_at = link->into_target.load();
      FreightBerth::Close(Sending::Name());
    };
  });
  s.target = Tensor();  // the berth's, and then whoever reads it
  s.SendAll();
  const std::vector<freight_piece> came = s.Came(2);
  BOOST_TEST(closed_at > 0u);
  BOOST_TEST(closed_at < kPiece);
  BOOST_TEST(came[0].taken);
  BOOST_TEST(!came[1].taken);
  BOOST_TEST(s.Answers());
}

// What waits to be sent has its share, until it has gone or the connection has.
BOOST_AUTO_TEST_CASE(a_tensor_is_kept_until_its_bytes_have_gone) {
  for (const bool cut : {false, true}) {
    Sending s(8 * kPiece);
    s.sender->blocked = true;
    s.SendAll();
    const size_t before = s.sender->writes;
    BOOST_TEST(Await([&] { return s.sender->writes > before + 100; }));
    BOOST_TEST(!s.source.BufferUnique());
    if (cut) s.called_socket->Cut();
    s.sender->blocked = false;
    if (!cut) s.Came(8);
    BOOST_TEST(Await([&] { return s.source.BufferUnique(); }));
    if (!cut) BOOST_TEST(Same(s.source, s.target));
  }
}

BOOST_AUTO_TEST_CASE(nodes_that_read_messages_elsewhere_do_as_before) {
  const auto config = Nodes::WithoutHeartbeats();
  config->set("middleman.workers", size_t{2});
  caf::actor_system system(*config);
  BOOST_TEST(PieceReader(system).Head(1 << 20) == 0u);
  const auto ours = Nodes::WithoutHeartbeats();
  caf::actor_system usual(*ours);
  BOOST_TEST(PieceReader(usual).Head(1 << 20) > 0u);
  BOOST_TEST(PieceReader(usual).Head(1 << 10) == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace piece_bytes_test
}  // namespace troupe
