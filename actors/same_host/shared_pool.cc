#include "actors/same_host/shared_pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>

namespace troupe {
namespace {

constexpr size_t kPage = 4096;
constexpr char kName[] = "troupe-pool";
constexpr std::string_view kLink = "/memfd:troupe-pool";  // what /proc says of it
// What a reader maps at most, whatever is offered.
constexpr uint64_t kMostBytes = uint64_t{1} << 30;
// What a reader relies on.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
// Those of the kernel's headers that the C library's may not have yet.
constexpr int kSealFutureWrite = 0x10;
constexpr long kTmpfs = 0x01021994;
// Each takes some of the mappings that the kernel gives a process, 65530 as a rule. Whoever
// connects makes a program open one.
constexpr int kMostViews = 1024;

std::atomic<int> views{0};

// Of an offer that may be wrong; 0: it is.
size_t BytesOf(const pool_offer& o) {
  if (o.pid == 0 || o.slot == 0 || o.slot % kPage != 0 || o.slots == 0) return 0;
  const uint64_t bytes = uint64_t{o.slot} * o.slots;  // of 32 bits each
  return bytes <= kMostBytes ? static_cast<size_t>(bytes) + kPage : 0;
}

// A descriptor that is closed when it goes.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int Release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

// To open what is no file of memory could wait, or do something.
bool IsFileOfAPool(const char* path) {
  char target[64];
  const ssize_t n = readlink(path, target, sizeof(target));
  return n > 0 && std::string_view(target, static_cast<size_t>(n)).starts_with(kLink);
}

bool HasSizeAndSeals(int fd, size_t bytes) {
  struct stat s = {};
  struct statfs system = {};
  const int seals = fcntl(fd, F_GET_SEALS);
  // The kernel's own memory: to read a file of another system could wait for a program.
  return fstatfs(fd, &system) == 0 && system.f_type == kTmpfs && fstat(fd, &s) == 0 && S_ISREG(s.st_mode) &&
         static_cast<uint64_t>(s.st_size) == bytes && seals >= 0 && (seals & kSeals) == kSeals;
}

// To make a longer file than the process may is a signal, which ends the program.
bool IsAllowed(size_t bytes) {
  rlimit limit = {};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes <= limit.rlim_cur;
}

// From now on nobody can write but who has the file in its memory, which is this process; the
// seals stay. An old kernel has no such seal, and lets processes of the same user write.
bool Seal(int fd) {
  if (fcntl(fd, F_ADD_SEALS, kSeals) != 0) return false;
  (void)fcntl(fd, F_ADD_SEALS, kSealFutureWrite);
  return fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) == 0;
}

}  // namespace

std::shared_ptr<SharedPool> SharedPool::Make(uint32_t slot, uint32_t slots) noexcept try {
  std::shared_ptr<SharedPool> pool(new SharedPool);
  pool_offer& o = pool->offer_;
  o.pid = static_cast<uint64_t>(getpid());
  o.slot = slot;
  o.slots = slots;
  const size_t bytes = BytesOf(o);
  if (bytes == 0) return nullptr;
  if (getrandom(o.key, sizeof(o.key), GRND_NONBLOCK) != static_cast<ssize_t>(sizeof(o.key))) return nullptr;
  pool->tickets_.resize(slots);
  Descriptor fd(memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd.get() < 0) return nullptr;
  if (!IsAllowed(bytes)) return nullptr;
  // Memory that is not there is found out now, and not by a signal when a slot is written to.
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return nullptr;
  if (fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)) != 0) return nullptr;
  void* const begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (begin == MAP_FAILED) return nullptr;
  pool->begin_ = static_cast<char*>(begin);
  pool->bytes_ = bytes;
  if (!Seal(fd.get())) return nullptr;
  std::memcpy(pool->begin_, o.key, sizeof(o.key));
  o.fd = static_cast<uint32_t>(fd.get());
  pool->fd_ = fd.Release();
  return pool;
} catch (const std::bad_alloc&) {
  return nullptr;
}

SharedPool::~SharedPool() {
  if (begin_ != nullptr) munmap(begin_, bytes_);
  if (fd_ >= 0) close(fd_);
}

