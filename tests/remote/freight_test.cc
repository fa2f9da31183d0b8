// Tensors that travel in pieces: the protocol message by message, and what it costs that one of the
// two sides goes, fails, or sends nonsense.
#include <cstring>
#include <limits>
#include <thread>

#include <spdlog/spdlog.h>

#include "tests/cast/same_tensor.h"
#include "tests/remote/processes.h"

namespace troupe {
namespace {

using namespace std::chrono_literals;

struct Quiet {
  Quiet() { spdlog::set_level(spdlog::level::off); }
  ~Quiet() { spdlog::set_level(level); }
  const spdlog::level::level_enum level = spdlog::get_level();
};

// 40 bytes: three pieces, two under way.
constexpr FreightOut::Limits kSmall{.big = 8, .piece = 16, .under_way = 2, .share = false};
Tensor Ten(float first = 1.0f) {
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

BOOST_AUTO_TEST_CASE(edges_1_to_3_a_big_tensor_travels_in_pieces) {
  for (const bool wire : {false, true}) {
    SessionOptions options;
    options.wire_messages = wire;
    BigPlay p(options);
    p.Warm({"back"});
    p.StartBig({"back"});
    // The worker is that of the ps, worker2 that of the master.
    BOOST_TEST(p.Go() == R"(
worker <- run_parts | running
executor <- run_step | running
executor2 <- run_step | running
worker <- freight_note | running
worker2 <- freight_go | running
worker <- freight_piece | running
worker <- freight_piece | running
worker2 <- freight_taken | running
worker2 <- freight_taken | running
worker <- freight_piece | running
worker2 <- freight_taken | running
executor2 <- doorbell | running
worker2 <- freight_note | running
worker2 <- parts_done | running
worker <- freight_go | running
worker2 <- freight_piece | running
worker2 <- freight_piece | running
worker <- freight_taken | running
worker <- freight_taken | running
worker2 <- freight_piece | running
worker <- freight_taken | running
executor <- doorbell | OK)");
    BOOST_TEST(p.State() == "OK", p.Message());
    p.RunBig();
    // Results, and arguments of a part elsewhere.
    p.StartBig({"there"});
    p.stage.Play();
    BOOST_REQUIRE_MESSAGE(p.State() == "OK", p.Message());
    BOOST_TEST(p.outputs.at(0).data<float>()[9] == -20.0f);
    p.CheckNothingIsLeft();
  }
}

// Of every type that crosses, between two processes and back.
BOOST_AUTO_TEST_CASE(big_tensors_of_all_types_come_back_equal) {
  BigPlay p;
  const Scope there = p.root.WithDevice("/job:ps");
  std::vector<Tensor> values = {Ten(), Tensor::Vector<std::string>({"one", "", std::string(100, 'x')}),
                                Tensor::Vector<int64_t>({1, 2, 3}), Tensor::Vector<double>({1.0, -0.0, 1e300}),
                                Tensor::Of<int32_t>({1, 2, 3, 4}, TensorShape({2, 1, 2, 1, 1, 1}))};
  Tensor bools(DType::kBool, TensorShape({50}));
  for (int i = 0; i < 50; ++i) bools.data<bool>()[i] = i % 3 == 0;
  values.push_back(bools);
  Names fetches;
  Feeds feeds;
  for (size_t i = 0; i < values.size(); ++i) {
    const Output in = ops::Placeholder(there.WithOpName(StrCat("in", i)), values[i].dtype());
    ops::Identity(there.WithOpName(StrCat("out", i)), in);
    feeds.emplace_back(StrCat("in", i), values[i]);
    fetches.push_back(StrCat("out", i));
  }
  p.stage.Inline([&] { TROUPE_REQUIRE_OK(p.session->Extend(*p.root.graph())); });
  p.session->RunAsync({}, feeds, fetches, {}, [&](absl::Status s, std::vector<Tensor> out) {
    p.answer = std::move(s);
    p.outputs = std::move(out);
  });
  const std::string play = p.stage.Play();
  BOOST_REQUIRE_MESSAGE(p.State() == "OK", p.Message());
  BOOST_TEST(play.find("freight_piece") != std::string::npos);
  for (size_t i = 0; i < values.size(); ++i) BOOST_TEST(Same(p.outputs.at(i), values[i]), "of " << i);
  p.CheckNothingIsLeft();
}

// Whatever ends the step, and wherever its tensors are.
BOOST_AUTO_TEST_CASE(out_edge_4_a_step_that_ends_frees_both_sides) {
  int ended = 0;
  for (const std::string how : {"token", "deadline", "close"}) {
    for (int position = 0;; ++position) {
      BOOST_TEST_CONTEXT(how << " after " << position << " messages") {
        BigPlay p;
        p.Warm({"back", "never_there"});
        CancellationToken token;
        RunOptions options;
        options.cancellation = &token;
        if (how == "deadline") options.timeout_ms = 100;
        p.StartBig({"back", "never_there"}, options);
        int delivered = 0;
        while (delivered < position && !p.stage.Deliver().empty()) ++delivered;
        if (delivered < position) break;
        if (how == "token") token.Cancel();
        if (how == "close") TROUPE_REQUIRE_OK(p.session->Close());
        for (int i = 0; i < 3; ++i) {
          p.stage.Advance(100ms);
          p.stage.Play();
        }
        BOOST_TEST((p.State() == "CANCELLED" || p.State() == "DEADLINE_EXCEEDED"), p.State());
        p.CheckNothingIsLeft();
        ++ended;
      }
    }
  }
  BOOST_TEST(ended > 20);
}

BOOST_AUTO_TEST_CASE(edge_6_a_process_that_goes_frees_both_sides) {
  const Quiet quiet;
  int costs = 0;
  for (int position = 0;; ++position) {
    BOOST_TEST_CONTEXT("went after " << position << " messages") {
      BigPlay p;
      p.Warm({"back"});
      p.StartBig({"back"});
      int delivered = 0;
      while (delivered < position && !p.stage.Deliver().empty()) ++delivered;
      if (delivered < position) break;
      p.processes->Went(kPsTask, kMasterTask);
      p.processes->Went(kMasterTask, kPsTask);
      p.stage.Play();
      BOOST_REQUIRE(p.answer.has_value());
      costs += !p.answer->ok();
      p.CheckNothingIsLeft();
      p.processes->IntroduceAll();
      p.RunBig();
    }
  }
  BOOST_TEST(costs > 10);
}

BOOST_AUTO_TEST_CASE(edges_7_and_9_a_worker_that_dies_frees_both_sides) {
  const Quiet quiet;
  int costs = 0;
  for (const std::string& victim : {kMasterTask, kPsTask}) {
    const std::string other = victim == kPsTask ? kMasterTask : kPsTask;
    for (int position = 0;; ++position) {
      BOOST_TEST_CONTEXT(victim << " killed after " << position << " messages") {
        BigPlay p;
        p.Warm({"back"});
        p.StartBig({"back"});
        int delivered = 0;
        while (delivered < position && !p.stage.Deliver().empty()) ++delivered;
        if (delivered < position) break;
        p.stage.Kill(WorkerOf(p.processes->Of(victim), victim));
        p.stage.Play();
        p.stage.Advance(5ms);
        p.stage.Play();
        BOOST_REQUIRE(p.answer.has_value());
        costs += !p.answer->ok();
        p.processes->Introduce(victim, other);
        p.stage.Play();
        p.CheckNothingIsLeft();
        p.RunBig();
      }
    }
  }
  BOOST_TEST(costs > 20);
}

// Holds what goes to the ps.
struct HeldPlay : BigPlay {
  HeldPlay() : relay(&stage, WorkerOf(processes->Of(kPsTask), kPsTask)) {
    TaskCame(processes->Of(kMasterTask), {kPsTask, processes->incarnations.at(kPsTask), relay.actor});
    stage.Play();
    Warm({"back"});
    relay.hold = true;
  }
  ~HeldPlay() {
    relay.hold = false;
    relay.held.clear();
    stage.Inline([&] { session = nullptr; });
    processes->Introduce(kPsTask, kMasterTask);
    stage.Play();
  }
  // Hands on all that is of this type.
  template <class Message>
  int Hand() {
    int n = 0;
    for (size_t i = 0; i < relay.held.size();) {
      if (!relay.held[i].second.match_elements<Message>()) {
        ++i;
        continue;
      }
      relay.Hand(i);
      relay.held.erase(relay.held.begin() + static_cast<ptrdiff_t>(i));
      ++n;
    }
    stage.Play();
    return n;
  }
  Relay relay;
};

// The memory is taken when the step begins.
BOOST_AUTO_TEST_CASE(in_edges_2_and_3_a_note_waits_for_its_step) {
  HeldPlay p;
  RemoteSteps& steps = p.processes->StepsOf(kPsTask);
  p.StartBig({"back"});
  p.stage.Play();
  BOOST_TEST(p.Hand<freight_note>() == 1);
  BOOST_TEST(steps.early() == 1u);
  BOOST_TEST(steps.early_bytes() == 0);
  BOOST_TEST(steps.freight().in.size() == 1u);
  BOOST_TEST(steps.freight().in.coming_bytes() == 0u);
  BOOST_TEST(p.processes->StepsOf(kMasterTask).freight().out.under_way() == 0);
  BOOST_TEST(p.Hand<run_parts>() == 1);
  BOOST_TEST(steps.early() == 0u);
  BOOST_TEST(steps.freight().in.coming_bytes() == 40u);
  // Two pieces are under way, and no more until they have been dealt with.
  BOOST_TEST(p.relay.held.size() == 2u);
  BOOST_TEST(p.processes->StepsOf(kMasterTask).freight().out.under_way() == 2);
  BOOST_TEST(p.Hand<freight_piece>() == 2);
  BOOST_TEST(p.Hand<freight_piece>() == 1);
  BOOST_TEST(p.State() == "OK", p.Message());
  p.CheckNothingIsLeft();
}

BOOST_AUTO_TEST_CASE(a_note_that_waits_goes_with_what_is_early_for_its_step) {
  HeldPlay p;
  RemoteSteps& steps = p.processes->StepsOf(kPsTask);
  steps.set_limits({.messages = 1});
  p.StartBig({"back"});
  p.stage.Play();
  BOOST_TEST(p.Hand<freight_note>() == 1);
  BOOST_TEST(steps.early() == 1u);
  const uint64_t master = p.processes->incarnations.at(kMasterTask);
  steps.Deliver({master, int64_t{1} << 40, {1, 1}, grant{1, 0, {}, 0}});
  p.stage.Play();
  BOOST_TEST(steps.freight().in.size() == 0u);
  BOOST_TEST(p.processes->StepsOf(kMasterTask).freight().out.size() == 0u);
  p.relay.hold = false;
  p.relay.Release();
  p.stage.Play();
  BOOST_TEST(p.State() == "RESOURCE_EXHAUSTED");
}

// Many to one: what is coming is bounded, and all come.
BOOST_AUTO_TEST_CASE(in_edge_4_notes_wait_for_room) {
  BigPlay p;
  const Scope here = p.root.WithDevice("/job:master"), there = p.root.WithDevice("/job:ps");
  Output sum = ops::Neg(there, p.x);
  for (int i = 0; i < 5; ++i) sum = ops::Add(there.WithOpName(StrCat("sum", i)), sum, ops::Mul(here, p.x, 1.0f * i));
  p.stage.Inline([&] { TROUPE_REQUIRE_OK(p.session->Extend(*p.root.graph())); });
  FreightIn& in = p.processes->StepsOf(kPsTask).freight().in;
  FreightOut& out = p.processes->StepsOf(kMasterTask).freight().out;
  in.set_limits({.bytes = 80});
  p.StartBig({"sum4"});
  size_t most = 0;
  while (!p.stage.Deliver().empty()) {
    BOOST_TEST(in.coming_bytes() <= 80u);
    BOOST_TEST(out.under_way() <= 2);
    most = std::max(most, in.size());
  }
  BOOST_REQUIRE_MESSAGE(p.State() == "OK", p.Message());
  BOOST_TEST(most > 3u);
  for (int i = 0; i < 10; ++i) BOOST_TEST(p.outputs.at(0).data<float>()[i] == 9.0f * static_cast<float>(i + 1));
  // One that is bigger than the room comes alone.
  in.set_limits({.bytes = 1});
  p.StartBig({"sum4"});
  p.stage.Play();
  BOOST_TEST(p.State() == "OK", p.Message());
  p.CheckNothingIsLeft();
}

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

BOOST_AUTO_TEST_CASE(in_edge_5_a_note_for_nobody_is_dropped) {
  BigPlay p;
  p.Warm({"back"});
  Peer peer(&p.stage);
  RemoteSteps& steps = p.processes->StepsOf(kPsTask);
  const uint64_t mine = p.processes->incarnations.at(kPsTask), master = p.processes->incarnations.at(kMasterTask);
  uint64_t number = 0;
  const auto announce = [&](freight_message message, uint64_t to) {
    steps.Announced(
        kPsTask, {77, to, ++number, 16, {}, {{0, static_cast<uint8_t>(DType::kFloat), {10}, 40}}, std::move(message)},
        peer.ptr());
    BOOST_TEST(steps.freight().in.size() == 0u);
    const auto dropped = peer.Got<freight_drop>();
    BOOST_REQUIRE_EQUAL(dropped.size(), 1u);
    BOOST_TEST(dropped[0].number == number);
    BOOST_TEST(dropped[0].from == 77u);
  };
  const part_letter letter{master + 1000, 5, {1, 1}, tensor_to_part{5, 0, {}, false, Tensor(), 0}};
  announce(letter, mine);
  announce(letter, mine + 1);
  parts_done done;
  done.master = mine;
  done.step = 5;
  done.results = {{0, Tensor()}};
  announce(done, mine);
  announce(step_letter{mine, 5, {0, 0}, result{5, 0, Tensor()}}, mine);
  announce(part_letter{mine, 5, {0, 0}, tensor_to_part{5, 0, {}, false, Tensor(), 0}}, mine);
  // Who waits for an answer gets one.
  run_parts run;
  run.master = master + 1000;
  run.arguments = {{0, Tensor()}};
  announce(run, mine);
  const auto answers = peer.Got<parts_done>();
  BOOST_REQUIRE_EQUAL(answers.size(), 1u);
  BOOST_TEST(absl::IsUnavailable(answers[0].status), answers[0].status);
  p.RunBig();
}

BOOST_AUTO_TEST_CASE(out_edge_8_what_is_unknown_changes_nothing) {
  BigPlay p;
  FreightOut& out = p.processes->StepsOf(kMasterTask).freight().out;
  const uint64_t mine = p.processes->incarnations.at(kMasterTask), other = p.processes->incarnations.at(kPsTask);
  p.Warm({"back"});
  p.StartBig({"back"});
  while (out.size() == 0) BOOST_REQUIRE(!p.stage.Deliver().empty());
  for (const uint64_t number : {uint64_t{0}, uint64_t{99}, std::numeric_limits<uint64_t>::max()}) {
    for (const uint64_t to : {uint64_t{0}, mine, other}) {
      for (const uint64_t from : {uint64_t{0}, mine, other}) {
        out.Go({from, to, number});
        out.Drop({from, to, number});
        out.Taken({from, to, 1000000});  // a ticket of nobody
        BOOST_TEST(p.processes->StepsOf(kMasterTask).freight().in.Gone({from, to, number, Aborted("no")}).empty());
      }
    }
  }
  BOOST_TEST(out.size() == 1u);
  p.stage.Play();
  BOOST_TEST(p.State() == "OK", p.Message());
  p.CheckNothingIsLeft();
}

// Many to one receiver that does not answer: so many pieces are under way, a piece of each in turn.
BOOST_AUTO_TEST_CASE(notes_share_what_may_be_under_way_in_fair_turns) {
  Stage stage;
  Peer to(&stage), from(&stage);
  FreightOut out(&stage.system(), 1);
  out.set_limits({.big = 8, .piece = 16, .under_way = 3, .share = false});
  std::vector<uint64_t> numbers(3);
  for (uint64_t& number : numbers) {
    TROUPE_REQUIRE_OK(out.Send(to.relay.actor, 2, part_letter{1, 5, {1, 1}, tensor_to_part{5, 0, {}, false, Ten(), 0}},
                               FreightOut::Owner{1, 5, 0}, from.ptr(), &number));
    out.Go({1, 2, number});
    out.Go({1, 2, number});
  }
  BOOST_TEST(to.Got<freight_note>().size() == 3u);
  std::vector<uint64_t> order;
  std::map<uint64_t, uint64_t> bytes;
  for (;;) {
    const auto pieces = to.Got<freight_piece>();
    BOOST_TEST(pieces.size() <= 3u);
    if (pieces.empty()) break;
    for (const freight_piece& piece : pieces) {
      BOOST_TEST(piece.offset == bytes[piece.number]);
      bytes[piece.number] += piece.size;
      order.push_back(piece.number);
      out.Taken({1, 2, 0});
    }
  }
  BOOST_TEST(order.size() == 9u);
  for (const uint64_t number : numbers) BOOST_TEST(bytes[number] == 40u);
  // The first had the room for itself; then each has its turn.
  for (size_t i = 3; i + 2 < order.size(); i += 2) BOOST_TEST(order[i] != order[i + 1]);
  BOOST_TEST(out.size() == 0u);
  BOOST_TEST(out.under_way() == 0);
  // Of a step that ends, the rest does not go.
  uint64_t number = 0;
  TROUPE_REQUIRE_OK(out.Send(to.relay.actor, 2, part_letter{1, 6, {1, 1}, tensor_to_part{6, 0, {}, false, Ten(), 0}},
                             FreightOut::Owner{1, 6, 0}, from.ptr(), &number));
  out.EndStep({1, 5, 0});
  BOOST_TEST(out.size() == 1u);
  out.EndStep({1, 6, 0});
  BOOST_TEST(out.size() == 0u);
  BOOST_TEST(to.Got<freight_gone>().size() == 1u);
}

// FreightIn alone, and a sender that a test plays.
struct Receiver {
  static constexpr uint64_t kMine = 900, kFrom = 901;
  Receiver() : peer(&stage), in(&stage.system(), kMine, std::make_shared<Directory>()) {}
  freight_note Note(std::vector<freight_hole> holes, uint32_t piece = 16) {
    freight_note note;
    note.from = kFrom;
    note.to = kMine;
    note.number = ++last;
    note.piece = piece;
    run_parts run;
    for (uint32_t i = 0; i < holes.size(); ++i) run.arguments.emplace_back(i, Tensor());
    note.holes = std::move(holes);
    note.message = std::move(run);
    return note;
  }
  FreightIn::Wholes Announce(freight_note note) {
    return in.Announce("task", std::move(note), peer.ptr(), {1, 2, 3}, true, nullptr);
  }
  // As the network's thread reads it.
  FreightIn::Wholes Piece(uint64_t number, uint32_t hole, uint64_t offset, uint32_t size) {
    Tensor source(DType::kUint8, TensorShape({static_cast<int64_t>(size)}));
    std::memset(source.raw(), 7, size);
    // Of a big tensor only this.
    freight_piece sent{kFrom, kMine, number, hole, 0, size, 0, source, true};
    std::vector<char> bytes;
    caf::binary_serializer out(stage.system(), bytes);
    BOOST_REQUIRE(!out(sent));
    std::memcpy(bytes.data() + 3 * 8 + 4, Order(offset).data(), 8);
    freight_piece read;
    caf::binary_deserializer from(stage.system(), bytes);
    BOOST_REQUIRE(!from(read));
    BOOST_TEST(from.remaining() == 0u);
    BOOST_TEST(read.offset == offset);
    return in.Arrived(read, peer.ptr());
  }
  std::string Order(uint64_t x) {
    std::vector<char> bytes;
    caf::binary_serializer out(stage.system(), bytes);
    BOOST_REQUIRE(!out(x));
    return std::string(bytes.begin(), bytes.end());
  }
  static freight_hole Floats(int64_t n, uint32_t place = 0) {
    return {place, static_cast<uint8_t>(DType::kFloat), {n}, static_cast<uint64_t>(n) * 4};
  }
  Stage stage;
  Peer peer;
  FreightIn in;
  uint64_t last = 0;
};

BOOST_AUTO_TEST_CASE(in_edge_6_what_does_not_fit_ends_its_step_and_nothing_else) {
  Receiver r;
  const auto refused = [&](std::vector<freight_hole> holes, uint32_t piece = 16) {
    const auto wholes = r.Announce(r.Note(std::move(holes), piece));
    BOOST_REQUIRE_EQUAL(wholes.size(), 1u);
    BOOST_TEST(absl::IsInvalidArgument(wholes[0].lost), wholes[0].lost);
    BOOST_TEST(r.in.size() == 0u);
    BOOST_TEST(r.peer.Got<freight_drop>().size() == 1u);
  };
  const auto dtype = [](DType t) { return static_cast<uint8_t>(t); };
  refused({});
  refused({Receiver::Floats(10)}, 0);
  refused({Receiver::Floats(10)}, 1u << 30);
  refused({Receiver::Floats(10, 1)});
  refused({Receiver::Floats(10), Receiver::Floats(10)});
  refused({{0, 200, {10}, 40}});
  refused({{0, dtype(DType::kInvalid), {10}, 40}});
  refused({{0, dtype(DType::kVariant), {10}, 40}});
  refused({{0, dtype(DType::kResource), {10}, 40}});
  refused({{0, dtype(MakeRef(DType::kFloat)), {10}, 40}});
  refused({{0, dtype(DType::kFloat), {10}, 41}});
  refused({{0, dtype(DType::kFloat), {0}, 0}});
  refused({{0, dtype(DType::kFloat), {-1}, 4}});
  refused({{0, dtype(DType::kFloat), {int64_t{1} << 40, int64_t{1} << 40}, 4}});
  refused({{0, dtype(DType::kFloat), {int64_t{1} << 62}, 0}});
  refused({{0, dtype(DType::kString), {10}, 79}});
  refused({Receiver::Floats(int64_t{1} << 40)}, 1);
  // More than there is: nothing is taken.
  {
    const auto wholes = r.Announce(r.Note({Receiver::Floats(int64_t{1} << 42)}, 16 << 20));
    BOOST_REQUIRE_EQUAL(wholes.size(), 1u);
    BOOST_TEST(absl::IsResourceExhausted(wholes[0].lost), wholes[0].lost);
    BOOST_TEST(r.peer.Got<freight_drop>().size() == 1u);
  }
  // Pieces: each of these is one too many for its note, and for no other.
  BOOST_TEST(r.Announce(r.Note({Receiver::Floats(10)})).empty());
  const uint64_t good = r.last;
  struct Wrong {
    uint32_t hole;
    uint64_t offset;
    uint32_t size;
  };
  for (const Wrong& w : {Wrong{1, 0, 16},
                         {0, 48, 16},
                         {0, 32, 16},
                         {0, 32, 4},
                         {0, 8, 16},
                         {0, 16, 0},
                         {0, 0, 40},
                         {0, uint64_t{1} << 63, 16},
                         {0, ~uint64_t{0}, 16}}) {
    BOOST_TEST(r.Announce(r.Note({Receiver::Floats(10)})).empty());
    const uint64_t number = r.last;
    BOOST_TEST(r.Piece(number, 0, 16, 16).empty() == true);
    const auto wholes = r.Piece(number, w.hole, w.offset, w.size);
    BOOST_REQUIRE_EQUAL(wholes.size(), 1u);
    BOOST_TEST(absl::IsInvalidArgument(wholes[0].lost), wholes[0].lost);
    // Late ones are dealt with, too.
    BOOST_TEST(r.Piece(number, 0, 0, 16).empty());
    BOOST_TEST(r.peer.Got<freight_taken>().size() == 3u);
  }
  // One that comes twice.
  BOOST_TEST(r.Announce(r.Note({Receiver::Floats(10)})).empty());
  BOOST_TEST(r.Piece(r.last, 0, 16, 16).empty());
  BOOST_TEST(r.Piece(r.last, 0, 16, 16).size() == 1u);
  BOOST_TEST(r.in.size() == 1u);
  // In any order.
  BOOST_TEST(r.Piece(good, 0, 32, 8).empty());
  BOOST_TEST(r.Piece(good, 0, 0, 16).empty());
  const auto whole = r.Piece(good, 0, 16, 16);
  BOOST_REQUIRE_EQUAL(whole.size(), 1u);
  TROUPE_REQUIRE_OK(whole[0].lost);
  const Tensor& value = std::get<run_parts>(whole[0].message).arguments.at(0).second;
  BOOST_TEST(value.dim(0) == 10);
  for (int i = 0; i < 40; ++i) BOOST_TEST(static_cast<const char*>(value.raw())[i] == 7);
  BOOST_TEST(r.in.size() == 0u);
  // A note that comes twice is none; a reason ends the step.
  const freight_note note = r.Note({Receiver::Floats(10)});
  BOOST_TEST(r.Announce(note).empty());
  BOOST_TEST(r.Announce(note).empty());
  BOOST_TEST(r.in.size() == 1u);
  const auto gone = r.in.Gone({Receiver::kFrom, Receiver::kMine, r.last, Aborted("why")});
  BOOST_REQUIRE_EQUAL(gone.size(), 1u);
  BOOST_TEST(absl::IsAborted(gone[0].lost));
  // Strings that are none.
  BOOST_TEST(r.Announce(r.Note({{0, dtype(DType::kString), {1}, 16}})).empty());
  const auto strings = r.Piece(r.last, 0, 0, 16);
  BOOST_REQUIRE_EQUAL(strings.size(), 1u);
  BOOST_TEST(absl::IsInvalidArgument(strings[0].lost), strings[0].lost);
}

// Sizes do not end at 32 bits. The pages between are not touched.
BOOST_AUTO_TEST_CASE(a_tensor_of_more_than_four_gigabytes_has_its_pieces_where_they_belong) {
  constexpr uint64_t kBytes = (uint64_t{5} << 30) + 12;
  constexpr uint32_t kPiece = 512 << 10;
  BOOST_TEST(FreightBerth::Pieces(kBytes, kPiece) == 10241u);
  BOOST_TEST(FreightBerth::SizeAt(kBytes, kPiece, uint64_t{5} << 30) == 12u);
  Receiver r;
  BOOST_TEST(r.Announce(r.Note({Receiver::Floats(kBytes / 4)}, kPiece)).empty());
  BOOST_REQUIRE_EQUAL(r.peer.Got<freight_go>().size(), 1u);
  const auto berth = FreightBerth::Find({Receiver::kMine, Receiver::kFrom, r.last, 0});
  BOOST_REQUIRE(berth != nullptr);
  const auto* const bytes = static_cast<const char*>(berth->tensor().raw());
  BOOST_TEST(r.Piece(r.last, 0, uint64_t{5} << 30, 12).empty());
  BOOST_TEST(r.Piece(r.last, 0, uint64_t{1} << 32, kPiece).empty());
  BOOST_TEST(bytes[(uint64_t{5} << 30) + 11] == 7);
  BOOST_TEST(bytes[uint64_t{1} << 32] == 7);
  BOOST_TEST(bytes[(uint64_t{1} << 32) + kPiece - 1] == 7);
  BOOST_TEST(r.in.coming_bytes() == kBytes);
  r.in.End({1, 2, 3});
  BOOST_TEST(r.in.coming_bytes() == 0u);
  // The sender's side of it.
  Tensor big(DType::kFloat, TensorShape({static_cast<int64_t>(kBytes / 4)}));
  BOOST_REQUIRE(big.valid());
  FreightOut out(&r.stage.system(), Receiver::kFrom);
  out.set_limits({.big = 1 << 20, .piece = kPiece, .under_way = 20000, .share = false});
  uint64_t number = 0;
  Peer peer(&r.stage);
  TROUPE_REQUIRE_OK(out.Send(peer.relay.actor, Receiver::kMine,
                             part_letter{1, 5, {1, 1}, tensor_to_part{5, 0, {}, false, big, 0}}, std::nullopt,
                             peer.ptr(), &number));
  const auto notes = peer.Got<freight_note>();
  BOOST_REQUIRE_EQUAL(notes.size(), 1u);
  BOOST_TEST(notes[0].holes.at(0).bytes == kBytes);
}

// What a partial run tells before its end comes before its end.
BOOST_AUTO_TEST_CASE(big_results_of_a_partial_run_come_before_its_end) {
  Scope root = Scope::NewRootScope();
  const Scope there = root.WithDevice("/job:ps");
  const Output a = ops::Placeholder(there.WithOpName("a"), DType::kFloat),
               b = ops::Placeholder(there.WithOpName("b"), DType::kFloat);
  ops::Neg(there.WithOpName("c"), a);
  ops::Neg(there.WithOpName("d"), b);
  caf::actor_system_config config;
  caf::actor_system system(config);
  Processes processes({kMasterTask, kPsTask},
                      [&](const RuntimeOptions& o, const ClusterOptions& c) { return StartRuntimeIn(system, o, c); });
  processes.IntroduceAll();
  for (const std::string& name : processes.names) processes.StepsOf(name).freight().out.set_limits(kSmall);
  SessionOptions options;
  options.runtime = processes.runtimes.at(kMasterTask);
  auto session = NewSession(root, options);
  options.runtime = nullptr;
  for (int i = 0; i < 50; ++i) {
    RunOptions limited;
    limited.timeout_ms = 60000;
    auto handle = session->PartialRunSetup(limited, {"a", "b"}, {"c", "d"}, {});
    BOOST_REQUIRE_MESSAGE(handle.ok(), handle.status());
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(session->PartialRun(limited, *handle, {{"a", Ten()}}, {"c"}, &out));
    BOOST_TEST(out.at(0).data<float>()[9] == -10.0f);
    TROUPE_REQUIRE_OK(session->PartialRun(limited, *handle, {{"b", Ten(5)}}, {"d"}, &out));
    BOOST_TEST(out.at(0).data<float>()[9] == -14.0f);
  }
}

// There is no memory for a tensor, or it is none: its step ends, and the error names the edge.
BOOST_AUTO_TEST_CASE(a_tensor_that_cannot_be_read_ends_its_step) {
  BigPlay p;
  p.Warm({"back"});
  // In the process of the master, whose part waits for it.
  Relay relay(&p.stage, WorkerOf(p.processes->Of(kMasterTask), kMasterTask));
  TaskCame(p.processes->Of(kPsTask), {kMasterTask, p.processes->incarnations.at(kMasterTask), relay.actor});
  p.stage.Play();
  for (const std::string& name : p.processes->names)
    p.processes->StepsOf(name).freight().out.set_limits(FreightOut::Limits());
  relay.hold = true;
  p.StartBig({"back"});
  p.stage.Play();
  BOOST_TEST(p.State() == "running");
  BOOST_REQUIRE(!relay.held.empty());
  for (auto& [sender, message] : relay.held) {
    if (!message.match_elements<part_letter>()) continue;
    part_letter letter = message.get_as<part_letter>(0);
    std::get<tensor_to_part>(letter.message).value = Tensor();
    message = caf::make_message(letter);
  }
  relay.hold = false;
  relay.Release();
  p.stage.Play();
  BOOST_TEST(p.State() == "RESOURCE_EXHAUSTED");
  BOOST_TEST(p.Message().find("'edge_") != std::string::npos, p.Message());
  BOOST_TEST(p.Message().find(kPsTask) != std::string::npos, p.Message());
}

// With threads: workers die, and connections are cut, while big tensors travel both ways. Each call
// is answered, the next ones run, and nothing is left.
BOOST_AUTO_TEST_CASE(big_tensors_go_on_through_deaths) {
  const Quiet quiet;
  Scope root = Scope::NewRootScope();
  const Scope here = root.WithDevice("/job:master"), there = root.WithDevice("/job:ps");
  const Output x = ops::Placeholder(here.WithOpName("x"), DType::kFloat);
  Output sum = x;
  for (int i = 0; i < 6; ++i) sum = ops::Add(i % 2 == 0 ? there : here, sum, x);
  ops::Identity(here.WithOpName("sum"), sum);
  CastPolicies policies;
  policies.worker.min_delay = policies.worker.max_delay = 1ms;
  policies.worker.max_failures = 1 << 30;
  caf::actor_system_config config;
  caf::actor_system system(config);
  Processes processes({kMasterTask, kPsTask}, [&](const RuntimeOptions& o, const ClusterOptions& c) {
    return StartRuntimeIn(system, o, c, nullptr, policies);
  });
  processes.IntroduceAll();
  for (const std::string& name : processes.names) {
    processes.StepsOf(name).freight().out.set_limits(kSmall);
    WatchWorkers(processes.Of(name), [&](const std::string& task, const caf::actor& worker) {
      for (const auto& [other, runtime] : processes.runtimes) {
        if (other != task) TaskCame(*runtime, {task, processes.incarnations.at(task), worker});
      }
    });
  }
  SessionOptions options;
  options.runtime = processes.runtimes.at(kMasterTask);
  auto session = NewSession(root, options);
  options.runtime = nullptr;
  int done = 0, failed = 0;
  for (int i = 0; done < 60; ++i) {
    BOOST_REQUIRE(i < 100000);
    if (i % 3 == 0) {
      const std::string& victim = processes.names[static_cast<size_t>(i / 3) % 2];
      if (i % 2 == 0) {
        const caf::actor worker = WorkerOf(processes.Of(victim), victim);
        if (worker) caf::anon_send_exit(worker, caf::exit_reason::kill);
      } else {
        processes.Went(kPsTask, kMasterTask);
        processes.Introduce(kPsTask, kMasterTask);
      }
    }
    RunOptions limited;
    limited.timeout_ms = 60000;
    std::vector<Tensor> out;
    const absl::Status s = session->Run(limited, {{"x", Ten()}}, {"sum"}, {}, &out, nullptr);
    if (!s.ok()) BOOST_TEST((absl::IsAborted(s) || absl::IsUnavailable(s) || absl::IsCancelled(s)), s);
    if (s.ok()) BOOST_TEST(out.at(0).data<float>()[9] == 70.0f);
    s.ok() ? ++done : ++failed;
  }
  for (const std::string& name : processes.names) WatchWorkers(processes.Of(name), nullptr);
  BOOST_TEST(failed > 0);
  session = nullptr;
  const auto until = std::chrono::steady_clock::now() + 60s;
  for (const std::string& name : processes.names) {
    Freight& f = processes.StepsOf(name).freight();
    while (f.in.size() + f.out.size() > 0 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
    BOOST_TEST(f.in.size() == 0u, name);
    BOOST_TEST(f.out.size() == 0u, name);
  }
}

}  // namespace
}  // namespace troupe
