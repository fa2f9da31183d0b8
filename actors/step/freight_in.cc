#include "actors/step/freight_in.h"

#include <algorithm>
#include <utility>

#include "actors/runtime/runtime_impl.h"
#include "actors/step/freight_out.h"
#include "actors/threads/no_memory.h"
#include "actors/threads/surely.h"

namespace troupe {
namespace {

constexpr uint32_t kMostPiece = 16 << 20;
constexpr uint64_t kMostPieces = uint64_t{1} << 22;
constexpr size_t kMostViews = 256;

// Who has it hears of it as soon as there is memory to say it.
template <class Message>
void Tell(caf::actor_system& system, const caf::strong_actor_ptr& to, const Message& message) noexcept {
  if (to == nullptr) return;
  UntilMemoryAllows([&] {
    const absl::Status sent = SendFar(system, caf::actor_cast<caf::actor>(to), message, nullptr);
    if (absl::IsResourceExhausted(sent)) throw std::bad_alloc();
  });
}

// A bool is 0 or 1 (wire/tensor_inspect.cc).
void MakeBools(Tensor* t) {
  auto* bytes = static_cast<unsigned char*>(t->raw());
  for (int64_t i = 0; i < t->num_elements(); ++i) bytes[i] = bytes[i] != 0 ? 1 : 0;
}

}  // namespace

// A tensor may outlive the process's part in the cluster, and even the actor system.
class FreightIn::Returns : public std::enable_shared_from_this<Returns> {
 public:
  Returns(caf::actor_system* system, uint64_t mine) : system_(system), mine_(mine) {}
  // Who sends tensors: its worker as it is now.
  void Know(uint64_t from, const caf::strong_actor_ptr& worker) {
    std::lock_guard<std::mutex> lock(mu_);
    senders_[from].worker = worker;
  }
  void Forget(uint64_t from) {
    Sender gone;
    std::lock_guard<std::mutex> lock(mu_);
    if (const auto it = senders_.find(from); it != senders_.end()) {
      gone = std::move(it->second);
      senders_.erase(it);
    }
  }
  void Close() {
    std::map<uint64_t, Sender> gone;
    std::lock_guard<std::mutex> lock(mu_);
    system_ = nullptr;
    gone.swap(senders_);
  }
  Buffer* Adopt(uint64_t from, const pool_offer& lease, uint64_t ticket, uint64_t bytes) noexcept try {
    std::shared_ptr<LeasedViews> views;
    {
      std::lock_guard<std::mutex> lock(mu_);
      const auto it = senders_.find(from);
      if (it == senders_.end()) return nullptr;
      views = it->second.views;
    }
    return views->Adopt(lease, ticket, bytes,
                        [self = shared_from_this(), from, ticket] { self->Return(from, ticket); });
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  // Without memory the lease is lost until the connection ends: whoever drops the tensor may hold a
  // lock, and does not wait here.
  void Return(uint64_t from, uint64_t ticket) noexcept {
    // Under the lock: the system lives meanwhile.
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = senders_.find(from);
    if (system_ == nullptr || it == senders_.end()) return;
    SendFar(*system_, caf::actor_cast<caf::actor>(it->second.worker), freight_returned{from, mine_, ticket, false},
            nullptr)
        .IgnoreError();
  }

 private:
  struct Sender {
    caf::strong_actor_ptr worker;
    std::shared_ptr<LeasedViews> views = std::make_shared<LeasedViews>();
  };
  std::mutex mu_;
  caf::actor_system* system_;
  const uint64_t mine_;
  std::map<uint64_t, Sender> senders_;  // by incarnation
};

FreightIn::FreightIn(caf::actor_system* system, uint64_t mine, std::shared_ptr<const Directory> directory)
    : system_(*system),
      mine_(mine),
      directory_(std::move(directory)),
      returns_(std::make_shared<Returns>(system, mine)) {}

struct FreightIn::Turn {
  explicit Turn(FreightIn* in) : in(in) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    if (!starts) {
      for (Whole& whole : wholes) in->Post(std::move(whole));
    }
    for (const Letter& letter : letters) {
      // Others of that sender may start in a turn of the worker's.
      if (!starts) in->Post(letter);
      if (letter.drop) {
        Tell(in->system_, letter.to, freight_drop{letter.go.from, letter.go.to, letter.go.number});
      } else {
        Tell(in->system_, letter.to, letter.go);
      }
    }
  }
  void Add(const Name& name, const Note& note, bool drop) {
    UntilMemoryAllows([&] {
      letters.push_back({note.whole.from, note.whole.task,
                         freight_go{name.first, in->mine_, name.second, note.pool != nullptr}, drop});
    });
  }
  void Lose(Note&& note, const absl::Status& why) {
    note.whole.lost = why;
    UntilMemoryAllows([&] { wholes.reserve(wholes.size() + 1); });
    wholes.push_back(std::move(note.whole));
  }
  FreightIn* const in;
  bool starts = true;  // notes that wait; otherwise, and what is to be handed on, in a later turn
  std::vector<Letter> letters;
  Wholes wholes;
};

FreightIn::~FreightIn() {
  returns_->Close();
  for (const auto& [name, note] : notes_) {
    for (uint32_t i = 0; i < note.berths.size(); ++i) FreightBerth::Close({mine_, name.first, name.second, i});
  }
}

void FreightIn::set_limits(const Limits& limits) {
  std::lock_guard<std::mutex> lock(mu_);
  limits_ = limits;
}

absl::Status FreightIn::Check(freight_note* note, Note* kept) {
  const auto wrong = [](std::string_view what) {
    return InvalidArgument("the note of a message's big tensors is refused: ", what);
  };
  std::vector<const Tensor*> places;
  ForEachTensor(note->message, [&](const Tensor& t) { places.push_back(&t); });
  if (note->piece == 0 || note->piece > kMostPiece) return wrong("its pieces have no possible size");
  if (note->holes.empty()) return wrong("it has none");
  for (const freight_hole& hole : note->holes) {
    if (hole.place >= places.size() || places[hole.place] == nullptr || places[hole.place]->valid())
      return wrong("it has no place for one");
    places[hole.place] = nullptr;
    const auto dtype = static_cast<DType>(hole.dtype);
    if (!IsValidDType(hole.dtype) || IsRef(dtype) || dtype == DType::kVariant || dtype == DType::kResource)
      return wrong("one is of a type that does not cross");
    const absl::StatusOr<TensorShape> shape = TensorShape::Make(hole.dims);
    if (!shape.ok()) return Annotate(shape.status(), "the note of a message's big tensors");
    const auto n = static_cast<uint64_t>(shape->num_elements());
    uint64_t bytes = 0;
    const bool strings = dtype == DType::kString;
    if (__builtin_mul_overflow(n, strings ? sizeof(uint64_t) : SizeOf(dtype), &bytes) || hole.bytes == 0 ||
        (strings ? hole.bytes < bytes : hole.bytes != bytes))
      return wrong("the bytes of one do not fit its shape");
    if (FreightBerth::Pieces(hole.bytes, note->piece) > kMostPieces - kept->pieces_left)
      return wrong("they have too many pieces");
    kept->pieces_left += FreightBerth::Pieces(hole.bytes, note->piece);
    if (__builtin_add_overflow(kept->bytes, hole.bytes, &kept->bytes)) return wrong("they have too many bytes");
    kept->shapes.push_back(*shape);
  }
  return absl::OkStatus();
}

FreightIn::Wholes FreightIn::Announce(const std::string& task, freight_note&& note, const caf::strong_actor_ptr& from,
                                      const Key& key, bool begun, std::shared_ptr<const SharedView> pool) {
  Note kept;
  const Name name{note.from, note.number};
  absl::Status status = Check(&note, &kept);
  kept.piece = note.piece;
  kept.pool = std::move(pool);
  kept.begun = begun;
  kept.holes = std::move(note.holes);
  kept.whole = {key, task, from, std::move(note.message), {}, {}};
  Turn turn(this);
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (notes_.contains(name)) return {};  // a message that comes twice is none
    if (status.ok() && notes_.size() >= limits_.notes)
      status = ResourceExhausted("more than ", limits_.notes, " messages with big tensors are on their way");
    if (status.ok()) {
      const auto it = notes_.emplace(name, std::move(kept)).first;
      size_.store(notes_.size());
      if (begun) Queue(name, &it->second, &turn);
    } else {
      turn.Add(name, kept, true);
      turn.Lose(std::move(kept), status);
    }
  }
  return std::move(turn.wholes);
}

