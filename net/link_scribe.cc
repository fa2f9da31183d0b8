#include "net/link_scribe.h"

#include <algorithm>
#include <atomic>
#include <caf/all.hpp>
#include <chrono>
#include <caf/io/basp_broker.hpp>
#include <caf/io/middleman.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/step/cancel_later.h"
#include "actors/threads/loop_turns.h"

namespace troupe {
namespace {

using caf::io::network::default_multiplexer;
using caf::io::network::operation;
using Result = Link::Result;

// A graph in one message has at most 2 GiB (session_target.cc).
constexpr size_t kMostMessage = (size_t{1} << 31) + (size_t{1} << 20);
// In which CAF says who it is: some hundred bytes.
constexpr size_t kMostGreeting = size_t{64} << 10;
// Room that is made at once for what has been announced.
constexpr size_t kFirstRoom = size_t{2} << 20;
// Buffers of more than this are given back when they are empty.
constexpr size_t kMostKept = size_t{32} << 20;
// Read in one turn; then others have theirs.
constexpr size_t kMostOfATurn = size_t{4} << 20;
constexpr int kMostMessagesOfATurn = 1000;
constexpr std::chrono::milliseconds kMostTimeOfATurn{2};

// Handles are numbers of our own: CAF takes descriptors, which are used again while it may still
// have messages of the connection before.
caf::io::connection_handle NextHandle() {
  static std::atomic<int64_t> last{int64_t{1} << 40};
  return caf::io::connection_handle::from_int(++last);
}

void FreeIfBig(std::vector<char>* buffer) {
  if (buffer->capacity() > kMostKept) std::vector<char>().swap(*buffer);
}

class LinkScribe;

// What the event loop calls; a part of its scribe.
class Events : public caf::io::network::event_handler {
 public:
  Events(default_multiplexer& loop, std::unique_ptr<Link> link, LinkScribe* scribe, bool silent)
      : event_handler(loop, link->descriptor()), link_(std::move(link)), scribe_(scribe), silent_(silent) {}
  // The link closes the descriptor.
  ~Events() override { fd_ = caf::io::network::invalid_native_socket; }

  void handle_event(operation op) override;
  void removed_from_loop(operation op) override;
  void graceful_shutdown() override { Finish(); }

  // From the next message on.
  void ConfigureRead(caf::io::receive_policy::config config) { policy_ = config; }
  void StartReading();
  void StopReading();
  void Flush();
  void Finish();
  const Link& link() const { return *link_; }

  std::vector<char> in, out;  // what CAF reads, and appends to

 private:
  void Prepare();
  // False when nobody should announce so much, or there is no memory for it.
  bool MakeRoom();
  bool HandOn(size_t bytes);
  void Receive();
  Result Send();
  void AwaitRoom();
  void StopWriting();
  void Fail(operation op);
  void GoOnLater();

  const std::unique_ptr<Link> link_;
  LinkScribe* const scribe_;
  // What the loop is to wait for. It hears of that at the end of its turn, so that it may never
  // have waited: then it does not say either that it has stopped.
  bool reads_ = false, writes_ = false;
  bool later_ = false;  // GoOnLater will call Receive
  // The scribe, and with it this object, while the loop has them.
  caf::intrusive_ptr<LinkScribe> reading_, writing_;
  bool finished_ = false;
  bool silent_;                                // until the other side has said who it is
  size_t wanted_ = 0, enough_ = 1, have_ = 0;  // of `in`
  caf::io::receive_policy::config policy_{caf::io::receive_policy_flag::exactly, 1};
  int consumed_ = 0;           // up to 2: a header and what it announced
  std::vector<char> sending_;  // from sent_ on
  size_t sent_ = 0;
};

class LinkScribe : public caf::io::scribe {
 public:
  LinkScribe(default_multiplexer& loop, std::unique_ptr<Link> link, bool silent)
      : scribe(NextHandle()), events_(loop, std::move(link), this, silent) {}

