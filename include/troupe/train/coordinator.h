// Coordinator: threads and queue runners that work together and end together.
//
//   train::Coordinator coordinator(*session);
//   absl::Status s = train::StartQueueRunners(*session, coordinator, *root.graph());
//   while (s.ok() && !coordinator.ShouldStop()) s = session->Run({}, {}, {train_op}, nullptr);
//   coordinator.RequestStop(s);
//   s = coordinator.Join();  // the first error, if there was one
//
// Each part of the work is a member from Enter until it leaves. Whoever has nothing more to do, or
// fails, asks all to stop. The first call counts: its error is what Join returns. A status whose
// code is one of `clean_stop` is no error, but the end of the work.
//
// The coordinator is an actor of the session's runtime. If it is killed, the next one knows all
// that it knew, and who waited goes on waiting.
//
// Source of the semantics: tf.train.Coordinator, as an actor. Times are milliseconds.
//
// Thread rule: all methods are thread safe. Join and WaitForStop block, and are refused on a thread
// of an actor system's scheduler or of a runtime; WhenStopped is for those.
#ifndef TROUPE_TRAIN_COORDINATOR_H_
#define TROUPE_TRAIN_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/session.h"

namespace troupe {
namespace TROUPE_EXPORT train {

struct CoordinatorOptions {
  std::vector<absl::StatusCode> clean_stop = {absl::StatusCode::kOutOfRange};
  int64_t grace_ms = 120000;  // how long Join waits for the members after the stop
};

class Coordinator {
 public:
  struct TROUPE_HIDDEN Impl;
  explicit Coordinator(const Session& session, const CoordinatorOptions& options = {});
  // Asks all to stop. Does not wait for them.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // One part of the work, until it is destroyed. Keeps the coordinator's actor alive.
  class Member {
   public:
    Member() = default;
    ~Member() { Leave(); }
    Member(Member&&) noexcept = default;
    Member& operator=(Member&& other) noexcept;
    void Leave();

   private:
    friend class Coordinator;
    std::shared_ptr<Impl> impl_;
    int64_t number_ = 0;
  };
  Member Enter(std::string name);

  // Whether somebody has asked all to stop. Does not wait.
  bool ShouldStop() const;
  void RequestStop(absl::Status why = absl::OkStatus());
  // Calls `f` once when all are asked to stop: at once if they have been, otherwise on the thread
  // that asks. It must not block.
  void WhenStopped(std::function<void()> f);
  // DEADLINE_EXCEEDED when nobody asked within the time; negative: for ever.
  absl::Status WaitForStop(int64_t timeout_ms = -1);
  // Waits until somebody asks to stop, or all members have left; and then for the members, but no
  // longer than the grace period. The error of the first who asked; else DEADLINE_EXCEEDED with the
  // names of members that have not left.
  absl::Status Join();

  // For those who work for it longer than it lives.
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_COORDINATOR_H_
