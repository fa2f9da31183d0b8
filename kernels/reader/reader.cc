#include "kernels/reader/reader.h"

#include <algorithm>
#include <limits>

#include "graph/core/guarded.h"
#include "kernels/io/blocking.h"
#include "troupe/proto/reader_base.pb.h"

namespace troupe::reader {

using state::PutNumber;
using state::PutText;
using state::TakeNumber;
using state::TakeText;

// What a thread for files has read: records, and where the one behind each begins.
struct ReadAhead {
  std::unique_ptr<io::Cursor> cursor;  // null: the file could not be opened, or is not yet
  struct Entry {
    Record record;
    uint64_t next;
  };
  std::deque<Entry> records;
  bool opened = false, end = false;
  absl::Status failed;
  int64_t epoch = 0, number = 0;  // of the reader's, and how many records came before

  void Read(const ReaderSpec& spec, const std::string& work, uint64_t offset);
};

namespace {

// So much is read at a time: enough to pay for the change of threads.
constexpr size_t kAheadBytes = size_t{1} << 18, kAheadRecords = 1024;

bool IsIdentity(const ReaderSpec& spec) { return spec.kind == "IdentityReader"; }

std::string KeyOf(const ReaderSpec& spec, const std::string& work, uint64_t offset, int64_t number,
                  std::string_view own) {
  if (spec.kind == "LMDBReader") return std::string(own);
  if (spec.kind == "TextLineReader") return StrCat(work, ":", number + 1);
  if (spec.kind == "FixedLengthRecordReader") return StrCat(work, ":", number);
  if (spec.kind == "TFRecordReader") return StrCat(work, ":", offset);
  return work;
}

}  // namespace

void ReadAhead::Read(const ReaderSpec& spec, const std::string& work, uint64_t offset) {
  failed = [&]() -> absl::Status {
    if (cursor == nullptr) {
      TROUPE_ASSIGN_OR_RETURN(cursor, spec.Open(work, offset));
      std::string_view passed;
      for (; number < spec.skip_lines && !end; number += end ? 0 : 1) {
        TROUPE_ASSIGN_OR_RETURN(const bool more, cursor->Next(&passed));
        end = !more;
      }
    }
    opened = true;
    for (size_t bytes = 0; !end && bytes < kAheadBytes && records.size() < kAheadRecords;) {
      const uint64_t begin = cursor->offset();
      std::string_view value;
      TROUPE_ASSIGN_OR_RETURN(const bool more, cursor->Next(&value));
      if (!more) {
        end = true;
        break;
      }
      bytes += value.size();
      records.push_back({{KeyOf(spec, work, begin, number++, cursor->key()), std::string(value)}, cursor->offset()});
    }
    return absl::OkStatus();
  }();
}

absl::Status ReaderSpec::Check() const {
  const auto refused = [&](const auto&... what) { return InvalidArgument("a ", kind, " ", what...); };
  TROUPE_RETURN_IF_ERROR(files::CompressionNamed(compression).status());
  if (skip_lines < 0) return refused("cannot skip ", skip_lines, " lines");
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max() / 4;
  if (layout.record == 0 || layout.record > kMost)
    return refused("needs record_bytes of at least 1, not ", static_cast<int64_t>(layout.record));
  if (layout.header > kMost || layout.footer > kMost || layout.hop > kMost)
    return refused("needs header_bytes, footer_bytes and hop_bytes of at least 0");
  return absl::OkStatus();
}

bool ReaderSpec::operator==(const ReaderSpec& o) const {
  return kind == o.kind && compression == o.compression && skip_lines == o.skip_lines &&
         layout.record == o.layout.record && layout.header == o.layout.header && layout.footer == o.layout.footer &&
         layout.hop == o.layout.hop;
}

absl::StatusOr<std::unique_ptr<io::Cursor>> ReaderSpec::Open(const std::string& path, uint64_t from) const {
  TROUPE_ASSIGN_OR_RETURN(const files::Compression how, files::CompressionNamed(compression));
  if (kind == "TextLineReader") return io::OpenLines(path, how, from);
  if (kind == "FixedLengthRecordReader") return io::OpenFixed(path, layout, how, from);
  if (kind == "TFRecordReader") return io::OpenRecords(path, how, from);
  if (kind == "LMDBReader") return io::OpenLmdb(path, from);
  return io::OpenWhole(path);
}

void ReaderMachine::Handle(const StateRequestPtr& request, StateAnswers* answers) {
  auto r = std::static_pointer_cast<ReaderRequest>(request);
  answers->Reserve(line_.size() + 1);
  switch (r->kind) {
    case ReaderRequest::Kind::kRead:
      line_.push_back(std::move(r));
      break;
    case ReaderRequest::Kind::kCounts:
      r->produced = produced_;
      r->completed = completed_;
      return answers->Add(std::move(r), absl::OkStatus());
    case ReaderRequest::Kind::kSerialize:
      r->state = Serialize();
      return answers->Add(std::move(r), absl::OkStatus());
    case ReaderRequest::Kind::kRestore: {
      absl::Status status = Restore(r->state, answers);
      answers->Add(std::move(r), std::move(status));
      break;
    }
    case ReaderRequest::Kind::kReset:
      Reset(answers);
      answers->Add(std::move(r), absl::OkStatus());
      break;
    case ReaderRequest::Kind::kFilesCame:
      if (r->ahead->epoch != epoch_) break;
      reading_ = false;
      ahead_ = std::move(r->ahead);
      if (ahead_->opened && !std::exchange(opened_, true)) ++started_;
      break;
    case ReaderRequest::Kind::kNameCame: {
      if (r->name != name_) break;
      const queue::QueueRequestPtr name = std::exchange(name_, nullptr);
      name_from_ = nullptr;
      if (name->status().ok()) {
        working_ = true;
        work_ = name->elements[0][0].scalar<std::string>();
        name->elements.clear();
        break;
      }
      // The error is that of the read whose queue was asked: the head of the line.
      if (!line_.empty()) {
        answers->Add(std::move(line_.front()), name->status());
        line_.pop_front();
      }
      break;
    }
  }
  Serve(answers);
}

void ReaderMachine::Serve(StateAnswers* answers) {
  while (!line_.empty()) {
    if (line_.front()->left()) {
      GiveBack(line_.front().get());
      ForgetName(answers);
    } else if (!ServeHead(line_.front(), answers)) {
      return;
    }
    line_.pop_front();
  }
  ForgetName(answers);
}

bool ReaderMachine::ServeHead(const ReaderRequestPtr& r, StateAnswers* answers) {
  for (;;) {
    const auto missing = [&] { return r->wanted - static_cast<int64_t>(r->records.size()); };
    for (; missing() > 0 && !given_back_.empty(); ++produced_) {
      r->records.push_back(std::move(given_back_.front()));
      given_back_.pop_front();
    }
    for (; missing() > 0 && ahead_ != nullptr && !ahead_->records.empty(); ++produced_) {
      ReadAhead::Entry& e = ahead_->records.front();
      r->records.push_back(std::move(e.record));
      offset_ = e.next;
      number_ = ahead_->number - static_cast<int64_t>(ahead_->records.size()) + 1;
      ahead_->records.pop_front();
    }
    const auto answer = [&](absl::Status status) {
      answers->Add(r, std::move(status));
      return true;
    };
    if (missing() == 0) {
      // A file of one record is over with it.
      if (working_ && ahead_ != nullptr && ahead_->records.empty() && ahead_->end && spec_.kind == "WholeFileReader")
        EndWork();
      return answer(absl::OkStatus());
    }
    if (!working_) {
      AskForName(r, answers);
      return false;
    }
    if (IsIdentity(spec_)) {
      ++started_;
      r->records.emplace_back(work_, work_);
      ++produced_;
      EndWork();
      return answer(absl::OkStatus());
    }
    if (ahead_ == nullptr) {
      ReadOn(answers);
      return false;
    }
    if (!ahead_->failed.ok()) {
      // The records before it first.
      if (!r->records.empty()) return answer(absl::OkStatus());
      absl::Status failed = std::exchange(ahead_->failed, absl::OkStatus());
      if (!ahead_->opened) {
        // As if it had not been in the queue.
        working_ = false;
        work_.clear();
        ahead_ = nullptr;
      }
      return answer(std::move(failed));
    }
    if (ahead_->end) {
      EndWork();
      if (!r->records.empty()) return answer(absl::OkStatus());
      continue;
    }
    ReadOn(answers);
    return false;
  }
}

void ReaderMachine::AskForName(const ReaderRequestPtr& read, StateAnswers* answers) {
  if (name_ != nullptr) return;
  name_ = std::make_shared<queue::QueueRequest>(queue::QueueRequest::Kind::kDequeue);
  name_from_ = read->queue;
  answers->Then([name = name_, from = name_from_, self = self_] {
    from->Ask(name);
    name->WhenAnswered([name, self] {
      const std::shared_ptr<const Reader> reader = self.lock();
      if (reader == nullptr) return;
      auto came = std::make_shared<ReaderRequest>();
      came->kind = ReaderRequest::Kind::kNameCame;
      came->name = name;
      reader->Ask(std::move(came));
    });
  });
}

void ReaderMachine::ReadOn(StateAnswers* answers) {
  if (std::exchange(reading_, true)) return;
  std::shared_ptr<ReadAhead> ahead = std::exchange(ahead_, nullptr);
  if (ahead == nullptr) {
    ahead = std::make_shared<ReadAhead>();
    ahead->number = number_;
  }
  ahead->epoch = epoch_;
  answers->Then([ahead, self = self_, spec = spec_, work = work_, offset = offset_] {
    io::RunOnFileThread([ahead, self, spec, work, offset] {
      const absl::Status thrown = Guarded("a reader", [&] { ahead->Read(spec, work, offset); });
      if (!thrown.ok()) ahead->failed = thrown;
      const std::shared_ptr<const Reader> reader = self.lock();
      if (reader == nullptr) return;
      auto came = std::make_shared<ReaderRequest>();
      came->kind = ReaderRequest::Kind::kFilesCame;
      came->ahead = ahead;
      reader->Ask(std::move(came));
    });
  });
}

void ReaderMachine::EndWork() {
  working_ = false;
  work_.clear();
  completed_ = started_;
  opened_ = false;
  offset_ = 0;
  number_ = 0;
  ahead_ = nullptr;
}

void ReaderMachine::GiveBack(ReaderRequest* read) {
  produced_ -= static_cast<int64_t>(read->records.size());
  for (; !read->records.empty(); read->records.pop_back()) given_back_.push_front(std::move(read->records.back()));
}

// Nobody waits for the name any more: it stays in its queue, or goes back there.
void ReaderMachine::ForgetName(StateAnswers* answers) {
  if (name_ == nullptr) return;
  answers->Then([name = name_, from = name_from_] { from->Withdraw(name); });
  name_ = nullptr;
  name_from_ = nullptr;
}

void ReaderMachine::Withdraw(const StateRequestPtr& request, StateAnswers* answers) {
  answers->Reserve(line_.size());
  auto& r = static_cast<ReaderRequest&>(*request);
  const auto it = std::find(line_.begin(), line_.end(), request);
  if (it != line_.end()) {
    if (it == line_.begin()) ForgetName(answers);
    line_.erase(it);
  }
  if (r.kind == ReaderRequest::Kind::kRead) GiveBack(&r);
  Serve(answers);
}

void ReaderMachine::AbortWaiting(const absl::Status& why, StateAnswers* answers) {
  answers->Reserve(line_.size());
  ForgetName(answers);
  for (auto it = line_.rbegin(); it != line_.rend(); ++it) GiveBack(it->get());
  for (ReaderRequestPtr& r : line_) answers->Add(std::move(r), why);
  line_.clear();
}

void ReaderMachine::Reset(StateAnswers* answers) {
  ForgetName(answers);
  ++epoch_;
  reading_ = false;
  EndWork();
  given_back_.clear();
  started_ = completed_ = produced_ = 0;
  for (const ReaderRequestPtr& r : line_) r->records.clear();
}

std::string ReaderMachine::Serialize() const {
  proto::ReaderBaseState s;
  s.set_work_started(started_ + (working_ && !opened_ ? 1 : 0));
  s.set_work_finished(completed_);
  s.set_num_records_produced(produced_);
  s.set_current_work(work_);
  s.set_offset(static_cast<int64_t>(offset_));
  s.set_number(number_);
  for (const Record& r : given_back_) {
    s.add_key(r.first);
    s.add_value(r.second);
  }
  return s.SerializeAsString();
}

absl::Status ReaderMachine::Restore(const std::string& state, StateAnswers* answers) {
  proto::ReaderBaseState s;
  if (!s.ParseFromString(state)) return InvalidArgument("the state for ", spec_.What(), " cannot be parsed");
  if (s.work_finished() < 0 || s.work_started() < s.work_finished() || s.num_records_produced() < 0 || s.offset() < 0 ||
      s.number() < 0 || s.key_size() != s.value_size()) {
    return InvalidArgument("the state for ", spec_.What(), " has impossible numbers: ", s.work_started(),
                           " works started, ", s.work_finished(), " finished, ", s.num_records_produced(), " records");
  }
  Reset(answers);
  working_ = s.work_started() > s.work_finished();
  started_ = s.work_started() - (working_ ? 1 : 0);  // counted when it is opened
  completed_ = s.work_finished();
  produced_ = s.num_records_produced();
  if (working_) {
    work_ = s.current_work();
    offset_ = static_cast<uint64_t>(s.offset());
    number_ = s.number();
  }
  for (int i = 0; i < s.key_size(); ++i) given_back_.emplace_back(s.key(i), s.value(i));
  return absl::OkStatus();
}

std::string ReaderMachine::HowMuch() const {
  return StrCat(produced_, " records produced", working_ ? StrCat(", at '", work_, "'") : "",
                line_.empty() ? "" : StrCat(", ", line_.size(), " reads wait"));
}

absl::StatusOr<ResourceState> ReaderMachine::Save() const {
  ResourceState state;
  state.kind = spec_.kind;
  PutText(&state, "compression", spec_.compression);
  PutNumber(&state, "skip_lines", spec_.skip_lines);
  PutNumber(&state, "record", static_cast<int64_t>(spec_.layout.record));
  PutNumber(&state, "header", static_cast<int64_t>(spec_.layout.header));
  PutNumber(&state, "footer", static_cast<int64_t>(spec_.layout.footer));
  PutNumber(&state, "hop", static_cast<int64_t>(spec_.layout.hop));
  PutNumber(&state, "started", started_ - (opened_ ? 1 : 0));  // the work is opened again
  PutNumber(&state, "completed", completed_);
  PutNumber(&state, "working", working_ ? 1 : 0);
  PutText(&state, "work", work_);
  PutNumber(&state, "offset", static_cast<int64_t>(offset_));
  PutNumber(&state, "number", number_);
  // What a read has taken, and may give back, comes first.
  std::vector<std::string> keys, values;
  const auto add = [&](const Record& r) {
    keys.push_back(r.first);
    values.push_back(r.second);
  };
  for (const ReaderRequestPtr& r : line_) std::for_each(r->records.begin(), r->records.end(), add);
  PutNumber(&state, "produced", produced_ - static_cast<int64_t>(keys.size()));
  std::for_each(given_back_.begin(), given_back_.end(), add);
  state.tensors.emplace_back("keys", Tensor::Vector<std::string>(keys));
  state.tensors.emplace_back("values", Tensor::Vector<std::string>(values));
  return state;
}

absl::StatusOr<std::shared_ptr<Reader>> Reader::Make(ReaderSpec spec) {
  TROUPE_RETURN_IF_ERROR(spec.Check());
  auto machine = std::make_shared<ReaderMachine>(std::move(spec));
  std::shared_ptr<Reader> reader(new Reader(machine));
  machine->BelongTo(reader);
  return reader;
}

absl::Status Reader::TakePlaceOf(const Resource& other) {
  const auto* const before = dynamic_cast<const Reader*>(&other);
  if (before == nullptr) return Resource::TakePlaceOf(other);
  if (before->spec() == spec_) return absl::OkStatus();
  return InvalidArgument(spec_.What(), " has other settings than what is to take its place");
}

absl::StatusOr<std::shared_ptr<Resource>> MakeSavedReader(const std::string& name, const ResourceState& state) {
  ReaderSpec spec;
  spec.kind = state.kind;
  spec.name = name;
  TROUPE_ASSIGN_OR_RETURN(spec.compression, TakeText(state, "compression"));
  TROUPE_ASSIGN_OR_RETURN(spec.skip_lines, TakeNumber(state, "skip_lines", 0));
  const std::pair<const char*, uint64_t*> sizes[] = {{"record", &spec.layout.record},
                                                     {"header", &spec.layout.header},
                                                     {"footer", &spec.layout.footer},
                                                     {"hop", &spec.layout.hop}};
  for (const auto& [key, size] : sizes) {
    TROUPE_ASSIGN_OR_RETURN(const int64_t bytes, TakeNumber(state, key, 0));
    *size = static_cast<uint64_t>(bytes);
  }
  TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<Reader> reader, Reader::Make(std::move(spec)));
  auto& m = static_cast<ReaderMachine&>(*reader->machine());
  TROUPE_ASSIGN_OR_RETURN(m.started_, TakeNumber(state, "started", 0));
  TROUPE_ASSIGN_OR_RETURN(m.completed_, TakeNumber(state, "completed", 0));
  TROUPE_ASSIGN_OR_RETURN(m.produced_, TakeNumber(state, "produced", 0));
  TROUPE_ASSIGN_OR_RETURN(const int64_t working, TakeNumber(state, "working", 0));
  m.working_ = working != 0;
  TROUPE_ASSIGN_OR_RETURN(m.work_, TakeText(state, "work"));
  TROUPE_ASSIGN_OR_RETURN(const int64_t offset, TakeNumber(state, "offset", 0));
  m.offset_ = static_cast<uint64_t>(offset);
  TROUPE_ASSIGN_OR_RETURN(m.number_, TakeNumber(state, "number", 0));
  const Tensor *keys = state.Find("keys"), *values = state.Find("values");
  if (keys == nullptr || values == nullptr || keys->dtype() != DType::kString || values->dtype() != DType::kString ||
      keys->rank() != 1 || !keys->SameShape(*values)) {
    return InvalidArgument("a saved ", state.kind, " has no vectors 'keys' and 'values'");
  }
  for (int64_t i = 0; i < keys->dim(0); ++i)
    m.given_back_.emplace_back(keys->data<std::string>()[i], values->data<std::string>()[i]);
  return reader;
}

