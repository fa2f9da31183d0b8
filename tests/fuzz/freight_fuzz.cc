// What another process may send where big tensors are announced and come in pieces
// (actors/step/freight_in.h): notes, pieces, ends and deaths in any order, of any sizes. An input
// is read as a program, each of whose steps is one of them.
//
// Whatever came: a message that is handed on whole has all its tensors, no more notes are kept than
// the limit says, and when all is over nothing is left: no note, no bytes that are waited for, no
// berth into which a piece could still be written.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "actors/runtime/runtime_impl.h"
#include "actors/step/freight_in.h"
#include "tests/fuzz/messages_system.h"

namespace troupe::fuzz {
namespace {

constexpr uint64_t kMine = 900, kFrom = 901;
constexpr size_t kNotes = 6;

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "freight_fuzz: %s\n", what);
  std::abort();
}

// The bytes of the input, one after the other; then zeros.
class Program {
 public:
  Program(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}
  bool over() const { return at_ == end_; }
  uint8_t Byte() { return over() ? 0 : *at_++; }
  size_t Below(size_t n) { return Byte() % n; }
  template <class T>
  T Any() {
    T x = 0;
    for (size_t i = 0; i < sizeof(T); ++i) x = static_cast<T>(x << 8 | Byte());
    return x;
  }
  // One time in sixteen, if the bytes are random.
  bool Rarely() { return Byte() >= 240; }
  template <class T, size_t kN>
  T Of(const T (&choices)[kN]) {
    return Rarely() ? Any<T>() : choices[Below(kN)];
  }

 private:
  const uint8_t *at_, *const end_;
};

class Play {
 public:
  explicit Play(Program program) : program_(program), in_(&System(), kMine, std::make_shared<Directory>()) {
    in_.set_limits({.bytes = 4096, .notes = kNotes, .share = false});
  }
  void Run() {
    while (!program_.over()) {
      Step();
      Require(in_.size() <= kNotes, "more notes are kept than the limit says");
    }
    Take(in_.Fail(absl::AbortedError("the end")));
    Require(in_.size() == 0, "a note is left");
    Require(in_.coming_bytes() == 0, "bytes are still waited for");
    for (const auto& [name, sent] : sent_) {
      for (uint32_t hole = 0; hole < sent.bytes.size(); ++hole)
        Require(FreightBerth::Find({kMine, name.first, name.second, hole}) == nullptr, "a berth is left");
    }
  }

