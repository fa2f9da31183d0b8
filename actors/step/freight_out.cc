#include "actors/step/freight_out.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "actors/threads/no_memory.h"
#include "actors/threads/surely.h"

namespace troupe {
namespace {

// So many tensors of a message may stay in it before smaller ones travel in pieces, too.
constexpr uint64_t kMostInline = 4;
constexpr uint64_t kSmall = 4096;
constexpr size_t kMostHoles = 1 << 15;

bool IsPlain(const Tensor& t) {
  return t.valid() && !IsRef(t.dtype()) && t.dtype() != DType::kVariant && t.dtype() != DType::kResource &&
         t.memory() == MemoryKind::kHost;
}

uint64_t BytesOf(const Tensor& t) {
  if (t.dtype() != DType::kString) return t.bytes();
  uint64_t bytes = 0;
  const auto* const s = static_cast<const std::string*>(t.raw());
  for (int64_t i = 0; i < t.num_elements(); ++i) bytes += sizeof(uint64_t) + s[i].size();
  return bytes;
}

// Which tensors of a message travel in pieces: those that are big, and, of a message that has many,
// all that are not small.
class Choice {
 public:
  explicit Choice(uint64_t big) : big_(big) {}
  bool IsHole(const Tensor& t) {
    if (!IsPlain(t) || holes_ >= kMostHoles) return false;
    const uint64_t bytes = BytesOf(t);
    const bool hole = bytes > big_ || (bytes > kSmall && inline_ + bytes > kMostInline * big_);
    if (!hole) inline_ += bytes;
    holes_ += hole;
    return hole;
  }

 private:
  const uint64_t big_;
  uint64_t inline_ = 0;
  size_t holes_ = 0;
};

}  // namespace

absl::Status SendFar(caf::actor_system& system, const caf::actor& to, const caf::strong_actor_ptr&,
                     caf::mailbox_element_ptr element) {
  auto* const receiver = caf::actor_cast<caf::abstract_actor*>(to);
  if (to.node() == system.node()) {
    EnqueueSurely(system, receiver, std::move(element));
  } else {
    // A proxy makes another message of it, which needs memory.
    receiver->enqueue(std::move(element), nullptr);
  }
  return absl::OkStatus();
}

void FreightOut::set_limits(const Limits& limits) {
  std::lock_guard<std::mutex> lock(mu_);
  limits_ = limits;
}

bool FreightOut::IsBig(freight_message& message) const {
  Choice choice(limits_.big);
  bool big = false;
  ForEachTensor(message, [&](const Tensor& t) { big |= choice.IsHole(t); });
  return big;
}

absl::Status FreightOut::Send(const caf::actor& to, uint64_t incarnation, freight_message&& message,
                              const std::optional<Owner>& owner, const caf::strong_actor_ptr& from,
                              uint64_t* number) try {
  *number = 0;
  if (!to) return Unavailable("the other process is not there");
  freight_note out;
  Note note;
  note.to = incarnation;
  note.worker = to;
  note.from = from;
  note.owner = owner;
  Choice choice(limits_.big);
  uint32_t place = 0;
  absl::Status status;
  ForEachTensor(message, [&](Tensor& t) {
    const uint32_t own = place++;
    if (!status.ok() || !choice.IsHole(t)) return;
    freight_hole& hole = out.holes.emplace_back();
    hole.place = own;
    hole.dtype = static_cast<uint8_t>(t.dtype());
    for (int d = 0; d < t.rank(); ++d) hole.dims.push_back(t.dim(d));
    // A bool is made one by whoever reads it.
    const bool whole = t.dtype() != DType::kString && t.dtype() != DType::kBool;
    Tensor bytes = std::move(t);
    t = Tensor();
    if (bytes.dtype() == DType::kString) {
      absl::StatusOr<Tensor> packed = PackStrings(bytes);
      if (!packed.ok()) return void(status = packed.status());
      bytes = *std::move(packed);
    }
    hole.bytes = bytes.bytes();
    // As bytes in a row: copying that takes no memory.
    note.whole.push_back(whole && hole.bytes >= limits_.lease);
    note.tensors.reserve(note.tensors.size() + 1);
    bytes.buffer()->Ref();
    note.tensors.emplace_back(DType::kUint8, TensorShape({static_cast<int64_t>(hole.bytes)}), bytes.buffer());
  });
  TROUPE_RETURN_IF_ERROR(status);
  // What stays in it has to cross with it.
  if (to.node() != system_.node())
    TROUPE_RETURN_IF_ERROR(std::visit([](const auto& m) { return CheckCross(m); }, message));
  if (out.holes.empty()) return std::visit([&](auto& m) { return SendFar(system_, to, std::move(m), from); }, message);
  if (from == nullptr) return Unavailable("the worker of this process is being restarted; try again");
  out.from = mine_;
  out.to = incarnation;
  out.message = std::move(message);
  note.pool = PoolFor(incarnation);
  if (note.pool != nullptr) out.pool = note.pool->offer();
  {
    std::lock_guard<std::mutex> lock(mu_);
    out.number = ++last_;
    out.piece = note.piece = note.pool != nullptr ? out.pool.slot : limits_.piece;
    notes_.emplace(out.number, std::move(note));
    Count();
  }
  *number = out.number;
  status = SendFar(system_, to, std::move(out), from);
  Notes last;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = notes_.find(*number);
    if (it == notes_.end()) return status;
    it->second.sending = false;
    if (!status.ok() || it->second.gone) last.insert(Take(it));
  }
  for (const auto& [n, gone] : last) {
    if (status.ok()) TellGone(n, gone, *gone.gone);
  }
  return status;
} catch (const std::bad_alloc&) {
  return absl::ResourceExhaustedError("no memory for a message");
}

