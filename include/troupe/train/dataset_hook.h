// A data set as the input of a MonitoredSession, with its place in the session's checkpoints.
//
//   train::MonitoredTrainingOptions options{.checkpoint_folder = "mem://elements"};
//   options.hooks.push_back(std::make_shared<train::DatasetHook>(data, NameList{x, y}));
//
// Problem: a run that goes on from a checkpoint, but reads its input from the beginning, sees some
// elements twice and others never. The hook keeps the iterator's position with the session's other
// state (random streams, counters): each checkpoint of a Saver that saves such state
// (SaverOptions.session_state) holds it, and a session that is restored from that goes on with the
// element that followed, as if nothing had happened; so does one that a loss has made again. A
// session that is not restored begins with the first element.
//
// A checkpoint between two steps, as a CheckpointSaverHook makes it, has the elements of the steps
// that were done. One that another thread saves during a step may have the step's element as
// consumed. An element is taken when the hook's turn comes, so hooks that may refuse a step stand
// before it: otherwise the last element before the end may be lost.
//
// The functions of the data set are not called any more when the session has been closed, and by
// one iterator at a time: a session that is made again waits until the iterator of the one before
// has ended.
//
// Thread rule: that of hooks. The position is saved by a thread of its own.
#ifndef TROUPE_TRAIN_DATASET_HOOK_H_
#define TROUPE_TRAIN_DATASET_HOOK_H_

#include <memory>
#include <string>

#include "troupe/dataset.h"
#include "troupe/export.h"
#include "troupe/names.h"
#include "troupe/train/hooks.h"

namespace troupe {
namespace TROUPE_EXPORT train {

// Feeds each step with the next element; OUT_OF_RANGE after the last ends training well. Errors are
// those of the data set; INVALID_ARGUMENT when an element has not as many tensors as there are
// `feeds`, or the position in the checkpoint is of another data set.
class DatasetHook : public Hook {
 public:
  // Tensor i of an element is fed to feeds[i]. `name`: of the position among the session's state,
  // for a session with several such hooks.
  DatasetHook(Dataset data, const NameList& feeds, std::string name = "input");
  // Waits for functions of the data set that iterators which are over still call, except in an
  // actor's handler.
  ~DatasetHook() override;
  absl::Status AfterCreateSession(Session& session) override;
  absl::StatusOr<RunArgs> BeforeRun(RunContext& context) override;

  class TROUPE_HIDDEN Endings;

 private:
  const Dataset data_;
  const Names feeds_;
  const std::string name_;
  const std::shared_ptr<Endings> endings_;
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_DATASET_HOOK_H_