std::shared_ptr<const SharedView> FreightIn::View(const freight_note& note) {
  if (note.pool.pid == 0) return nullptr;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!limits_.share) return nullptr;
    const auto it = views_.find(note.from);
    if (it != views_.end() && it->second->IsOf(note.pool)) return it->second;
  }
  std::shared_ptr<const SharedView> view = SharedView::Open(note.pool);
  if (view == nullptr) return nullptr;
  Views old;  // go without the lock
  std::shared_ptr<const SharedView> before = view;
  std::lock_guard<std::mutex> lock(mu_);
  // One of each sender; those of its notes keep what they have.
  if (views_.size() >= kMostViews) views_.swap(old);
  views_[note.from].swap(before);
  return view;
}

void FreightIn::Queue(const Name& name, Note* note, Turn* turn) {
  note->begun = true;
  links_[name.first].waiting.push_back(name.second);
  StartSome(name.first, turn);
}

void FreightIn::StartSome(uint64_t from, Turn* turn) {
  const auto link = links_.find(from);
  if (link == links_.end()) return;
  Link& l = link->second;
  while (!l.waiting.empty()) {
    const auto it = notes_.find({from, l.waiting.front()});
    Note& note = it->second;
    if (l.coming > 0 && l.bytes + note.bytes > limits_.bytes) return;
    l.waiting.pop_front();
    const absl::Status started = Start(it->first, &note);
    if (started.ok()) {
      note.coming = true;
      ++l.coming;
      l.bytes += note.bytes;
      turn->Add(it->first, note, false);
      continue;
    }
    turn->Add(it->first, note, true);
    for (uint32_t i = 0; i < note.berths.size(); ++i) FreightBerth::Close({mine_, from, it->first.second, i});
    turn->Lose(std::move(note), started);
    notes_.erase(it);
    size_.store(notes_.size());
  }
  if (l.coming == 0) links_.erase(link);
}

