// Work that takes long and is no step: compiling, importing. It runs on a thread of its own, so
// that the actors that ask for it answer others meanwhile.
//
// On such a thread blocking calls are refused as in an actor's handler, since what they wait for
// may be queued behind the work.
#ifndef TROUPE_ACTORS_ASIDE_H_
#define TROUPE_ACTORS_ASIDE_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>

#include "troupe/status.h"

namespace troupe {

// Runs `work` on a new thread; here when `aside` is false or there is no thread to be had.
void RunAside(bool aside, std::function<void()> work);

// Counts work that is under way, for whoever must outlast it.
class UnderWay {
 public:
  // The work is over when the last copy of the share is gone. It should be the last that the work
  // lets go of.
  static std::shared_ptr<void> Share(const std::shared_ptr<UnderWay>& of);
  // False when there still is some.
  bool WaitUntilNone(std::chrono::milliseconds at_most);

 private:
  std::mutex mu_;
  std::condition_variable none_;
  int count_ = 0;
};

// What f returns, a Status or StatusOr; an exception that comes out of it is its error. `what`:
// "Extend".
template <class F>
auto Guarded(std::string_view what, F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("no memory is left for ", what);
  } catch (const std::exception& e) {
    return Internal(what, " met an exception: ", e.what());
  } catch (...) {
    return Internal(what, " met an exception that is no std::exception");
  }
}

// Calls what a user gave us, on a thread where nobody can take its exceptions: they are logged.
void CallUser(std::string_view what, const std::function<void()>& f);

}  // namespace troupe

#endif  // TROUPE_ACTORS_ASIDE_H_
