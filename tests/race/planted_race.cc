// Shows that ThreadSanitizer sees a race of the kind that the tests of this group look for: the
// list of arrivals of a step (PostArrival and TakeArrivals), with the release of the post left out.
// The contents of an arrival are then ordered by nothing.
#include <atomic>
#include <cstdio>
#include <thread>

namespace {

struct Arrival {
  Arrival* next = nullptr;
  int value = 0;
};

std::atomic<Arrival*> arrivals{nullptr};

void Post(Arrival* a) {
  Arrival* head = arrivals.load(std::memory_order_relaxed);
  do {
    a->next = head;
  } while (!arrivals.compare_exchange_weak(head, a, std::memory_order_relaxed, std::memory_order_relaxed));
}

}  // namespace

int main() {
  constexpr int kEach = 1000;
  const auto post = [] {
    for (int i = 0; i < kEach; ++i) {
      auto* a = new Arrival;
      a->value = 1;
      Post(a);
    }
  };
  std::thread one(post), two(post);
  int sum = 0;
  while (sum < 2 * kEach) {
    for (Arrival* a = arrivals.exchange(nullptr, std::memory_order_acquire); a != nullptr;) {
      Arrival* next = a->next;
      sum += a->value;
      delete a;
      a = next;
    }
    std::this_thread::yield();
  }
  one.join();
  two.join();
  std::printf("%d arrivals\n", sum);
  return 0;
}