 private:
  uint64_t From() { return kFrom + program_.Below(2); }
  uint64_t Number() { return program_.Below(2 * kNotes); }
  FreightIn::Key Key() { return {1, static_cast<int64_t>(program_.Below(3)), 3}; }
  void Step() {
    switch (program_.Below(16)) {
      case 0:
      case 1:
      case 2:
        return Announce();
      default:
        return Piece();
      case 4:
        return Take(in_.Begin(Key()));
      case 5: {
        freight_gone gone{From(), kMine, Number(), {}};
        if (program_.Below(2) == 1) gone.status = absl::AbortedError("why");
        return Take(in_.Gone(gone));
      }
      case 6:
        return in_.Abort(Key());
      case 7: {
        if (program_.Below(2) == 1) return Take(in_.PeerWent(From(), absl::UnavailableError("it has gone")));
        parts_done done;
        done.task = 3;
        (void)in_.HoldBack(Key(), &done);
      }
    }
  }
  // A message with so many tensors that are to come.
  freight_message Message(size_t tensors) {
    switch (program_.Below(4)) {
      case 0: {
        run_parts run;
        for (size_t i = 0; i < tensors; ++i) run.arguments.emplace_back(static_cast<uint32_t>(i), Tensor());
        return run;
      }
      case 1: {
        parts_done done;
        for (size_t i = 0; i < tensors; ++i) done.results.emplace_back(static_cast<uint32_t>(i), Tensor());
        return done;
      }
      case 2: {
        part_letter letter;
        letter.message = tensor_to_part{};
        return letter;
      }
      default: {
        step_letter letter;
        letter.message = result{};
        letter.from.task = 3;
        return letter;
      }
    }
  }
  // As a sender makes it, but for some of its numbers.
  void Announce() {
    freight_note note;
    note.from = From();
    note.to = kMine;
    note.number = Number();
    constexpr uint32_t kPieces[] = {16, 16, 64, 1, 1 << 20};
    note.piece = program_.Of(kPieces);
    const size_t tensors = 1 + program_.Below(3);
    note.message = Message(tensors);
    size_t places = 0;
    ForEachTensor(note.message, [&](Tensor&) { ++places; });
    if (program_.Rarely()) places = program_.Below(4);
    for (size_t i = 0; i < places; ++i) note.holes.push_back(Hole(static_cast<uint32_t>(i)));
    // As the network brings it.
    std::vector<char> bytes;
    caf::binary_serializer out(System(), bytes);
    Require(!out(note), "a note cannot be written");
    if (program_.Rarely()) {
      char& byte = bytes[program_.Any<uint16_t>() % bytes.size()];
      byte = static_cast<char>(byte ^ (1 << program_.Below(8)));
    }
    freight_note read;
    caf::binary_deserializer from(System(), bytes);
    if (from(read)) return;
    const std::pair<uint64_t, uint64_t> name{read.from, read.number};
    if (!sent_.contains(name)) {
      Sent sent{read.piece, 0, 0, {}};
      for (const freight_hole& hole : read.holes) sent.bytes.push_back(hole.bytes);
      sent_.emplace(name, std::move(sent));
    }
    const FreightIn::Key key = Key();
    const bool begun = !program_.Rarely();
    Take(in_.Announce("task", std::move(read), nullptr, key, begun, nullptr));
  }
  freight_hole Hole(uint32_t place) {
    constexpr uint8_t kTypes[] = {static_cast<uint8_t>(DType::kFloat), static_cast<uint8_t>(DType::kBool),
                                  static_cast<uint8_t>(DType::kString), static_cast<uint8_t>(DType::kComplex128)};
    freight_hole hole;
    hole.place = program_.Rarely() ? program_.Any<uint32_t>() : place;
    hole.dtype = program_.Of(kTypes);
    uint64_t elements = 1;
    for (size_t rank = program_.Below(3); rank > 0; --rank) {
      constexpr int64_t kDims[] = {1, 2, 10, 10, 7};
      hole.dims.push_back(program_.Of(kDims));
      elements *= static_cast<uint64_t>(hole.dims.back());
    }
    const auto type = static_cast<DType>(hole.dtype);
    const bool strings = type == DType::kString;
    hole.bytes = elements * (strings || !IsValidDType(hole.dtype) || IsRef(type) ? 8 : SizeOf(type));
    if (program_.Rarely()) hole.bytes = program_.Any<uint64_t>();
    // What a sender claims is taken only as it comes, and this program's own memory is not a test.
    if (hole.bytes > (uint64_t{1} << 24) && hole.bytes < (uint64_t{1} << 42)) hole.bytes = uint64_t{1} << 42;
    return hole;
  }
  // The next one of a note that was announced, or any other.
  void Piece() {
    if (sent_.empty()) return;
    auto it = sent_.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(program_.Below(sent_.size())));
    Sent& sent = it->second;
    uint64_t from = it->first.first, number = it->first.second;
    if (program_.Rarely()) from = From(), number = Number();
    uint32_t hole = sent.hole;
    uint64_t offset = sent.offset, size = 0;
    if (hole < sent.bytes.size() && sent.piece > 0) {
      size = std::min<uint64_t>(sent.piece, sent.bytes[hole] - offset);
      sent.offset += size;
      if (sent.offset >= sent.bytes[hole]) ++sent.hole, sent.offset = 0;
    } else {
      sent.hole = 0;  // from the beginning again
    }
    if (program_.Rarely()) hole = program_.Any<uint32_t>();
    if (program_.Rarely()) offset = program_.Any<uint64_t>();
    if (program_.Rarely()) size = program_.Any<uint16_t>();
    Tensor source(DType::kUint8, TensorShape({static_cast<int64_t>(std::min<uint64_t>(size, 4096))}));
    if (!source.valid()) return;
    // Of strings these are lengths, the first of which may fit.
    std::fill_n(static_cast<char*>(source.raw()), source.bytes(), static_cast<char>(program_.Below(3)));
    freight_piece piece{from, kMine, number, hole, 0, static_cast<uint32_t>(source.bytes()), 0, source, true};
    std::vector<char> bytes;
    caf::binary_serializer out(System(), bytes);
    Require(!out(piece), "a piece cannot be written");
    // The offset: written so that the bytes of `source` need not reach there.
    std::vector<char> order;
    caf::binary_serializer order_out(System(), order);
    Require(!order_out(offset), "a number cannot be written");
    std::copy(order.begin(), order.end(), bytes.begin() + 3 * 8 + 4);
    if (program_.Rarely()) bytes.resize(program_.Any<uint16_t>() % (bytes.size() + 1));
    freight_piece read;
    caf::binary_deserializer in(System(), bytes);
    if (in(read)) return;
    Take(in_.Arrived(read, nullptr));
  }
  void Take(FreightIn::Wholes wholes) {
    for (FreightIn::Whole& whole : wholes) {
      if (!whole.lost.ok()) continue;
      bool has = false;
      ForEachTensor(whole.message, [&](Tensor& t) {
        has |= t.valid();
        if (!t.valid() || t.dtype() == DType::kString) return;
        // Each byte belongs to the tensor, and has come.
        for (size_t i = 0; i < t.bytes(); ++i)
          Require(static_cast<const char*>(t.raw())[i] <= 2, "bytes that nobody has sent");
      });
      Require(has, "a message is whole without any of its tensors");
    }
  }

  Program program_;
  FreightIn in_;
  // What was announced, by sender and number: how far it was sent.
  struct Sent {
    uint32_t piece;
    uint32_t hole;
    uint64_t offset;
    std::vector<uint64_t> bytes;
  };
  std::map<std::pair<uint64_t, uint64_t>, Sent> sent_;
};

}  // namespace
}  // namespace troupe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  troupe::fuzz::Play(troupe::fuzz::Program(data, std::min<size_t>(size, 4096))).Run();
  return 0;
}
