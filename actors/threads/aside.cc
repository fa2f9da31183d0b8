#include "actors/threads/aside.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "actors/threads/actor_thread.h"
#include "actors/threads/lane.h"
#include "actors/threads/no_memory.h"
#include "actors/threads/process.h"
#include "graph/core/log.h"
#include "troupe/compute_threads.h"

namespace troupe {

void RunAside(bool aside, std::function<void()> work) {
  if (aside) {
    std::shared_ptr<std::function<void()>> shared;
    const auto here = [&] {
      if (shared != nullptr) work = std::move(*shared);
    };
    try {
      shared = std::make_shared<std::function<void()>>(std::move(work));
      std::thread([shared] {
        // Not the name of the thread that started it, by which a scheduler's is known.
        pthread_setname_np(pthread_self(), "troupe.aside");
        const NoBlockingHere no_blocking;
        (*shared)();
        *shared = nullptr;
      }).detach();
      return;
    } catch (const std::system_error&) {
      here();
    } catch (const std::bad_alloc&) {
      here();
    }
  }
  work();
}

bool TryAside(std::function<void()> work) {
  try {
    std::thread([work = std::move(work)]() mutable {
      pthread_setname_np(pthread_self(), "troupe.aside");
      const NoBlockingHere no_blocking;
      std::exchange(work, nullptr)();
    }).detach();
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

namespace {

// What the end of a process waits for. A child that was forked has not got its parent's threads, so
// it has one of its own. They live for ever.
struct LastWork {
  const int process;
  LastWork* const parents;
  const std::shared_ptr<UnderWay> under_way = std::make_shared<UnderWay>();
};
std::atomic<LastWork*> last_work{nullptr};

const std::shared_ptr<UnderWay>& LastWorkOfThisProcess() {
  LastWork* now = last_work.load();
  while (now == nullptr || now->process != ThisProcess()) {
    auto own = std::make_unique<LastWork>(LastWork{ThisProcess(), now});
    if (last_work.compare_exchange_strong(now, own.get())) now = own.release();
  }
  return now->under_way;
}

// Whether this is a thread of the library's, by what can be read after its own variables are gone.
bool OnOwnThread() {
  char name[32] = "";
  return MustNotBlockHere() || InsideLane() || ComputeThreads::OnWorker() ||
         (pthread_getname_np(pthread_self(), name, sizeof name) == 0 && std::strcmp(name, "caf.multiplexer") == 0);
}

// Whether the end of the process will wait still. What is taken up while it ends, by the destructor
// of an object with static storage say, is waited for behind that destructor.
std::atomic<bool> will_wait{false};

void AwaitLastWork() {
  (void)std::atexit([] {
    will_wait = false;
    if (!OnOwnThread()) AwaitNoneUntilExit(std::chrono::seconds(10));
  });
}

}  // namespace

std::shared_ptr<void> UntilExit() {
  CountForks();
  const std::shared_ptr<UnderWay>& under_way = LastWorkOfThisProcess();
  if (!will_wait.exchange(true)) AwaitLastWork();
  return UnderWay::Share(under_way);
}

void UntilExitOnceTold::Take() const noexcept {
  UntilMemoryAllows([&] { *share_ = UntilExit(); });
}

bool AwaitNoneUntilExit(std::chrono::milliseconds at_most) {
  const LastWork* const work = last_work.load();
  return work == nullptr || work->process != ThisProcess() || work->under_way->WaitUntilNone(at_most);
}

std::shared_ptr<void> UnderWay::Share(const std::shared_ptr<UnderWay>& of) {
  {
    std::lock_guard<std::mutex> lock(of->mu_);
    ++of->count_;
  }
  return std::shared_ptr<void>(nullptr, [of](void*) {
    std::lock_guard<std::mutex> lock(of->mu_);
    if (--of->count_ == 0) of->none_.notify_all();
  });
}

bool UnderWay::WaitUntilNone(std::chrono::milliseconds at_most) {
  std::unique_lock<std::mutex> lock(mu_);
  return none_.wait_for(lock, at_most, [&] { return count_ == 0; });
}

void CallUser(std::string_view what, const std::function<void()>& f) {
  try {
    f();
  } catch (...) {
    const absl::Status thrown = ThrownStatus(what);
    LogError(thrown.message());
  }
}

}  // namespace troupe