std::shared_ptr<SharedPool> FreightOut::PoolFor(uint64_t to) {
  Limits limits;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!limits_.share) return nullptr;
    if (const auto it = pools_.find(to); it != pools_.end()) return it->second.declined ? nullptr : it->second.pool;
    // Processes of other hosts decline it at once. Which they are is not known before: CAF's
    // identity of a host is another one for each process.
    const auto made =
        std::count_if(pools_.begin(), pools_.end(), [](const auto& p) { return p.second.pool != nullptr; });
    if (static_cast<size_t>(made) >= limits_.pools) return nullptr;
    limits = limits_;
  }
  // Takes a while. Of two that do it at once one is given back.
  Pool pool{SharedPool::Make(limits.slot, limits.slots), false};
  std::lock_guard<std::mutex> lock(mu_);
  return pools_.try_emplace(to, std::move(pool)).first->second.pool;
}

std::shared_ptr<SharedPool> FreightOut::GiveBack(Pool* pool) {
  // A note whose process said that it can read it has a share.
  if (!pool->declined || pool->pool == nullptr || pool->pool.use_count() > 1 || pool->pool->taken() > 0) return nullptr;
  return std::move(pool->pool);
}

void FreightOut::ForgetPool(uint64_t incarnation) noexcept {
  Pools::node_type gone;  // goes without the lock
  std::lock_guard<std::mutex> lock(mu_);
  gone = pools_.extract(incarnation);
  not_leased_.erase(incarnation);
}

FreightOut::Notes::node_type FreightOut::Take(Notes::iterator it) {
  if (const auto link = links_.find(it->second.to); link != links_.end()) {
    link->second.turns.remove(it->first);
    if (link->second.turns.empty() && link->second.under_way == 0) links_.erase(link);
  }
  Notes::node_type note = notes_.extract(it);
  Count();
  return note;
}

void FreightOut::Returned(const freight_returned& message) {
  leases_.Give(message.to, message.ticket);
  if (!message.refused || message.from != mine_) return;
  std::lock_guard<std::mutex> lock(mu_);
  // Of one that has never been offered anything it would only take memory.
  if (pools_.contains(message.to)) UntilMemoryAllows([&] { not_leased_.insert(message.to); });
}

std::vector<Lease> FreightOut::LeasesFor(uint64_t to, const std::vector<uint64_t>& sizes) {
  std::vector<Lease> leases;
  if (std::all_of(sizes.begin(), sizes.end(), [](uint64_t size) { return size == 0; })) return leases;
  try {
    for (const uint64_t size : sizes) leases.push_back(size > 0 ? leases_.Take(to, size) : Lease());
  } catch (const std::bad_alloc&) {
    leases.clear();
  }
  return leases;
}

