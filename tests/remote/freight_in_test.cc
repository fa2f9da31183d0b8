// The receiver's side of tensors that travel in pieces: which notes wait, which are refused, and
// what does not fit. The sender's side, and whole journeys: freight_test.cc.
#include <cstring>

#include "tests/remote/freight_play.h"

namespace troupe {
namespace freight_in_test {

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
  FreightOut out(&r.stage.system(), Receiver::kFrom, nullptr);
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

}  // namespace freight_in_test
}  // namespace troupe
