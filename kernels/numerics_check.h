// NaN and infinities in the values of a step (RunOptions.check_numerics): finding them, and taking
// back the updates of a step that has met one.
//
// Problem: when the loss is not a number, the variables are overwritten with NaN before anybody
// looks. So a step that checks itself tests what its kernels compute. It tests an update before the
// variable has the new value, keeps the values that its updates have replaced, and puts them back
// when it fails by this check: a step that met a NaN leaves all variables as they were.
//
// A step that does not check pays for none of it. Kernels find the check of their step by their
// thread (NumericsScope), as the executor sets it around a call.
//
// Thread rule: functions are thread safe; an UpdateLog is; a NumericsScope belongs to its thread.
#ifndef TROUPE_KERNELS_NUMERICS_CHECK_H_
#define TROUPE_KERNELS_NUMERICS_CHECK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "troupe/status.h"
#include "troupe/tensor.h"

namespace troupe {

// The elements of a tensor that are not finite. A complex element is NaN if one of its parts is,
// otherwise infinite if one is, with that part's sign.
struct NonFinite {
  int64_t nan = 0, plus_inf = 0, minus_inf = 0;
  int64_t first = -1;  // flat index
  bool any() const { return first >= 0; }
};
// None in a tensor that is not there, or whose type has neither NaN nor infinities.
NonFinite CountNonFinite(const Tensor& t);
// "1 NaN, 2 +Inf and 0 -Inf among 6 elements, the first at [0,2]".
std::string NonFiniteText(const NonFinite& found, const Tensor& t);

// INVALID_ARGUMENT with a mark, by which TakeNotFiniteMark tells it from other errors.
absl::Status NotFiniteError(const std::string& message);
// True, and the mark is gone, for a status that NotFiniteError made.
bool TakeNotFiniteMark(absl::Status* status);

// What the updates of one step have replaced.
class UpdateLog {
 public:
  // `undo` puts one value back; it must not block. False after UndoAll: the update of a kernel that
  // its step did not wait for (its executor was killed) comes too late. Throws std::bad_alloc.
  bool Add(std::function<void()> undo);
  // The step has failed by the check: UndoAll will be asked for. True for the first that says so.
  bool Fail() { return !failed_.exchange(true, std::memory_order_relaxed); }
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  // The newest first, each of them, one caller at a time. When the step is over. Throws
  // std::bad_alloc when some found no memory: these are kept, and another call tries them again.
  void UndoAll();

 private:
  std::mutex mu_;
  std::vector<std::function<void()>> undo_;
  bool over_ = false;
  std::atomic<bool> failed_{false};
};

// How a step checks itself.
struct NumericsCheck {
  std::string folder;  // where the inputs of a node that fails are written; empty: nowhere
  std::shared_ptr<UpdateLog> log = std::make_shared<UpdateLog>();
};

// Makes `check` that of the kernels that run on this thread meanwhile; null is none.
class NumericsScope {
 public:
  explicit NumericsScope(const NumericsCheck* check);
  ~NumericsScope();
  NumericsScope(const NumericsScope&) = delete;
  NumericsScope& operator=(const NumericsScope&) = delete;

 private:
  const NumericsCheck* const before_;
};
// Null when the step of this thread's kernel does not check itself.
const NumericsCheck* CurrentNumericsCheck();

}  // namespace troupe

#endif  // TROUPE_KERNELS_NUMERICS_CHECK_H_