void FreightOut::Go(const freight_go& message) {
  std::vector<uint64_t> sizes;  // of what may be leased
  const auto find = [&] {
    const auto it = notes_.find(message.number);
    const bool right = message.from == mine_ && it != notes_.end() && it->second.to == message.to && !it->second.going;
    return right ? it : notes_.end();
  };
  if (message.shared) {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = find();
    if (it == notes_.end()) return;
    const Note& note = it->second;
    const bool leases = note.pool != nullptr && !not_leased_.contains(message.to);
    UntilMemoryAllows([&] { sizes.assign(leases ? note.tensors.size() : 0, 0); });
    for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = note.whole[i] ? note.tensors[i].bytes() : 0;
  }
  // Takes a while.
  std::vector<Lease> leases = LeasesFor(message.to, sizes);
  {
    std::shared_ptr<SharedPool> unused;  // goes without the lock
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = find();
    if (it == notes_.end()) return;
    it->second.leases = std::move(leases);
    links_[message.to].turns.push_back(message.number);
    it->second.going = true;
    it->second.shared = message.shared && it->second.pool != nullptr;
    if (!message.shared) {
      it->second.pool = nullptr;
      if (const auto pool = pools_.find(message.to); pool != pools_.end()) {
        pool->second.declined = true;  // it need not be offered again
        unused = GiveBack(&pool->second);
      }
    }
  }
  Pump(message.to);
}

void FreightOut::Taken(const freight_taken& message) {
  {
    std::shared_ptr<SharedPool> unused;  // goes without the lock
    std::lock_guard<std::mutex> lock(mu_);
    if (message.from != mine_) return;
    const auto pool = message.ticket != 0 ? pools_.find(message.to) : pools_.end();
    if (pool != pools_.end() && pool->second.pool != nullptr) {
      pool->second.pool->Give(message.ticket);
      unused = GiveBack(&pool->second);
    }
    const auto it = links_.find(message.to);
    if (it == links_.end()) return;
    // Nobody can give back more than he has.
    it->second.under_way = std::max(0, it->second.under_way - 1);
    if (it->second.turns.empty() && it->second.under_way == 0) {
      links_.erase(it);
      return Count();
    }
  }
  Pump(message.to);
}

void FreightOut::Drop(const freight_drop& message) {
  Notes last;  // its tensors go without the lock
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = notes_.find(message.number);
  if (message.from != mine_ || it == notes_.end() || it->second.to != message.to) return;
  last.insert(Take(it));
}

freight_piece FreightOut::Next(uint64_t number, Note* note, Lease* lease) const {
  // One without bytes has one piece of none.
  const Tensor& source = note->tensors[note->hole];
  const uint64_t bytes = source.bytes();
  freight_piece piece;
  piece.from = mine_;
  piece.to = note->to;
  piece.number = number;
  piece.hole = static_cast<uint32_t>(note->hole);
  piece.offset = note->offset;
  piece.size = FreightBerth::SizeAt(bytes, note->piece, note->offset);
  if (note->hole < note->leases.size() && note->leases[note->hole]) {
    *lease = std::move(note->leases[note->hole]);
    piece.size = static_cast<uint32_t>(bytes);
    piece.ticket = lease->ticket();
    piece.lease = lease->memory()->offer();
  }
  piece.source = source;
  note->offset += piece.size;
  if (note->offset < bytes) return piece;
  note->tensors[note->hole] = Tensor();  // the piece has a share
  ++note->hole;
  note->offset = 0;
  return piece;
}

bool FreightOut::TakeTurns(uint64_t to, std::vector<Piece>* pieces) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto found = links_.find(to);
  if (found == links_.end()) return false;
  Link& link = found->second;
  while (!link.turns.empty() && pieces->size() < pieces->capacity()) {
    const auto it = notes_.find(link.turns.front());
    Note& note = it->second;
    if (link.under_way >= (note.shared ? static_cast<int>(limits_.slots) : limits_.under_way)) break;
    Piece& piece = pieces->emplace_back(Piece{note.worker, note.from, {}, nullptr, {}});
    piece.message = Next(it->first, &note, &piece.lease);
    ++link.under_way;
    if (piece.lease) {
      piece.pool = piece.lease.memory();
    } else if (note.shared) {
      // Without a slot its bytes go in the message.
      piece.message.ticket = note.pool->Take();
      if (piece.message.ticket != 0) piece.pool = note.pool;
    }
    if (note.hole == note.tensors.size()) {
      link.turns.pop_front();
      notes_.erase(it);
    } else {
      link.turns.splice(link.turns.end(), link.turns, link.turns.begin());
    }
  }
  return !pieces->empty();
}

