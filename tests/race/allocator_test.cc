// Buffers that change threads: the free lists of threads and of the process, and the last reference.
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <mutex>

#include "race/threads.h"
#include "troupe/graph/core/buffer.h"
#include "troupe/graph/core/tensor.h"

namespace troupe::race {
namespace {

constexpr size_t kSizes[] = {8, 40, 100, 700, 5000, 16000, 40000, 300000};

bool Holds(const Buffer* b, unsigned char byte) {
  const auto* p = static_cast<const unsigned char*>(b->data());
  return p[0] == byte && p[b->size() / 2] == byte && p[b->size() - 1] == byte;
}

BOOST_AUTO_TEST_CASE(BuffersAreFreedByOtherThreadsThanTheirMakers) {
  constexpr int kThreads = 4, kRounds = 3000;
  struct Box {
    std::mutex mu;
    std::vector<std::pair<Buffer*, unsigned char>> buffers;
  };
  Box boxes[kThreads];
  Allocator allocator("race");
  Wrong wrong;
  RunThreads(kThreads, [&](int t) {
    for (int i = 0; i < kRounds; ++i) {
      Buffer* b = allocator.Allocate(kSizes[(i * 7 + t) % std::size(kSizes)]);
      const auto byte = static_cast<unsigned char>(i * kThreads + t);
      std::memset(b->data(), byte, b->size());
      {
        Box& next = boxes[(t + 1 + i % (kThreads - 1)) % kThreads];
        std::lock_guard<std::mutex> lock(next.mu);
        next.buffers.emplace_back(b, byte);
      }
      std::vector<std::pair<Buffer*, unsigned char>> mine;
      {
        std::lock_guard<std::mutex> lock(boxes[t].mu);
        mine.swap(boxes[t].buffers);
      }
      for (const auto& [buffer, value] : mine) {
        wrong.Unless(Holds(buffer, value));
        buffer->Unref();
      }
      if (t == 0 && i % 200 == 0) {
        allocator.Trim();
        wrong.Unless(allocator.stats().bytes_in_use >= 0);
      }
    }
  });
  for (Box& box : boxes) {
    for (const auto& [buffer, value] : box.buffers) {
      wrong.Unless(Holds(buffer, value));
      buffer->Unref();
    }
  }
  BOOST_TEST(wrong.count() == 0);
}

BOOST_AUTO_TEST_CASE(TheLastReferenceGoesAfterEverybodyHasRead) {
  constexpr int kThreads = 4;
  Wrong wrong;
  for (int round = 0; round < 200; ++round) {
    const size_t bytes = kSizes[round % std::size(kSizes)];
    Buffer* shared = Allocator::Cpu()->Allocate(bytes);
    std::memset(shared->data(), round & 255, bytes);
    for (int i = 1; i < kThreads; ++i) shared->Ref();
    RunThreads(kThreads, [&](int t) {
      wrong.Unless(Holds(shared, static_cast<unsigned char>(round)));
      shared->Unref();
      // The block may come back at once, on the thread that freed it: writing it must be ordered after what the others read.
      for (int i = 0; i < 3; ++i) {
        Buffer* b = Allocator::Cpu()->Allocate(bytes);
        std::memset(b->data(), 255 - t, bytes);
        b->Unref();
      }
    });
  }
  BOOST_TEST(wrong.count() == 0);
}

BOOST_AUTO_TEST_CASE(ViewsKeepTheirBytesAndForeignMemoryIsGivenBackOnce) {
  constexpr int kThreads = 4;
  Wrong wrong;
  for (int round = 0; round < 100; ++round) {
    struct Memory {
      std::vector<unsigned char> bytes = std::vector<unsigned char>(256, 7);
      int released = 0;
    } memory;
    Buffer* root = Buffer::Wrap(
        memory.bytes.data(), memory.bytes.size(), [](void* m) { ++static_cast<Memory*>(m)->released; }, &memory);
    Buffer* views[kThreads];
    for (int t = 0; t < kThreads; ++t) views[t] = Buffer::Slice(root, t * 64, 64);
    root->Unref();
    RunThreads(kThreads, [&](int t) {
      Buffer* inner = Buffer::Slice(views[t], 8, 16);
      views[t]->Unref();
      wrong.Unless(Holds(inner, 7) && inner->root() != views[t]);
      static_cast<unsigned char*>(inner->data())[3] = static_cast<unsigned char>(t);
      inner->Unref();
    });
    BOOST_TEST(memory.released == 1);
  }
  BOOST_TEST(wrong.count() == 0);
}

BOOST_AUTO_TEST_CASE(ALimitHoldsForAllThreadsAndEverythingComesBack) {
  constexpr int kThreads = 4;
  constexpr size_t kBytes = 1 << 20;
  Allocator allocator("limited", 8 << 20);
  std::atomic<int> refused{0};
  RunThreads(kThreads, [&](int) {
    for (int i = 0; i < 300; ++i) {
      std::vector<Buffer*> held;
      for (int k = 0; k < 4; ++k) {
        Buffer* b = allocator.Allocate(kBytes - 64);
        if (b == nullptr) {
          refused.fetch_add(1, std::memory_order_relaxed);
        } else {
          held.push_back(b);
        }
      }
      for (Buffer* b : held) b->Unref();
    }
  });
  BOOST_TEST(allocator.stats().bytes_in_use == 0);
  BOOST_TEST(allocator.stats().peak_bytes_in_use <= int64_t{8 << 20});
  // All of the limit can be had again, and no more.
  std::vector<Buffer*> held;
  while (Buffer* b = allocator.Allocate(kBytes - 64)) held.push_back(b);
  BOOST_TEST(held.size() == 8u);
  for (Buffer* b : held) b->Unref();
}

}  // namespace
}  // namespace troupe::race
