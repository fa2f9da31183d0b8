#include "actors/train/save_memory.h"

#include <new>
#include <utility>

#include "actors/threads/aside.h"
#include "actors/train/saver_disk.h"
#include "troupe/tensor.h"

namespace troupe::train {

std::vector<const Tensor*> SaveMemory::Shared(const StateSnapshot& snapshot) {
  std::vector<const Tensor*> shared;
  for (const StateSnapshot::Entry& e : snapshot.entries) {
    if (e.kind != kVariableKind) continue;
    for (const auto& [key, tensor] : e.tensors) {
      if (tensor.valid() && tensor.memory() == MemoryKind::kHost && !tensor.BufferUnique()) shared.push_back(&tensor);
    }
  }
  return shared;
}

void SaveMemory::Learn(const std::vector<const Tensor*>& shared) {
  std::vector<size_t> sizes;
  try {
    for (const Tensor* t : shared) {
      if (t->BufferUnique()) sizes.push_back(t->bytes());
    }
  } catch (const std::bad_alloc&) {
    return;
  }
  // That no step came is no reason to be slower beside the next save.
  if (sizes.empty()) return;
  const std::lock_guard<std::mutex> lock(mu_);
  sizes_ = std::move(sizes);
}

std::shared_ptr<void> SaveMemory::Share(const std::shared_ptr<SaveMemory>& of) {
  of->Begin();
  return std::shared_ptr<void>(nullptr, [of](void*) { of->End(); });
}

void SaveMemory::Begin() {
  const std::lock_guard<std::mutex> lock(mu_);
  ++under_way_;
}

void SaveMemory::Expect(const std::shared_ptr<SaveMemory>& of, Make make) {
  // A save does without, where there is no memory, or no thread, for it.
  bool making = false;
  try {
    std::vector<size_t> sizes;
    {
      const std::lock_guard<std::mutex> lock(of->mu_);
      if (of->state_ != State::kNothing || of->sizes_.empty()) return;
      sizes = of->sizes_;
      of->state_ = State::kMaking;
      making = true;
    }
    if (TryAside([of, sizes = std::move(sizes), make = std::move(make)] {
          std::unique_ptr<WarmMemory> memory;
          try {
            memory = make(sizes);
          } catch (const std::bad_alloc&) {
          }
          of->Made(std::move(memory));
        })) {
      return;
    }
  } catch (const std::bad_alloc&) {
  }
  if (making) of->Made(nullptr);
}

void SaveMemory::Made(std::unique_ptr<WarmMemory> memory) {
  const std::lock_guard<std::mutex> lock(mu_);
  if (state_ == State::kMaking && memory != nullptr) {
    memory_.swap(memory);
    state_ = State::kReady;
  } else {
    state_ = State::kNothing;
  }
}

void SaveMemory::End() {
  std::unique_ptr<WarmMemory> gone;
  const std::lock_guard<std::mutex> lock(mu_);
  if (--under_way_ > 0) return;
  gone.swap(memory_);
  if (state_ == State::kMaking) state_ = State::kLate;
  if (state_ == State::kReady) state_ = State::kNothing;
}

}  // namespace troupe::train
