#include "actors/same_host/leases.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <new>
#include <utility>

namespace troupe {
namespace {

constexpr uint64_t kRound = 4096;
// Tensors for which a part, or a view, was not needed.
constexpr uint64_t kOld = 256;
// What may be longer than a tensor that lies in it.
constexpr uint64_t Most(uint64_t bytes) { return bytes + bytes / 4 + kRound; }

}  // namespace

void Leases::set_limits(const Limits& limits) {
  std::lock_guard<std::mutex> lock(mu_);
  limits_ = limits;
}

Lease Leases::Take(uint64_t reader, uint64_t bytes) noexcept try {
  const uint64_t size = (bytes + kRound - 1) / kRound * kRound;
  if (size == 0 || size > std::numeric_limits<uint32_t>::max() - kRound) return {};
  std::list<Part> old;  // go without the lock
  std::list<Part> made(1);
  {
    std::lock_guard<std::mutex> lock(mu_);
    ++takings_;
    uint64_t all = making_, readers = 0;
    size_t readers_parts = 0;
    auto best = parts_.end();
    for (auto it = parts_.begin(); it != parts_.end();) {
      const auto next = std::next(it);
      const bool free = it->free();
      if (free && takings_ - it->taken > kOld) {
        old.splice(old.end(), parts_, it);
        it = next;
        continue;
      }
      all += it->bytes();
      readers += free || it->reader != reader ? 0 : it->bytes();
      readers_parts += free || it->reader != reader ? 0 : 1;
      const bool fits = free && it->bytes() >= size && it->bytes() <= Most(size);
      if (fits && (best == parts_.end() || it->bytes() < best->bytes())) best = it;
      it = next;
    }
    if (4 * (readers + size) > 3 * limits_.bytes || 4 * (readers_parts + 1) > 3 * limits_.count) return {};
    if (best != parts_.end()) {
      const uint64_t ticket = best->memory->Take();
      if (ticket == 0) return {};
      best->reader = reader;
      best->taken = takings_;
      parts_.splice(parts_.end(), parts_, best);
      return Lease(best->memory, ticket);
    }
    // What was not used for longest makes room, if that is enough.
    const auto full = [&] { return all + size > limits_.bytes || parts_.size() >= limits_.count; };
    std::list<Part> room;
    for (auto it = parts_.begin(); it != parts_.end() && full();) {
      const auto next = std::next(it);
      if (it->free()) {
        all -= it->bytes();
        room.splice(room.end(), parts_, it);
      }
      it = next;
    }
    if (full()) {
      parts_.splice(parts_.begin(), room);
      return {};
    }
    old.splice(old.end(), room);
    making_ += size;
  }
  old.clear();
  // Throws nothing.
  Part& part = made.front();
  part.memory = SharedPool::Make(static_cast<uint32_t>(size), 1);
  part.reader = reader;
  std::lock_guard<std::mutex> lock(mu_);
  making_ -= size;
  if (part.memory == nullptr) return {};
  const uint64_t ticket = part.memory->Take();
  if (ticket == 0) return {};
  part.taken = takings_;
  Lease lease(part.memory, ticket);
  parts_.splice(parts_.end(), made);
  return lease;
} catch (const std::bad_alloc&) {
  return {};
}

void Leases::Give(uint64_t reader, uint64_t ticket) noexcept {
  std::lock_guard<std::mutex> lock(mu_);
  for (const Part& p : parts_) {
    if (p.reader == reader) p.memory->Give(ticket);
  }
}

void Leases::Forget(uint64_t reader) noexcept {
  std::list<Part> gone;  // go without the lock
  std::lock_guard<std::mutex> lock(mu_);
  for (auto it = parts_.begin(); it != parts_.end();) {
    const auto next = std::next(it);
    if (it->reader == reader && !it->free()) gone.splice(gone.end(), parts_, it);
    it = next;
  }
}

void Leases::Clear() noexcept {
  std::list<Part> gone;
  std::lock_guard<std::mutex> lock(mu_);
  gone.swap(parts_);
}

uint64_t Leases::bytes() const {
  uint64_t all = 0;
  std::lock_guard<std::mutex> lock(mu_);
  for (const Part& p : parts_) all += p.bytes();
  return all;
}

size_t Leases::leased() const {
  std::lock_guard<std::mutex> lock(mu_);
  return static_cast<size_t>(std::count_if(parts_.begin(), parts_.end(), [](const Part& p) { return !p.free(); }));
}

std::shared_ptr<const SharedView> LeasedViews::View(const pool_offer& offer) {
  std::list<Seen> old;  // go without the lock
  {
    std::lock_guard<std::mutex> lock(mu_);
    ++uses_;
    for (auto it = seen_.begin(); it != seen_.end(); ++it) {
      if (!it->view->IsOf(offer)) continue;
      it->used = uses_;
      seen_.splice(seen_.end(), seen_, it);
      return it->view;
    }
  }
  std::list<Seen> opened(1);
  std::shared_ptr<const SharedView> view = SharedView::Open(offer);
  if (view == nullptr) {
    // Perhaps there are too many of them.
    {
      std::lock_guard<std::mutex> lock(mu_);
      old.swap(seen_);
    }
    old.clear();
    view = SharedView::Open(offer);
    if (view == nullptr) return nullptr;
  }
  std::lock_guard<std::mutex> lock(mu_);
  opened.front() = {view, uint64_t{offer.slot} * offer.slots, uses_};
  seen_.splice(seen_.end(), opened);
  uint64_t all = 0;
  for (const Seen& s : seen_) all += s.bytes;
  while (seen_.size() > 1 && (seen_.size() > kMost || all > kMostBytes || uses_ - seen_.front().used > kOld)) {
    all -= seen_.front().bytes;
    old.splice(old.end(), seen_, seen_.begin());
  }
  return view;
}

Buffer* LeasedViews::Adopt(const pool_offer& offer, uint64_t ticket, uint64_t bytes,
                           std::function<void()> returned) noexcept try {
  struct Held {
    std::shared_ptr<const SharedView> view;
    std::function<void()> returned;
  };
  auto held = std::make_unique<Held>(Held{View(offer), std::move(returned)});
  const char* const at = held->view != nullptr ? held->view->At(ticket, bytes) : nullptr;
  if (at == nullptr) return nullptr;
  Buffer* const buffer = Buffer::Wrap(
      const_cast<char*>(at), bytes,
      [](void* arg) {
        const std::unique_ptr<Held> last(static_cast<Held*>(arg));
        last->returned();
      },
      held.get());
  if (buffer != nullptr) (void)held.release();
  return buffer;
} catch (const std::bad_alloc&) {
  return nullptr;
}

size_t LeasedViews::size() const {
  std::lock_guard<std::mutex> lock(mu_);
  return seen_.size();
}

}  // namespace troupe