uint64_t SharedPool::Take() noexcept {
  std::lock_guard<std::mutex> lock(mu_);
  const auto free = std::find(tickets_.begin(), tickets_.end(), uint64_t{0});
  if (free == tickets_.end()) return 0;
  uint64_t chance = 0;
  if (getrandom(&chance, sizeof(chance), GRND_NONBLOCK) != static_cast<ssize_t>(sizeof(chance))) return 0;
  // Not 0, and its remainder is the slot.
  const uint64_t n = tickets_.size(), slot = static_cast<uint64_t>(free - tickets_.begin());
  *free = (chance % (~uint64_t{0} / n - 1) + 1) * n + slot;
  return *free;
}

void SharedPool::Give(uint64_t ticket) noexcept {
  std::lock_guard<std::mutex> lock(mu_);
  uint64_t& held = tickets_[ticket % tickets_.size()];
  if (held == ticket) held = 0;
}

char* SharedPool::At(uint64_t ticket) const { return begin_ + kPage + (ticket % offer_.slots) * uint64_t{offer_.slot}; }

uint32_t SharedPool::taken() const {
  std::lock_guard<std::mutex> lock(mu_);
  return static_cast<uint32_t>(tickets_.size() - static_cast<size_t>(std::count(tickets_.begin(), tickets_.end(), 0u)));
}

namespace {

// The file of a pool of so many bytes; -1: it is not within reach.
int OpenFile(const pool_offer& offer, size_t bytes) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%llu/fd/%u", static_cast<unsigned long long>(offer.pid), offer.fd);
  if (!IsFileOfAPool(path)) return -1;
  Descriptor fd(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (fd.get() < 0 || !HasSizeAndSeals(fd.get(), bytes)) return -1;
  return fd.Release();
}

bool ReadAt(int fd, uint64_t offset, char* to, uint64_t bytes) {
  while (bytes > 0) {
    const ssize_t n = pread(fd, to, bytes, static_cast<off_t>(offset));
    if (n <= 0) return false;
    to += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<uint64_t>(n);
  }
  return true;
}

}  // namespace

bool SharedView::Copy(const pool_offer& offer, uint64_t ticket, char* to, uint64_t bytes) noexcept {
  const size_t all = BytesOf(offer);
  if (all == 0 || bytes > offer.slot) return false;
  const Descriptor fd(OpenFile(offer, all));
  uint64_t key[2] = {0, 0};
  if (fd.get() < 0 || !ReadAt(fd.get(), 0, reinterpret_cast<char*>(key), sizeof(key))) return false;
  if (std::memcmp(key, offer.key, sizeof(key)) != 0) return false;
  return ReadAt(fd.get(), kPage + (ticket % offer.slots) * uint64_t{offer.slot}, to, bytes);
}

std::shared_ptr<const SharedView> SharedView::Open(const pool_offer& offer) noexcept try {
  const size_t bytes = BytesOf(offer);
  if (bytes == 0) return nullptr;
  const Descriptor fd(OpenFile(offer, bytes));
  if (fd.get() < 0) return nullptr;
  std::shared_ptr<SharedView> view(new SharedView);
  if (views.load() > kMostViews) return nullptr;
  void* const begin = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (begin == MAP_FAILED) return nullptr;
  view->offer_ = offer;
  view->begin_ = static_cast<const char*>(begin);
  view->bytes_ = bytes;
  if (std::memcmp(begin, offer.key, sizeof(offer.key)) != 0) return nullptr;
  return view;
} catch (const std::bad_alloc&) {
  return nullptr;
}

SharedView::SharedView() { views.fetch_add(1); }

SharedView::~SharedView() {
  views.fetch_sub(1);
  if (begin_ != nullptr) munmap(const_cast<char*>(begin_), bytes_);
}

bool SharedView::IsOf(const pool_offer& o) const {
  return o.pid == offer_.pid && o.fd == offer_.fd && o.key[0] == offer_.key[0] && o.key[1] == offer_.key[1] &&
         o.slot == offer_.slot && o.slots == offer_.slots;
}

const char* SharedView::At(uint64_t ticket, uint64_t size) const {
  if (size > offer_.slot) return nullptr;
  return begin_ + kPage + (ticket % offer_.slots) * uint64_t{offer_.slot};
}

}  // namespace troupe
