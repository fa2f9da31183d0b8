#include "tests/no_memory/failing.h"

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "tests/sanitizers/sanitized.h"

#if TROUPE_TEST_ASAN
// What other libraries lose where there is no memory, which is no leak of ours.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
  return
      // Protobuf's repeated fields lose an element when there is no memory for its place among the
      // others, or for what it is merged from.
      "leak:google::protobuf::internal::RepeatedPtrFieldBase::Add<\n"
      "leak:google::protobuf::internal::RepeatedPtrFieldBase::MergeFromInnerLoop<\n"
      // CAF keeps an actor that it has no memory to schedule.
      "leak:troupe::SpawnSession\n";
}
#endif

namespace {

using Clock = std::chrono::steady_clock;

thread_local long succeed = -1;  // so many more; -1: all
thread_local long fail = 0, have_failed = 0;
thread_local Clock::duration fail_for{0};  // 0: `fail` is a number
thread_local Clock::time_point until;

bool Fails() {
  if (succeed != 0) return false;
  if (fail_for.count() == 0) return fail > 0 && fail-- > 0;
  const Clock::time_point now = Clock::now();
  if (have_failed == 0) until = now + fail_for;
  return now < until;
}

void* Allocate(size_t bytes, size_t alignment) {
  if (Fails()) {
    ++have_failed;
    throw std::bad_alloc();
  }
  if (succeed > 0) --succeed;
  const size_t whole = (bytes + alignment - 1) / alignment * alignment;
  void* p = alignment <= alignof(std::max_align_t) ? std::malloc(bytes) : std::aligned_alloc(alignment, whole);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

}  // namespace

void* operator new(size_t n) { return Allocate(n, 1); }
void* operator new(size_t n, std::align_val_t a) { return Allocate(n, static_cast<size_t>(a)); }
void* operator new(size_t n, const std::nothrow_t&) noexcept {
  try {
    return Allocate(n, 1);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new(size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  try {
    return Allocate(n, static_cast<size_t>(a));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }
// The standard library's forms for arrays call these; AddressSanitizer's do not.
void* operator new[](size_t n) { return operator new(n); }
void* operator new[](size_t n, std::align_val_t a) { return operator new(n, a); }
void* operator new[](size_t n, const std::nothrow_t& t) noexcept { return operator new(n, t); }
void* operator new[](size_t n, std::align_val_t a, const std::nothrow_t& t) noexcept { return operator new(n, a, t); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }

namespace troupe::testing {

void Fail(long after, long count) {
  have_failed = 0;
  fail = count;
  fail_for = Clock::duration(0);
  succeed = after;
}
void FailFor(long after, std::chrono::milliseconds time) {
  have_failed = 0;
  fail_for = time;
  succeed = after;
}
void FailNone() {
  succeed = -1;
  fail = 0;
}
long Failed() { return have_failed; }

}  // namespace troupe::testing
