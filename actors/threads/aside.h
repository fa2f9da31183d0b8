// Runs long work that is not a step (compiling, importing) on a thread of its own, so that the
// actor that asked for it can answer other messages meanwhile.
//
// On such a thread blocking calls are refused as in an actor's handler, since what they wait for
// may be queued behind the work.
//
// Thread rule: everything here may be used from any thread.
#ifndef TROUPE_ACTORS_THREADS_ASIDE_H_
#define TROUPE_ACTORS_THREADS_ASIDE_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

#include "graph/core/guarded.h"

namespace troupe {

// Runs `work` on a new thread; on the calling thread if `aside` is false or the system has no
// thread, or no memory for one, left.
void RunAside(bool aside, std::function<void()> work);

// Runs `work` on a new thread. False, and nothing is done, when the system has none left.
bool TryAside(std::function<void()> work);

// While a share lives, the end of the process waits, for ten seconds at most: a thread that goes on
// would lose the objects with static storage that it uses. A thread of the library's that calls
// std::exit, in a callback say, does not wait: the share may be its own. Throws std::bad_alloc.
std::shared_ptr<void> UntilExit();
// Waits until there is no share in this process; false when there still is one.
bool AwaitNoneUntilExit(std::chrono::milliseconds at_most);

// A share of UntilExit that is taken when whatever has a copy of this is told to end, and goes with
// the last copy. In a closure it is captured first: GCC and clang destroy that last.
class UntilExitOnceTold {
 public:
  // Called once, by somebody who has a copy.
  void Take() const noexcept;

 private:
  const std::shared_ptr<std::shared_ptr<void>> share_ = std::make_shared<std::shared_ptr<void>>();
};

// Counts work that is under way, for an owner that must not end before it.
class UnderWay {
 public:
  // The work counts as over when the last copy of the share is destroyed. The work should destroy
  // its copy last.
  static std::shared_ptr<void> Share(const std::shared_ptr<UnderWay>& of);
  // False when there still is some.
  bool WaitUntilNone(std::chrono::milliseconds at_most);

 private:
  std::mutex mu_;
  std::condition_variable none_;
  int count_ = 0;
};

// Calls a function of the user on a thread where no caller could catch its exceptions; they are
// logged.
void CallUser(std::string_view what, const std::function<void()>& f);

}  // namespace troupe

#endif  // TROUPE_ACTORS_THREADS_ASIDE_H_