FreightBerth::AdoptFn FreightIn::AdoptFor(const Name& name, const Note& note, DType dtype) const {
  if (note.pool == nullptr || dtype == DType::kString || dtype == DType::kBool) return nullptr;
  returns_->Know(name.first, note.whole.from);
  return [returns = returns_, from = name.first](const pool_offer& lease, uint64_t ticket, uint64_t bytes) {
    return returns->Adopt(from, lease, ticket, bytes);
  };
}

absl::Status FreightIn::Start(const Name& name, Note* note) try {
  for (uint32_t i = 0; i < note->holes.size(); ++i) {
    const freight_hole& hole = note->holes[i];
    const bool strings = static_cast<DType>(hole.dtype) == DType::kString;
    Tensor tensor = strings ? Tensor(DType::kUint8, TensorShape({static_cast<int64_t>(hole.bytes)}))
                            : Tensor(static_cast<DType>(hole.dtype), note->shapes[i]);
    if (!tensor.valid()) return ResourceExhausted("no memory for a tensor of ", hole.bytes, " bytes from elsewhere");
    auto berth = std::make_shared<FreightBerth>(std::move(tensor), hole.bytes, note->piece, note->pool,
                                                AdoptFor(name, *note, static_cast<DType>(hole.dtype)));
    note->berths.push_back(berth);
    FreightBerth::Open({mine_, name.first, name.second, i}, std::move(berth));
  }
  return absl::OkStatus();
} catch (const std::bad_alloc&) {
  return absl::ResourceExhaustedError("no memory for a tensor from elsewhere");
}