void FreightOut::Pump(uint64_t to) {
  // What cannot be sent leaves room for another.
  for (bool room = true; room;) {
    room = false;
    std::vector<Piece> pieces;
    UntilMemoryAllows([&] { pieces.reserve(static_cast<size_t>(limits_.under_way) + limits_.slots); });
    if (!TakeTurns(to, &pieces)) return;
    for (Piece& p : pieces) {
      FillSlot(&p);
      (p.pool != nullptr ? in_shared_memory_ : in_messages_).fetch_add(p.message.size, std::memory_order_relaxed);
      const uint64_t number = p.message.number, ticket = p.message.ticket;
      const absl::Status sent = SendFar(system_, p.worker, std::move(p.message), p.from);
      if (sent.ok()) {
        p.lease.Keep();
        continue;
      }
      if (p.pool != nullptr) p.pool->Give(ticket);
      GiveUp(to, number, p, Annotate(sent, "a piece of a tensor"));
      room = true;
    }
  }
}

void FreightOut::FillSlot(Piece* piece) const {
  if (piece->pool == nullptr) return;
  freight_piece& m = piece->message;
  char* const to = piece->pool->At(m.ticket);
  const char* const from = static_cast<const char*>(m.source.raw()) + m.offset;
  const auto copy = [&](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  };
  constexpr double kNanosAByte = 0.1;
  if (piece->lease && threads_ != nullptr) {
    threads_->ParallelFor(m.size, kNanosAByte, copy);
  } else if (m.size > 0) {
    copy(0, m.size);
  }
  m.source = Tensor();
}

void FreightOut::GiveUp(uint64_t to, uint64_t number, const Piece& piece, const absl::Status& why) {
  Notes last;
  Note note;
  note.to = to;
  note.worker = piece.worker;
  note.from = piece.from;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (const auto link = links_.find(to); link != links_.end() && link->second.under_way > 0) --link->second.under_way;
    if (const auto it = notes_.find(number); it != notes_.end()) last.insert(Take(it));
    const auto link = links_.find(to);
    if (link != links_.end() && link->second.turns.empty() && link->second.under_way == 0) links_.erase(link);
    Count();
  }
  TellGone(number, note, why);
}

void FreightOut::TellGone(uint64_t number, const Note& note, const absl::Status& status) noexcept {
  // Without it the receiver would wait.
  UntilMemoryAllows([&] {
    const absl::Status sent = SendFar(system_, note.worker, freight_gone{mine_, note.to, number, status}, note.from);
    if (absl::IsResourceExhausted(sent)) throw std::bad_alloc();
  });
}

void FreightOut::LetGo(Notes::iterator it, const absl::Status& why, Notes* gone) {
  if (it->second.sending) {
    it->second.gone = why;
  } else {
    gone->insert(Take(it));
  }
}

void FreightOut::EndStep(const Owner& owner) noexcept {
  Notes gone;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (auto it = notes_.begin(); it != notes_.end();) {
      const auto next = std::next(it);
      if (it->second.owner == owner) LetGo(it, absl::OkStatus(), &gone);
      it = next;
    }
  }
  for (const auto& [number, note] : gone) TellGone(number, note, absl::OkStatus());
}

void FreightOut::PeerWent(uint64_t incarnation) {
  // Perhaps only this side takes the other one for gone.
  const absl::Status why = absl::UnavailableError("its sender took this process for gone");
  Notes gone;
  ForgetPool(incarnation);
  leases_.Forget(incarnation);
  {
    std::lock_guard<std::mutex> lock(mu_);
    links_.erase(incarnation);
    Count();
    for (auto it = notes_.begin(); it != notes_.end();) {
      const auto next = std::next(it);
      if (it->second.to == incarnation) LetGo(it, why, &gone);
      it = next;
    }
  }
  for (const auto& [number, note] : gone) TellGone(number, note, why);
}

void FreightOut::Fail(const absl::Status& why) noexcept {
  Notes gone;
  Pools pools;  // go without the lock
  leases_.Clear();
  {
    std::lock_guard<std::mutex> lock(mu_);
    links_.clear();
    Count();
    pools_.swap(pools);
    for (auto it = notes_.begin(); it != notes_.end();) {
      const auto next = std::next(it);
      LetGo(it, why, &gone);
      it = next;
    }
  }
  for (const auto& [number, note] : gone) TellGone(number, note, why);
}

size_t FreightOut::size() const {
  std::lock_guard<std::mutex> lock(mu_);
  return notes_.size();
}

int FreightOut::under_way() const {
  int pieces = 0;
  std::lock_guard<std::mutex> lock(mu_);
  for (const auto& [to, link] : links_) pieces += link.under_way;
  return pieces;
}

uint32_t FreightOut::slots_taken() const {
  uint32_t slots = 0;
  std::lock_guard<std::mutex> lock(mu_);
  for (const auto& [to, pool] : pools_) slots += pool.pool != nullptr ? pool.pool->taken() : 0;
  return slots;
}

}  // namespace troupe