  void configure_read(caf::io::receive_policy::config config) override {
    events_.ConfigureRead(config);
    if (std::exchange(launched_, true)) return;
    events_.StartReading();
  }
  void ack_writes(bool enable) override { events_.ack_writes(enable); }
  std::vector<char>& wr_buf() override { return events_.out; }
  std::vector<char>& rd_buf() override { return events_.in; }
  void flush() override { events_.Flush(); }
  void graceful_shutdown() override {
    const caf::intrusive_ptr<LinkScribe> keep(this);
    events_.Finish();
    detach(&events_.backend(), false);
  }
  void add_to_loop() override { events_.StartReading(); }
  void remove_from_loop() override { events_.StopReading(); }
  std::string addr() const override { return Value(caf::io::network::remote_addr_of_fd(Descriptor())); }
  uint16_t port() const override { return Value(caf::io::network::remote_port_of_fd(Descriptor())); }

 private:
  int Descriptor() const { return events_.link().descriptor(); }
  template <class T>
  static T Value(caf::expected<T> e) {
    return e ? std::move(*e) : T();
  }
  Events events_;
  bool launched_ = false;
};

void Events::Prepare() {
  have_ = 0;
  wanted_ = policy_.second;
  enough_ = policy_.first == caf::io::receive_policy_flag::at_most ? 1 : wanted_;
}

void Events::StartReading() {
  if (finished_ || std::exchange(reads_, true)) return;
  reading_.reset(scribe_);
  activate();
  Prepare();
  // Of what the link holds, the socket does not tell.
  if (link_->Holds()) GoOnLater();
}

void Events::StopReading() {
  if (!std::exchange(reads_, false)) return;
  passivate();
  if ((eventbf() & caf::io::network::input_mask) == 0) reading_.reset();
}

void Events::AwaitRoom() {
  if (finished_ || std::exchange(writes_, true)) return;
  writing_.reset(scribe_);
  backend().add(operation::write, fd(), this);
}

void Events::StopWriting() {
  if (!std::exchange(writes_, false)) return;
  backend().del(operation::write, fd(), this);
  if ((eventbf() & caf::io::network::output_mask) == 0) writing_.reset();
}

void Events::GoOnLater() {
  // Once in a round of the loop, or each would bring another.
  if (std::exchange(later_, true)) return;
  backend().post([this, keep = caf::intrusive_ptr<LinkScribe>(scribe_)] {
    later_ = false;
    if (reads_) Receive();
  });
}

void Events::handle_event(operation op) {
  const caf::intrusive_ptr<LinkScribe> keep(scribe_);
  switch (op) {
    case operation::read:
      if (reads_ && !later_) Receive();
      return;
    case operation::write:
      if (!writes_) return;
      switch (Send()) {
        case Result::kOk:
          return StopWriting();
        case Result::kAgain:
          return;
        case Result::kEnd:
          return Fail(operation::write);
      }
      return;
    case operation::propagate_error:
      return Fail(operation::read);
  }
}

void Events::removed_from_loop(operation op) {
  // Possibly the last reference to this object.
  const caf::intrusive_ptr<LinkScribe> keep(scribe_);
  (op == operation::write ? writing_ : reading_).reset();
}

bool Events::MakeRoom() {
  if (wanted_ > (consumed_ < 2 ? kMostGreeting : kMostMessage)) return false;
  const size_t room = std::min(wanted_, std::max(kFirstRoom, 2 * have_));
  try {
    if (in.size() < room) in.resize(room);
  } catch (const std::bad_alloc&) {
    return false;  // the connection's fault alone
  }
  return true;
}

// Whoever takes it runs here if that is short.
bool Events::HandOn(size_t bytes) {
  const LoopTurns::Message message(&backend());
  caf::io::abstract_broker* const broker = scribe_->parent();
  const caf::strong_actor_ptr keep(broker != nullptr ? broker->ctrl() : nullptr);
  const bool more = scribe_->consume(message.turns(), in.data(), bytes);
  if (broker != nullptr) broker->context(&backend());
  CancelLater later;
  message.turns()->Drain();
  later.FlushAside(true);
  return more;
}

void Events::Receive() {
  int messages = 0;
  std::chrono::steady_clock::time_point until{};  // of what the messages make run here
  bool late = false;
  for (size_t turn = 0; reads_;) {
    if (!MakeRoom()) return Fail(operation::read);
    size_t got = 0;
    const Result r = link_->Read(in.data() + have_, std::min(in.size(), wanted_) - have_, &got);
    if (link_->Owes()) AwaitRoom();
    if (r == Result::kAgain) return;
    if (r == Result::kEnd) return Fail(operation::read);
    have_ += got;
    turn += got;
    if (have_ >= enough_) {
      if (consumed_ < 2 && ++consumed_ == 2) link_->socket()->greeted.store(true, std::memory_order_relaxed);
      const size_t whole = have_;
      if (messages == 0) until = std::chrono::steady_clock::now() + kMostTimeOfATurn;
      const bool more = HandOn(whole);
      late = std::chrono::steady_clock::now() > until;
      Prepare();
      if (whole > kMostKept) FreeIfBig(&in);
      if (!more) return StopReading();
      if (silent_ && consumed_ == 2) {
        silent_ = false;
        Flush();
      }
      ++messages;
    }
    if (turn >= kMostOfATurn || messages >= kMostMessagesOfATurn || late) return GoOnLater();
  }
}

void Events::Flush() {
  if (finished_ || silent_ || writes_ || out.empty()) return;
  // At once, as far as there is room; what fails is told in the loop's turn, not in CAF's.
  if (Send() != Result::kOk) AwaitRoom();
}

Result Events::Send() {
  for (;;) {
    if (sent_ == sending_.size()) {
      sending_.clear();
      sent_ = 0;
      FreeIfBig(&sending_);
      if (silent_ || out.empty()) return link_->Flush();
      sending_.swap(out);
    }
    size_t taken = 0;
    if (const Result r = link_->Write(sending_.data() + sent_, sending_.size() - sent_, &taken); r != Result::kOk)
      return r;
    sent_ += taken;
    if (ack_writes()) scribe_->data_transferred(&backend(), taken, sending_.size() - sent_ + out.size());
  }
}

void Events::Fail(operation op) {
  finished_ = true;
  scribe_->io_failure(&backend(), op);  // which stops reading
  StopReading();
  StopWriting();
}

// What does not fit into the socket now is lost with the connection.
void Events::Finish() {
  if (finished_) return;
  if (Send() == Result::kOk) link_->Finish();
  finished_ = true;
  StopWriting();
}

default_multiplexer* LoopOf(caf::actor_system& system) {
  return system.has_middleman() ? dynamic_cast<default_multiplexer*>(&system.middleman().backend()) : nullptr;
}

}  // namespace

caf::actor BrokerOf(caf::actor_system& system) {
  if (LoopOf(system) == nullptr) return nullptr;
  return system.middleman().named_broker<caf::io::basp_broker>(caf::atom("BASP"));
}

caf::io::scribe_ptr ScribeOf(caf::actor_system& system, std::unique_ptr<Link> link) {
  return caf::make_counted<LinkScribe>(*LoopOf(system), std::move(link), true);
}

void Admit(caf::actor_system& system, std::unique_ptr<Link> link, uint16_t port, const caf::actor& whom) {
  caf::anon_send(BrokerOf(system), caf::publish_atom::value,
                 caf::io::scribe_ptr(caf::make_counted<LinkScribe>(*LoopOf(system), std::move(link), false)), port,
                 caf::actor_cast<caf::strong_actor_ptr>(whom), std::set<std::string>());
}

}  // namespace troupe