FreightIn::Note FreightIn::Take(Notes::iterator it, Turn* turn) {
  const Name name = it->first;
  Note note = std::move(it->second);
  notes_.erase(it);
  size_.store(notes_.size());
  for (uint32_t i = 0; i < note.berths.size(); ++i) FreightBerth::Close({mine_, name.first, name.second, i});
  const auto link = links_.find(name.first);
  if (link == links_.end()) return note;
  if (note.coming) {
    --link->second.coming;
    link->second.bytes -= note.bytes;
  } else {
    std::erase(link->second.waiting, name.second);
  }
  if (turn->starts) StartSome(name.first, turn);
  return note;
}

FreightIn::Wholes FreightIn::Begin(const Key& key) {
  if (size_.load() == 0) return {};
  Turn turn(this);
  {
    std::lock_guard<std::mutex> lock(mu_);
    std::vector<Name> early;
    for (const auto& [name, note] : notes_) {
      if (note.whole.key == key && !note.begun) early.push_back(name);
    }
    for (const Name& name : early) {
      if (const auto it = notes_.find(name); it != notes_.end()) Queue(name, &it->second, &turn);
    }
  }
  return std::move(turn.wholes);
}

absl::Status FreightIn::Fill(Note* note) try {
  std::vector<Tensor*> places;
  ForEachTensor(note->whole.message, [&](Tensor& t) { places.push_back(&t); });
  for (size_t i = 0; i < note->holes.size(); ++i) {
    const freight_hole& hole = note->holes[i];
    Tensor value = note->berths[i]->tensor();
    note->berths[i] = nullptr;  // the value's bytes have one owner again
    if (static_cast<DType>(hole.dtype) == DType::kString) {
      TROUPE_ASSIGN_OR_RETURN(value, UnpackStrings(value, note->shapes[i]));
    } else if (value.dtype() == DType::kBool) {
      MakeBools(&value);
    }
    *places[hole.place] = std::move(value);
  }
  return absl::OkStatus();
} catch (const std::bad_alloc&) {
  return absl::ResourceExhaustedError("no memory for a message from elsewhere");
}

FreightIn::Wholes FreightIn::Arrived(const freight_piece& piece, const caf::strong_actor_ptr& from) {
  // Whatever it was, its sender may send the next one.
  const bool leased = piece.lease.pid != 0;
  Tell(system_, from, freight_taken{piece.from, piece.to, leased ? 0 : piece.ticket});
  if (leased && !piece.adopted) Tell(system_, from, freight_returned{piece.from, piece.to, piece.ticket, !piece.taken});
  Turn turn(this);
  std::optional<Note> done;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = notes_.find({piece.from, piece.number});
    if (piece.to != mine_ || it == notes_.end()) return {};
    Note& note = it->second;
    if (!piece.taken || !note.coming) {
      turn.Add(it->first, note, true);
      turn.Lose(Take(it, &turn), InvalidArgument("a piece of a tensor from elsewhere does not fit, or came twice"));
      return std::move(turn.wholes);
    }
    note.pieces_left -= std::min(note.pieces_left, leased ? FreightBerth::Pieces(piece.size, note.piece) : 1);
    if (note.pieces_left > 0) return {};
    done = Take(it, &turn);
  }
  done->whole.lost = Fill(&*done);
  turn.Lose(std::move(*done), done->whole.lost);
  return std::move(turn.wholes);
}

FreightIn::Wholes FreightIn::Gone(const freight_gone& message) {
  Turn turn(this);
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = notes_.find({message.from, message.number});
  if (message.to == mine_ && it == notes_.end()) StartSome(message.from, &turn);  // of Post
  if (message.to != mine_ || it == notes_.end()) return std::move(turn.wholes);
  Note note = Take(it, &turn);
  // Who waits for an answer gets one.
  const bool owed =
      std::holds_alternative<run_parts>(note.whole.message) || std::holds_alternative<parts_done>(note.whole.message);
  if (!message.status.ok() || owed || !note.whole.after.empty())
    turn.Lose(std::move(note), message.status.ok() ? kToldToEnd : message.status);
  return std::move(turn.wholes);
}

