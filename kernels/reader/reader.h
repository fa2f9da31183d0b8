// A reader: gives records of files (its works), whose names it takes from a queue.
//
// The rules are TensorFlow's. A reader has one work at a time. A read that finds none takes the
// next name from the queue of the read; a work is completed when a read has found its end. A file
// that cannot be opened fails one read and is passed over; a damaged record fails every read until
// the reader is reset.
//
// The machine never waits. Reads stand in a line, and its head is served from the records that were
// read ahead. When these are used up, a thread for files reads on (kernels/io/blocking.h), or the
// queue is asked; both come back as letters.
//
//   head of the line   there is                     action
//   read               records ahead                1 hand them over; answer when it has enough
//   read               the end of the work          2 the work is completed; answer if it has any
//   read               an error ahead               3 answer with it, or with the records before it
//   read               nothing, a work              4 a thread for files reads on
//   read               no work                      5 ask the read's queue for the next
//   any                files or a name have come    6 go on, unless they are of before a reset
//   (at once)          counts, state, reset         7 answer; a reset and a restored state forget
//                                                     the work, and what is ahead
//
// A read that is withdrawn or aborted gives its records back, and its place in the queue; they are
// the first for the next read. So nothing is lost when a step ends early.
//
// Saved are the settings, the counts, the work with the place in it, and records that were given
// back. What is read ahead is read again.
//
// Thread rule: as for StateMachine.
//
// Tests of the rows, tests/queue/reader_test.cc:
//   1, 2, 5  rows_1_2_and_5_records_of_one_work_after_the_other
//   3        row_3_an_error_comes_after_the_records_before_it
//   4, 6     rows_4_and_6_files_are_read_by_other_threads
//   7        row_7_a_reset_forgets_the_work
#ifndef TROUPE_KERNELS_READER_READER_H_
#define TROUPE_KERNELS_READER_READER_H_

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/io/cursor.h"
#include "kernels/queue/queue.h"
#include "kernels/state/state_kind.h"

namespace troupe::reader {

// What tells one kind of reader from another.
struct ReaderSpec {
  std::string kind;  // the op: "TextLineReader"
  std::string name;
  std::string compression;  // "", "ZLIB", "GZIP"
  int64_t skip_lines = 0;
  io::FixedLayout layout;

  std::string What() const { return StrCat(kind, " '", name, "'"); }
  // INVALID_ARGUMENT for a kind or a setting that does not exist.
  absl::Status Check() const;
  bool operator==(const ReaderSpec& other) const;
  // Records that begin at `from`.
  absl::StatusOr<std::unique_ptr<io::Cursor>> Open(const std::string& path, uint64_t from) const;
};

using Record = std::pair<std::string, std::string>;  // key and value

struct ReadAhead;

struct ReaderRequest : StateRequest {
  enum class Kind : uint8_t { kRead, kCounts, kSerialize, kRestore, kReset, kFilesCame, kNameCame };
  Kind kind = Kind::kRead;
  int64_t wanted = 1;  // of a read
  std::shared_ptr<const queue::Queue> queue;
  std::vector<Record> records;
  std::string state;                    // of kSerialize and kRestore
  int64_t produced = 0, completed = 0;  // of kCounts
  std::shared_ptr<ReadAhead> ahead;     // of kFilesCame
  queue::QueueRequestPtr name;          // of kNameCame
};
using ReaderRequestPtr = std::shared_ptr<ReaderRequest>;

class Reader;

class ReaderMachine : public StateMachine {
 public:
  explicit ReaderMachine(ReaderSpec spec) : spec_(std::move(spec)) {}
  const ReaderSpec& spec() const { return spec_; }
  // To whom files and names come back.
  void BelongTo(std::weak_ptr<const Reader> self) { self_ = std::move(self); }

 protected:
  void Handle(const StateRequestPtr& request, StateAnswers* answers) override;
  void Withdraw(const StateRequestPtr& request, StateAnswers* answers) override;
  void AbortWaiting(const absl::Status& why, StateAnswers* answers) override;
  absl::StatusOr<ResourceState> Save() const override;
  void Visit(const std::function<void(const Tensor&)>&) const override {}
  std::string What() const override { return spec_.What(); }
  std::string HowMuch() const override;

 private:
  friend absl::StatusOr<std::shared_ptr<Resource>> MakeSavedReader(const std::string&, const ResourceState&);
  void Serve(StateAnswers* answers);
  // The head of the line; true: it leaves the line.
  bool ServeHead(const ReaderRequestPtr& read, StateAnswers* answers);
  void AskForName(const ReaderRequestPtr& read, StateAnswers* answers);
  void ReadOn(StateAnswers* answers);
  void EndWork();
  void GiveBack(ReaderRequest* read);
  void ForgetName(StateAnswers* answers);
  void Reset(StateAnswers* answers);
  std::string Serialize() const;
  absl::Status Restore(const std::string& state, StateAnswers* answers);

  const ReaderSpec spec_;
  std::weak_ptr<const Reader> self_;
  std::deque<ReaderRequestPtr> line_;
  std::deque<Record> given_back_;
  int64_t started_ = 0, completed_ = 0, produced_ = 0;
  bool working_ = false;
  std::string work_;
  bool opened_ = false;  // the work, so it is counted as started
  // Where the next record of the work begins that nobody has, and how many were before it.
  uint64_t offset_ = 0;
  int64_t number_ = 0;
  std::shared_ptr<ReadAhead> ahead_;  // null: nothing was read ahead, or a thread is at it
  int64_t epoch_ = 0;                 // what comes back of an older one is dropped
  bool reading_ = false;
  // The name that was asked for, and where.
  queue::QueueRequestPtr name_;
  std::shared_ptr<const queue::Queue> name_from_;
};

// A reader in its container.
class Reader : public StateResource, public std::enable_shared_from_this<Reader> {
 public:
  static absl::StatusOr<std::shared_ptr<Reader>> Make(ReaderSpec spec);
  const ReaderSpec& spec() const { return spec_; }
  absl::Status TakePlaceOf(const Resource& other) override;

 private:
  explicit Reader(std::shared_ptr<ReaderMachine> machine) : StateResource(machine), spec_(machine->spec()) {}
  const ReaderSpec& spec_;
};

// A ResourceMaker for every kind.
absl::StatusOr<std::shared_ptr<Resource>> MakeSavedReader(const std::string& name, const ResourceState& state);

// The node of a kind of reader: its settings come from the attrs that the op has.
class ReaderKind : public state::StateKind {
 public:
  // `kind`: the op without "V2".
  ReaderKind(KernelInit& init, std::string kind);
  absl::StatusOr<std::shared_ptr<StateResource>> Make(const KernelContext& ctx, const std::string& name) const override;
  absl::Status CheckShared(const StateResource& there) const override;

 private:
  ReaderSpec spec_;
};

}  // namespace troupe::reader

#endif  // TROUPE_KERNELS_READER_READER_H_
