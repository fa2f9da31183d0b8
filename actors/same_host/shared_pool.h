// Memory in which one process leaves bytes for another one of its host to read, so that they need
// not pass through a socket.
//
// The sender makes a SharedPool, slots of one size in an anonymous file, and offers it in a
// message. A receiver on the same host opens that file by way of the sender's /proc entry, which
// the kernel allows to processes of the same user that may trace the sender; it knows the right
// file by a key that was in the offer. A receiver elsewhere, in another PID namespace, or of
// another user does not get it, and says so. Bytes in a slot are announced by a message with its
// ticket, and the slot is free again when a message brings the ticket back (step/freight_out.h).
// The kernel orders the bytes before the message that announces them, as both processes enter it
// for the message.
//
// The file can neither shrink nor grow, so that no reader's access fails, and its pages are there
// before it is offered, so that no writer's does. Nobody but its maker can write to it, where the
// kernel has seals against that (Linux 5.1).
#ifndef TROUPE_ACTORS_SAME_HOST_SHARED_POOL_H_
#define TROUPE_ACTORS_SAME_HOST_SHARED_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace troupe {

// Where a pool is found. Comes from other processes, so that each field may be anything.
struct pool_offer {
  uint64_t pid = 0;  // 0: no offer
  uint32_t fd = 0;
  uint64_t key[2] = {0, 0};
  uint32_t slot = 0, slots = 0;  // bytes of each, and how many
};

// The sender's side.
//
// Thread rule: Take and Give are thread safe; a slot belongs to whoever took it.
class SharedPool {
 public:
  // Null: the machine, or a limit of the process, gives no such memory. `slot` is a multiple of
  // 4096.
  static std::shared_ptr<SharedPool> Make(uint32_t slot, uint32_t slots) noexcept;
  ~SharedPool();
  SharedPool(const SharedPool&) = delete;
  SharedPool& operator=(const SharedPool&) = delete;

  const pool_offer& offer() const { return offer_; }
  // A ticket for a free slot; 0: there is none. Nobody can guess a ticket, so that only who got one
  // can give it back.
  uint64_t Take() noexcept;
  // The slot is free again. Nothing happens for a ticket that has no slot here.
  void Give(uint64_t ticket) noexcept;
  char* At(uint64_t ticket) const;
  uint32_t taken() const;

 private:
  SharedPool() = default;
  pool_offer offer_;
  int fd_ = -1;
  char* begin_ = nullptr;  // of the file: a page with the key, and the slots
  size_t bytes_ = 0;
  mutable std::mutex mu_;
  std::vector<uint64_t> tickets_;  // by slot; 0: free
};

// The receiver's side.
//
// Thread rule: thread safe.
class SharedView {
 public:
  // Null: the pool is not within reach, or is none; or this process has 1024 views.
  static std::shared_ptr<const SharedView> Open(const pool_offer& offer) noexcept;
  ~SharedView();
  SharedView(const SharedView&) = delete;
  SharedView& operator=(const SharedView&) = delete;

  bool IsOf(const pool_offer& offer) const;
  // Copies the bytes behind a ticket of a pool, which takes no place among the views. False where
  // Open gives nothing, and for more bytes than a slot has.
  static bool Copy(const pool_offer& offer, uint64_t ticket, char* to, uint64_t bytes) noexcept;
  // The bytes behind a ticket; null for more of them than a slot has. They may change at any time:
  // their maker can write to them.
  const char* At(uint64_t ticket, uint64_t size) const;

 private:
  SharedView();
  pool_offer offer_;
  const char* begin_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_SAME_HOST_SHARED_POOL_H_