FreightIn::Wholes FreightIn::PeerWent(uint64_t incarnation, const absl::Status& why) {
  // After all that goes back to it: perhaps only this side takes it for gone.
  struct Last {
    ~Last() { returns->Forget(incarnation); }
    Returns* const returns;
    const uint64_t incarnation;
  } last{returns_.get(), incarnation};
  Turn turn(this);
  Views::node_type view;  // goes without the lock
  std::lock_guard<std::mutex> lock(mu_);
  view = views_.extract(incarnation);
  links_.erase(incarnation);
  for (auto it = notes_.begin(); it != notes_.end();) {
    const auto next = std::next(it);
    if (it->first.first == incarnation) {
      turn.Add(it->first, it->second, true);  // perhaps only this side takes the other one for gone
      turn.Lose(Take(it, &turn), why);
    }
    it = next;
  }
  return std::move(turn.wholes);
}

FreightIn::Wholes FreightIn::Fail(const absl::Status& why) {
  Turn turn(this);
  Views views;  // go without the lock
  std::lock_guard<std::mutex> lock(mu_);
  views_.swap(views);
  links_.clear();
  while (!notes_.empty()) {
    turn.Add(notes_.begin()->first, notes_.begin()->second, true);
    turn.Lose(Take(notes_.begin(), &turn), why);
  }
  return std::move(turn.wholes);
}

void FreightIn::Refuse(const freight_note& note, const caf::strong_actor_ptr& from) noexcept {
  Tell(system_, from, freight_drop{note.from, note.to, note.number});
}

void FreightIn::Abort(const Key& key) noexcept {
  if (size_.load() == 0) return;
  Turn turn(this);
  turn.starts = false;
  std::lock_guard<std::mutex> lock(mu_);
  for (auto it = notes_.begin(); it != notes_.end();) {
    const auto next = std::next(it);
    if (it->second.whole.key == key) {
      turn.Add(it->first, it->second, true);
      turn.Lose(Take(it, &turn), kToldToEnd);
    }
    it = next;
  }
}

void FreightIn::End(const Key& key) noexcept { Abort(key); }

// The caller may have the lock of those who would take it.
void FreightIn::Post(Whole&& whole) noexcept {
  const caf::actor worker = directory_->Find(WorkerName(whole.task));
  if (!worker) return;  // who died has ended its steps
  const auto post = [&](parts_done&& done) {
    done.results.clear();
    if (done.status.ok()) done.status = kToldToEnd;
    SendSurely(system_, worker, [&] { return done; });
  };
  // A step whose arguments do not come is told to end as it begins, and its master hears of it.
  if (auto* run = std::get_if<run_parts>(&whole.message)) {
    run->arguments.clear();
    run->cancelled = true;
    SendSurely(
        system_, worker, [&] { return *run; }, whole.from);
  }
  if (auto* done = std::get_if<parts_done>(&whole.message)) post(std::move(*done));
  for (parts_done& done : whole.after) post(std::move(done));
}

void FreightIn::Post(const Letter& letter) noexcept {
  const caf::actor worker = directory_->Find(WorkerName(letter.task));
  if (worker) SendSurely(system_, worker, [&] { return freight_gone{letter.go.from, mine_, 0, {}}; });
}

bool FreightIn::HoldBack(const Key& key, parts_done* message) {
  if (size_.load() == 0) return false;
  std::lock_guard<std::mutex> lock(mu_);
  for (auto& [name, note] : notes_) {
    const auto* const letter = std::get_if<step_letter>(&note.whole.message);
    if (letter == nullptr || note.whole.key != key || letter->from.task != message->task) continue;
    note.whole.after.push_back(std::move(*message));
    return true;
  }
  return false;
}

size_t FreightIn::size() const { return size_.load(); }

uint64_t FreightIn::coming_bytes() const {
  uint64_t bytes = 0;
  std::lock_guard<std::mutex> lock(mu_);
  for (const auto& [from, link] : links_) bytes += link.bytes;
  return bytes;
}

}  // namespace troupe