ReaderKind::ReaderKind(KernelInit& init, std::string kind) {
  const auto has = [&](std::string_view attr) { return init.node().attrs().Has(attr); };
  const auto bytes = [&](std::string_view attr) {
    // A negative number becomes one that Check refuses.
    return static_cast<uint64_t>(init.Attr<int64_t>(attr));
  };
  spec_.kind = std::move(kind);
  spec_.name = init.ResourceKey(/*per_session=*/false).second;
  if (has("skip_header_lines")) spec_.skip_lines = init.Attr<int64_t>("skip_header_lines");
  if (has("compression_type")) spec_.compression = init.Attr<std::string>("compression_type");
  if (has("encoding")) spec_.compression = init.Attr<std::string>("encoding");
  if (has("record_bytes")) {
    spec_.layout = {.record = bytes("record_bytes"),
                    .header = bytes("header_bytes"),
                    .footer = bytes("footer_bytes"),
                    .hop = bytes("hop_bytes")};
  }
  init.Fail(spec_.Check());
}

absl::StatusOr<std::shared_ptr<StateResource>> ReaderKind::Make(const KernelContext&, const std::string&) const {
  return Reader::Make(spec_);
}

absl::Status ReaderKind::CheckShared(const StateResource& there) const {
  const auto* const reader = dynamic_cast<const Reader*>(&there);
  if (reader != nullptr && reader->spec() == spec_) return absl::OkStatus();
  return InvalidArgument("shared reader '", spec_.name, "' is ", there.DebugString(), ", but the node asks for a ",
                         spec_.kind, reader != nullptr ? " with other settings" : "");
}

}  // namespace troupe::reader
