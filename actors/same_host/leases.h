// Memory in which a whole tensor lies that another process of this host uses where it lies.
//
// Bytes that pass through the slots of a pool (shared_pool.h) are copied twice: into a slot, and
// out of it into a tensor. For a big tensor the sender takes a lease: a pool of one slot as long as
// the tensor. It copies the bytes there, and the reader's tensor lies in the same memory until its
// last reference goes; then the lease is given back, and the memory used again.
//
// A reader cannot write to what it has leased, and no kernel does: a wrapped buffer never counts as
// a kernel's own (Tensor::BufferUnique). That the bytes stay what they are, a reader believes its
// sender, which is a process of the same user that may look into it anyway.
#ifndef TROUPE_ACTORS_SAME_HOST_LEASES_H_
#define TROUPE_ACTORS_SAME_HOST_LEASES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/same_host/shared_pool.h"
#include "troupe/buffer.h"

namespace troupe {

// A part of somebody's memory, until it is given back: at the end of this object's life, unless it
// was Kept.
class Lease {
 public:
  Lease() = default;
  Lease(std::shared_ptr<SharedPool> memory, uint64_t ticket) : memory_(std::move(memory)), ticket_(ticket) {}
  ~Lease() { GiveBack(); }
  Lease(Lease&& o) noexcept : memory_(std::move(o.memory_)), ticket_(std::exchange(o.ticket_, 0)) {}
  Lease& operator=(Lease&& o) noexcept {
    GiveBack();
    memory_ = std::move(o.memory_);
    ticket_ = std::exchange(o.ticket_, 0);
    return *this;
  }
  explicit operator bool() const { return ticket_ != 0; }
  const std::shared_ptr<SharedPool>& memory() const { return memory_; }
  uint64_t ticket() const { return ticket_; }
  // It is the reader who gives it back.
  void Keep() { ticket_ = 0; }

 private:
  void GiveBack() {
    if (ticket_ != 0) memory_->Give(ticket_);
    ticket_ = 0;
  }
  std::shared_ptr<SharedPool> memory_;
  uint64_t ticket_ = 0;
};

// The sender's side: memory that is used again and again.
//
// Thread rule: thread safe. Take may last some 100 ms, while memory is made.
class Leases {
 public:
  // Of each one reader has at most three quarters, so that one who keeps all does not end it for
  // others. What nobody needed for some 256 tensors goes.
  struct Limits {
    uint64_t bytes = uint64_t{1} << 30;  // in all, what is leased and what is free
    size_t count = 64;                   // so many parts
  };
  void set_limits(const Limits& limits);
  // For a tensor of `bytes` > 0 that `reader` (an incarnation) will have. An empty one: the limits,
  // or the machine, give no such memory now.
  Lease Take(uint64_t reader, uint64_t bytes) noexcept;
  // Nothing happens for a ticket that the reader does not have.
  void Give(uint64_t reader, uint64_t ticket) noexcept;
  // The reader went, or is taken for gone. What it has stays its, and is not used again.
  void Forget(uint64_t reader) noexcept;
  // All readers did.
  void Clear() noexcept;
  // Bytes that are there, and of how many parts somebody has the lease.
  uint64_t bytes() const;
  size_t leased() const;

 private:
  struct Part {
    std::shared_ptr<SharedPool> memory;
    uint64_t reader = 0;  // the last one
    uint64_t taken = 0;   // when, by takings_
    uint64_t bytes() const { return memory->offer().slot; }
    bool free() const { return memory->taken() == 0; }
  };
  mutable std::mutex mu_;  // guards the rest
  Limits limits_;
  std::list<Part> parts_;  // the one that was used last at the end
  uint64_t making_ = 0;    // bytes that are being made
  uint64_t takings_ = 0;
};

// The reader's side: keeps what it has opened of one sender's, since opening takes a while.
//
// Thread rule: thread safe.
class LeasedViews {
 public:
  // The bytes of a lease as a buffer with one reference; null: they are not within reach, or there
  // is no memory for it. `returned` is called when the last reference goes, on any thread.
  Buffer* Adopt(const pool_offer& offer, uint64_t ticket, uint64_t bytes, std::function<void()> returned) noexcept;
  size_t size() const;

 private:
  // What a sender does not use any more goes as it takes new memory.
  static constexpr size_t kMost = 64;
  static constexpr uint64_t kMostBytes = uint64_t{512} << 20;
  std::shared_ptr<const SharedView> View(const pool_offer& offer);
  mutable std::mutex mu_;
  struct Seen {
    std::shared_ptr<const SharedView> view;
    uint64_t bytes = 0;
    uint64_t used = 0;  // when, by uses_
  };
  std::list<Seen> seen_;  // the one that was used last at the end
  uint64_t uses_ = 0;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_SAME_HOST_LEASES_H_
