// A step that is fed and fetched piece by piece (partial run).
//
//   handle = *session.PartialRunSetup({"a", "b"}, {"x", "y"}, {});
//   session.PartialRun(handle, {{"a", ta}}, {"x"}, &out);     // x must not depend on b
//   session.PartialRun(handle, {{"b", tb}}, {"y"}, &out);
//
//   state    event                             action                                                              next
//   open     Run                             1 check it all, then send the feeds to the executors                  waiting
//   open     Run: a name, a value or an order that is wrong
//                                            2 nothing is fed                                                      open
//   waiting  all fetches of this Run are there 3 hand them over                                                    open; over when they were the last
//   waiting  the step failed                 4 return its error                                                    over
//   open     nobody holds it any more        5 abort the step, wait for its end, release the executors             gone
//
// It is one step: every node runs once, as soon as its inputs are there. Thread rule: all methods are thread safe; a call waits for its fetches.
#ifndef TROUPE_ACTORS_PARTIAL_STEP_H_
#define TROUPE_ACTORS_PARTIAL_STEP_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "troupe/actors/signature.h"

namespace troupe {

class PartialStep : public std::enable_shared_from_this<PartialStep> {
 public:
  explicit PartialStep(std::shared_ptr<Signature> signature) : signature_(std::move(signature)) {}
  ~PartialStep();
  void Start();

  // INVALID_ARGUMENT: a name that the set-up did not give, a tensor fed or fetched twice, or a fetch that depends on a feed that has not come (named).
  absl::Status Run(const Feeds& feeds, const Names& fetches, std::vector<Tensor>* outputs);
  // True when every fetch has been taken or the step has failed: the handle is worth nothing any more.
  bool over() const;

  // From the executors' turns.
  void OnResult(uint32_t index);
  void OnDone(const absl::Status& status);

 private:
  absl::StatusOr<size_t> IndexOf(const Names& names, const std::string& name, const char* what) const;

  const std::shared_ptr<Signature> signature_;
  std::unique_ptr<ExecutorSet> set_;
  mutable std::mutex mu_;
  std::condition_variable changed_;
  std::vector<bool> fed_, ready_, fetched_;
  bool done_ = false;
  absl::Status status_;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_PARTIAL_STEP_H_
