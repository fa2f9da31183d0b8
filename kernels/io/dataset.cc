// Each transformation is a Source, which makes Stages: a Stage pulls from the stages before it.
//
// A stage saves itself under a prefix of its own, and those before it under longer ones, so keys
// tell the place in the pipeline. All that is drawn or counted is saved; nothing is saved of what
// can be made again.
#include "troupe/dataset.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "kernels/common/elements.h"
#include "kernels/io/cursor.h"

namespace troupe {
namespace {

// A part of an iterator. REQUIRES: Restore, if at all, before the first Next.
class Stage {
 public:
  virtual ~Stage() = default;
  virtual absl::StatusOr<bool> Next(Element* element) = 0;
  virtual void Save(const std::string& prefix, ResourceState* to) = 0;
  virtual absl::Status Restore(const std::string& prefix, const ResourceState& from) = 0;
};
using StagePtr = std::unique_ptr<Stage>;

uint64_t Mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

struct Dataset::Source {
  virtual ~Source() = default;
  // `epoch`: a number of the repetition, from which orders are drawn.
  virtual absl::StatusOr<StagePtr> Make(uint64_t epoch) const = 0;
};

namespace {

using SourcePtr = std::shared_ptr<const Dataset::Source>;

// --- What is saved.

void Put(ResourceState* to, const std::string& key, int64_t value) {
  to->tensors.emplace_back(key, Tensor::Scalar<int64_t>(value));
}
absl::StatusOr<int64_t> Take(const ResourceState& from, const std::string& key, int64_t least = 0) {
  TROUPE_ASSIGN_OR_RETURN(const Tensor t, from.Get(key, DType::kInt64, TensorShape()));
  const int64_t value = t.scalar<int64_t>();
  if (value < least) return InvalidArgument("the position has ", key, " = ", value);
  return value;
}
void PutElement(ResourceState* to, const std::string& key, const Element& element) {
  Put(to, key + "/n", static_cast<int64_t>(element.size()));
  for (size_t i = 0; i < element.size(); ++i) to->tensors.emplace_back(StrCat(key, "/", i), element[i]);
}
absl::StatusOr<Element> TakeElement(const ResourceState& from, const std::string& key) {
  TROUPE_ASSIGN_OR_RETURN(const int64_t n, Take(from, key + "/n"));
  Element element;
  for (int64_t i = 0; i < n; ++i) {
    const Tensor* t = from.Find(StrCat(key, "/", i));
    if (t == nullptr) return InvalidArgument("the position has no ", key, "/", i);
    element.push_back(*t);
  }
  return element;
}

// to[0, n) = from[0, n). `to` is new: its strings are empty.
void Copy(DType type, void* to, const void* from, int64_t n) {
  if (IsPlainBytes(type)) {
    if (n > 0) std::memcpy(to, from, static_cast<size_t>(n) * SizeOf(type));
  } else if (type == DType::kString) {
    const auto* s = static_cast<const std::string*>(from);
    std::copy(s, s + n, static_cast<std::string*>(to));
  }
}

// What a function of the program returns, or throws.
template <class F>
auto Guarded(const char* what, const F& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::exception& e) {
    return Internal("the function of ", what, " threw: ", e.what());
  } catch (...) {
    return Internal("the function of ", what, " threw");
  }
}

// A source whose stage is made from the stages of its inputs; `make` gets them and the epoch.
template <class F>
struct SimpleSource : Dataset::Source {
  SimpleSource(std::vector<SourcePtr> from, F f) : inputs(std::move(from)), make_stage(std::move(f)) {}
  absl::StatusOr<StagePtr> Make(uint64_t epoch) const override {
    std::vector<StagePtr> stages;
    for (const SourcePtr& input : inputs) {
      TROUPE_ASSIGN_OR_RETURN(StagePtr stage, input->Make(epoch));
      stages.push_back(std::move(stage));
    }
    return make_stage(std::move(stages), epoch);
  }
  const std::vector<SourcePtr> inputs;
  const F make_stage;
};
template <class F>
SourcePtr NewSource(std::vector<SourcePtr> inputs, F make_stage) {
  return std::make_shared<SimpleSource<F>>(std::move(inputs), std::move(make_stage));
}
SourcePtr Refused(absl::Status why) {
  return NewSource({}, [why](std::vector<StagePtr>, uint64_t) -> absl::StatusOr<StagePtr> { return why; });
}

// A stage with one input.
class InputStage : public Stage {
 public:
  explicit InputStage(StagePtr input) : input_(std::move(input)) {}
  void Save(const std::string& prefix, ResourceState* to) override { input_->Save(prefix + "i", to); }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    return input_->Restore(prefix + "i", from);
  }

 protected:
  const StagePtr input_;
};

// --- Where elements come from.

class RowsStage : public Stage {
 public:
  explicit RowsStage(std::shared_ptr<const Element> tensors) : tensors_(std::move(tensors)) {}
  absl::StatusOr<bool> Next(Element* element) override {
    if (tensors_->empty() || at_ >= tensors_->front().dim(0)) return false;
    element->clear();
    for (const Tensor& t : *tensors_) {
      TensorShape shape = t.shape();
      shape.RemoveDim(0);
      Tensor row(t.dtype(), shape);
      if (!row.valid()) return ResourceExhausted("no memory for a row ", row.TypeAndShape());
      const int64_t n = row.num_elements();
      Copy(t.dtype(), row.raw(), array::ElementAt(t.dtype(), t.raw(), at_ * n), n);
      element->push_back(std::move(row));
    }
    ++at_;
    return true;
  }
  void Save(const std::string& prefix, ResourceState* to) override { Put(to, prefix + "rows", at_); }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_ASSIGN_OR_RETURN(at_, Take(from, prefix + "rows"));
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const Element> tensors_;
  int64_t at_ = 0;
};

class RangeStage : public Stage {
 public:
  RangeStage(int64_t begin, int64_t end, int64_t step) : begin_(begin), step_(step) {
    if (step > 0 && end > begin) count_ = (end - begin + step - 1) / step;
    if (step < 0 && end < begin) count_ = (begin - end - step - 1) / -step;
  }
  absl::StatusOr<bool> Next(Element* element) override {
    if (at_ >= count_) return false;
    *element = {Tensor::Scalar<int64_t>(begin_ + at_++ * step_)};
    return true;
  }
  void Save(const std::string& prefix, ResourceState* to) override { Put(to, prefix + "range", at_); }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_ASSIGN_OR_RETURN(at_, Take(from, prefix + "range"));
    return absl::OkStatus();
  }

 private:
  const int64_t begin_, step_;
  int64_t count_ = 0, at_ = 0;
};

class GeneratorStage : public Stage {
 public:
  explicit GeneratorStage(Dataset::Generator f) : f_(std::move(f)) {}
  absl::StatusOr<bool> Next(Element* element) override {
    element->clear();
    TROUPE_ASSIGN_OR_RETURN(const bool more, Guarded("FromGenerator", [&] { return f_(element); }));
    if (more) ++given_;
    return more;
  }
  void Save(const std::string& prefix, ResourceState* to) override { Put(to, prefix + "generated", given_); }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_ASSIGN_OR_RETURN(const int64_t given, Take(from, prefix + "generated"));
    Element element;
    while (given_ < given) {
      TROUPE_ASSIGN_OR_RETURN(const bool more, Next(&element));
      if (!more) return InvalidArgument("the generator ends after ", given_, " elements, before the position ", given);
    }
    return absl::OkStatus();
  }

 private:
  const Dataset::Generator f_;
  int64_t given_ = 0;
};

using io::Cursor;
using OpenCursor = std::function<absl::StatusOr<std::unique_ptr<Cursor>>(const std::string& path)>;

class FilesStage : public Stage {
 public:
  FilesStage(std::shared_ptr<const std::vector<std::string>> paths, OpenCursor open)
      : paths_(std::move(paths)), open_(std::move(open)) {}
  absl::StatusOr<bool> Next(Element* element) override {
    std::string_view record;
    TROUPE_ASSIGN_OR_RETURN(const bool more, Record(&record));
    if (more) *element = {Tensor::Scalar(std::string(record))};
    return more;
  }
  void Save(const std::string& prefix, ResourceState* to) override {
    Put(to, prefix + "file", static_cast<int64_t>(file_));
    Put(to, prefix + "record", record_);
  }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_ASSIGN_OR_RETURN(const int64_t file, Take(from, prefix + "file"));
    TROUPE_ASSIGN_OR_RETURN(const int64_t record, Take(from, prefix + "record"));
    file_ = static_cast<size_t>(file);
    if (file_ > paths_->size() || (file_ == paths_->size() && record > 0))
      return InvalidArgument("the position is in file ", file, " of ", paths_->size());
    while (record_ < record) {
      std::string_view passed;
      TROUPE_ASSIGN_OR_RETURN(const bool more, Record(&passed));
      if (!more || file_ != static_cast<size_t>(file)) {
        return DataLoss((*paths_)[static_cast<size_t>(file)], ": the file ends before record ", record);
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<bool> Record(std::string_view* record) {
    for (; file_ < paths_->size(); ++file_, record_ = 0) {
      if (cursor_ == nullptr) {
        TROUPE_ASSIGN_OR_RETURN(cursor_, open_((*paths_)[file_]));
      }
      TROUPE_ASSIGN_OR_RETURN(const bool more, cursor_->Next(record));
      if (more) {
        ++record_;
        return true;
      }
      cursor_.reset();
    }
    return false;
  }

  const std::shared_ptr<const std::vector<std::string>> paths_;
  const OpenCursor open_;
  std::unique_ptr<Cursor> cursor_;
  size_t file_ = 0;
  int64_t record_ = 0;
};

SourcePtr FilesSource(std::vector<std::string> paths, OpenCursor open) {
  auto shared = std::make_shared<const std::vector<std::string>>(std::move(paths));
  return NewSource({}, [shared, open](std::vector<StagePtr>, uint64_t) -> absl::StatusOr<StagePtr> {
    return std::make_unique<FilesStage>(shared, open);
  });
}

class ZipStage : public Stage {
 public:
  explicit ZipStage(std::vector<StagePtr> inputs) : inputs_(std::move(inputs)) {}
  absl::StatusOr<bool> Next(Element* element) override {
    element->clear();
    for (const StagePtr& input : inputs_) {
      Element part;
      TROUPE_ASSIGN_OR_RETURN(const bool more, input->Next(&part));
      if (!more) return false;
      std::move(part.begin(), part.end(), std::back_inserter(*element));
    }
    return !inputs_.empty();
  }
  void Save(const std::string& prefix, ResourceState* to) override {
    for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i]->Save(StrCat(prefix, "z", i, "."), to);
  }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      TROUPE_RETURN_IF_ERROR(inputs_[i]->Restore(StrCat(prefix, "z", i, "."), from));
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<StagePtr> inputs_;
};

// --- One element at a time.

class MapStage : public InputStage {
 public:
  MapStage(StagePtr input, Dataset::MapFn f) : InputStage(std::move(input)), f_(std::move(f)) {}
  absl::StatusOr<bool> Next(Element* element) override {
    Element in;
    TROUPE_ASSIGN_OR_RETURN(const bool more, input_->Next(&in));
    if (!more) return false;
    TROUPE_ASSIGN_OR_RETURN(*element, Guarded("Map", [&] { return f_(std::move(in)); }));
    return true;
  }

 private:
  const Dataset::MapFn f_;
};

// Up to n calls at once, whose results are given in the order of the elements. Elements whose
// results have not been given are part of the position.
class ParallelMapStage : public InputStage {
 public:
  ParallelMapStage(StagePtr input, Dataset::MapFn f, int n) : InputStage(std::move(input)), f_(std::move(f)), n_(n) {}
  ~ParallelMapStage() override {
    {
      const std::lock_guard lock(mu_);
      stop_ = true;
    }
    work_.notify_all();
    for (std::thread& t : threads_) t.join();
  }
  absl::StatusOr<bool> Next(Element* element) override {
    while (!ended_ && calls_.size() < static_cast<size_t>(n_)) {
      auto call = std::make_shared<Call>();
      const absl::StatusOr<bool> more = input_->Next(&call->in);
      if (!more.ok()) {
        call->out = more.status();
        call->done = call->is_end = true;
        ended_ = true;
      } else if (!*more) {
        ended_ = true;
        break;
      }
      Add(std::move(call));
    }
    if (calls_.empty()) return false;
    const std::shared_ptr<Call> first = calls_.front();
    {
      std::unique_lock lock(mu_);
      done_.wait(lock, [&] { return first->done; });
    }
    calls_.pop_front();
    TROUPE_ASSIGN_OR_RETURN(*element, std::move(first->out));
    return true;
  }
  void Save(const std::string& prefix, ResourceState* to) override {
    InputStage::Save(prefix, to);
    // An error of the input comes again when it is asked again.
    const bool failed = !calls_.empty() && calls_.back()->is_end;
    const size_t n = calls_.size() - (failed ? 1 : 0);
    Put(to, prefix + "calls", static_cast<int64_t>(n));
    for (size_t i = 0; i < n; ++i) PutElement(to, StrCat(prefix, "call", i), calls_[i]->in);
    Put(to, prefix + "ended", ended_ && !failed);
  }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_RETURN_IF_ERROR(InputStage::Restore(prefix, from));
    TROUPE_ASSIGN_OR_RETURN(const int64_t n, Take(from, prefix + "calls"));
    for (int64_t i = 0; i < n; ++i) {
      auto call = std::make_shared<Call>();
      TROUPE_ASSIGN_OR_RETURN(call->in, TakeElement(from, StrCat(prefix, "call", i)));
      Add(std::move(call));
    }
    TROUPE_ASSIGN_OR_RETURN(const int64_t ended, Take(from, prefix + "ended"));
    ended_ = ended != 0;
    return absl::OkStatus();
  }

 private:
  struct Call {
    Element in;
    absl::StatusOr<Element> out;
    bool done = false;
    bool is_end = false;  // no call, but the error of the input
  };
  void Add(std::shared_ptr<Call> call) {
    calls_.push_back(call);
    if (call->done) return;
    // Without a thread the caller does it.
    if (threads_.size() < static_cast<size_t>(n_)) {
      try {
        threads_.emplace_back([this] { Work(); });
      } catch (const std::system_error&) {
        if (threads_.empty()) return Run(call.get());
      }
    }
    {
      const std::lock_guard lock(mu_);
      queue_.push_back(std::move(call));
    }
    work_.notify_one();
  }
  void Run(Call* call) {
    absl::StatusOr<Element> out = Guarded("Map", [&] { return f_(call->in); });
    const std::lock_guard lock(mu_);
    call->out = std::move(out);
    call->done = true;
  }
  void Work() {
    std::unique_lock lock(mu_);
    for (;;) {
      work_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      const std::shared_ptr<Call> call = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      Run(call.get());
      done_.notify_all();
      lock.lock();
    }
  }

  const Dataset::MapFn f_;
  const int n_;
  std::deque<std::shared_ptr<Call>> calls_;  // of the thread that asks
  bool ended_ = false;
  std::mutex mu_;
  std::condition_variable work_, done_;
  std::deque<std::shared_ptr<Call>> queue_;  // under mu_, as what Calls hold
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

class FilterStage : public InputStage {
 public:
  FilterStage(StagePtr input, Dataset::Predicate keep) : InputStage(std::move(input)), keep_(std::move(keep)) {}
  absl::StatusOr<bool> Next(Element* element) override {
    for (;;) {
      TROUPE_ASSIGN_OR_RETURN(const bool more, input_->Next(element));
      if (!more) return false;
      TROUPE_ASSIGN_OR_RETURN(const bool kept, Guarded("Filter", [&] { return keep_(*element); }));
      if (kept) return true;
    }
  }

 private:
  const Dataset::Predicate keep_;
};

// Take, Skip and Shard: by the elements' numbers.
class CountingStage : public InputStage {
 public:
  // Gives elements number `first`, first + step, ... before `end` (negative: no end).
  CountingStage(StagePtr input, int64_t first, int64_t step, int64_t end)
      : InputStage(std::move(input)), first_(first), step_(step), end_(end) {}
  absl::StatusOr<bool> Next(Element* element) override {
    for (;;) {
      if (end_ >= 0 && at_ >= end_) return false;
      TROUPE_ASSIGN_OR_RETURN(const bool more, input_->Next(element));
      if (!more) return false;
      const int64_t number = at_++;
      if (number >= first_ && (number - first_) % step_ == 0) return true;
    }
  }
  void Save(const std::string& prefix, ResourceState* to) override {
    InputStage::Save(prefix, to);
    Put(to, prefix + "count", at_);
  }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_ASSIGN_OR_RETURN(at_, Take(from, prefix + "count"));
    return InputStage::Restore(prefix, from);
  }

 private:
  const int64_t first_, step_, end_;
  int64_t at_ = 0;
};

// --- Several elements at a time.

class ShuffleStage : public InputStage {
 public:
  ShuffleStage(StagePtr input, int64_t buffer, uint64_t seed)
      : InputStage(std::move(input)), size_(buffer), seed_(seed) {}
  absl::StatusOr<bool> Next(Element* element) override {
    while (!ended_ && static_cast<int64_t>(held_.size()) < size_) {
      Element next;
      TROUPE_ASSIGN_OR_RETURN(const bool more, input_->Next(&next));
      if (more) held_.push_back(std::move(next));
      ended_ = !more;
    }
    if (held_.empty()) return false;
    const uint64_t word = Mixed(seed_ + static_cast<uint64_t>(drawn_++) * 0x2545f4914f6cdd1d);
    const auto i = static_cast<size_t>((static_cast<unsigned __int128>(word) * held_.size()) >> 64);
    std::swap(held_[i], held_.back());
    *element = std::move(held_.back());
    held_.pop_back();
    return true;
  }
  void Save(const std::string& prefix, ResourceState* to) override {
    InputStage::Save(prefix, to);
    Put(to, prefix + "drawn", drawn_);
    Put(to, prefix + "ended", ended_);
    Put(to, prefix + "held", static_cast<int64_t>(held_.size()));
    for (size_t i = 0; i < held_.size(); ++i) PutElement(to, StrCat(prefix, "held", i), held_[i]);
  }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_RETURN_IF_ERROR(InputStage::Restore(prefix, from));
    TROUPE_ASSIGN_OR_RETURN(drawn_, Take(from, prefix + "drawn"));
    TROUPE_ASSIGN_OR_RETURN(const int64_t ended, Take(from, prefix + "ended"));
    TROUPE_ASSIGN_OR_RETURN(const int64_t n, Take(from, prefix + "held"));
    if (n > size_) return InvalidArgument("the position holds ", n, " elements in a buffer of ", size_);
    ended_ = ended != 0;
    for (int64_t i = 0; i < n; ++i) {
      TROUPE_ASSIGN_OR_RETURN(Element element, TakeElement(from, StrCat(prefix, "held", i)));
      held_.push_back(std::move(element));
    }
    return absl::OkStatus();
  }

 private:
  const int64_t size_;
  const uint64_t seed_;
  std::vector<Element> held_;
  int64_t drawn_ = 0;
  bool ended_ = false;
};

// One tensor of the elements `rows`, stacked; filled up where they are smaller than `shape`.
absl::StatusOr<Tensor> Stacked(const std::vector<Element>& rows, size_t part, const TensorShape& shape, bool pad) {
  const DType type = rows[0][part].dtype();
  if (!IsPlainBytes(type) && type != DType::kString) return InvalidArgument("a ", Name(type), " cannot be in a batch");
  TensorShape whole = shape;
  whole.InsertDim(0, static_cast<int64_t>(rows.size()));
  TROUPE_RETURN_IF_ERROR(TensorShape::Make(whole.dims()).status());
  Tensor out(type, whole);
  if (!out.valid()) return ResourceExhausted("no memory for a batch ", Name(type), " ", whole.DebugString());
  const int64_t each = shape.num_elements();
  if (pad && IsPlainBytes(type) && out.bytes() > 0) std::memset(out.raw(), 0, out.bytes());
  for (size_t r = 0; r < rows.size(); ++r) {
    const Tensor& row = rows[r][part];
    const int64_t base = static_cast<int64_t>(r) * each;
    if (!pad || row.shape() == shape) {
      Copy(type, array::ElementAt(type, out.raw(), base), row.raw(), each);
      continue;
    }
    // Runs along the last dimension.
    const int rank = shape.rank();
    const int64_t run = row.dim(rank - 1);
    for (int64_t i = 0; run > 0 && i < row.num_elements(); i += run) {
      int64_t rest = i / run, at = 0, stride = shape.dim(rank - 1);
      for (int d = rank - 2; d >= 0; --d) {
        at += rest % row.dim(d) * stride;
        rest /= row.dim(d);
        stride *= shape.dim(d);
      }
      Copy(type, array::ElementAt(type, out.raw(), base + at), array::ElementAt(type, row.raw(), i), run);
    }
  }
  return out;
}

class BatchStage : public InputStage {
 public:
  BatchStage(StagePtr input, int64_t n, bool drop_remainder, bool pad, std::vector<PartialTensorShape> shapes)
      : InputStage(std::move(input)), n_(n), drop_(drop_remainder), pad_(pad), shapes_(std::move(shapes)) {}
  absl::StatusOr<bool> Next(Element* element) override {
    std::vector<Element> rows;
    while (static_cast<int64_t>(rows.size()) < n_) {
      Element row;
      TROUPE_ASSIGN_OR_RETURN(const bool more, input_->Next(&row));
      if (!more) break;
      rows.push_back(std::move(row));
    }
    if (rows.empty() || (drop_ && static_cast<int64_t>(rows.size()) < n_)) return false;
    element->clear();
    for (size_t part = 0; part < rows[0].size(); ++part) {
      TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, ShapeOf(rows, part));
      TROUPE_ASSIGN_OR_RETURN(Tensor batch, Stacked(rows, part, shape, pad_));
      element->push_back(std::move(batch));
    }
    return true;
  }

 private:
  absl::StatusOr<TensorShape> ShapeOf(const std::vector<Element>& rows, size_t part) const {
    TensorShape shape = rows[0][part].shape();
    for (size_t r = 1; r < rows.size(); ++r) {
      if (rows[r].size() != rows[0].size()) {
        return InvalidArgument("elements of a batch have ", rows[0].size(), " and ", rows[r].size(), " tensors");
      }
      const Tensor& t = rows[r][part];
      if (t.dtype() != rows[0][part].dtype() || t.rank() != shape.rank() || (!pad_ && t.shape() != shape)) {
        return InvalidArgument("tensor ", part, " of the elements of a batch is ", rows[0][part].TypeAndShape(),
                               " and ", t.TypeAndShape(), pad_ ? "" : ": PaddedBatch fills up smaller ones");
      }
      for (int d = 0; d < shape.rank(); ++d) shape.set_dim(d, std::max(shape.dim(d), t.dim(d)));
    }
    if (!pad_ || part >= shapes_.size() || !shapes_[part].known_rank()) return shape;
    const PartialTensorShape& want = shapes_[part];
    if (want.rank() != shape.rank()) {
      return InvalidArgument("tensor ", part, " of an element has shape ", shape.DebugString(), ", not ",
                             want.DebugString());
    }
    for (int d = 0; d < shape.rank(); ++d) {
      if (want.dim(d) < 0) continue;
      if (want.dim(d) < shape.dim(d)) {
        return InvalidArgument("tensor ", part, " of an element has shape ", shape.DebugString(), ", larger than ",
                               want.DebugString());
      }
      shape.set_dim(d, want.dim(d));
    }
    return shape;
  }

  const int64_t n_;
  const bool drop_, pad_;
  const std::vector<PartialTensorShape> shapes_;
};

// --- Several iterations.

class RepeatStage : public Stage {
 public:
  RepeatStage(SourcePtr input, int64_t count, uint64_t epoch)
      : source_(std::move(input)), count_(count), epoch_(epoch) {}
  absl::StatusOr<bool> Next(Element* element) override {
    for (bool empty = false; count_ < 0 || round_ < count_; ++round_, given_ = false) {
      if (input_ == nullptr) {
        TROUPE_ASSIGN_OR_RETURN(input_, Make());
      }
      TROUPE_ASSIGN_OR_RETURN(const bool more, input_->Next(element));
      if (more) {
        given_ = true;
        return true;
      }
      input_.reset();
      // Repeating nothing for ever would never end.
      if (!given_ && empty) return false;
      empty = !given_;
    }
    return false;
  }
  void Save(const std::string& prefix, ResourceState* to) override {
    Put(to, prefix + "round", round_);
    Put(to, prefix + "given", given_);
    Put(to, prefix + "open", input_ != nullptr);
    if (input_ != nullptr) input_->Save(prefix + "i", to);
  }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_ASSIGN_OR_RETURN(round_, Take(from, prefix + "round"));
    TROUPE_ASSIGN_OR_RETURN(const int64_t given, Take(from, prefix + "given"));
    TROUPE_ASSIGN_OR_RETURN(const int64_t open, Take(from, prefix + "open"));
    given_ = given != 0;
    if (open == 0) return absl::OkStatus();
    TROUPE_ASSIGN_OR_RETURN(input_, Make());
    return input_->Restore(prefix + "i", from);
  }

 private:
  absl::StatusOr<StagePtr> Make() const { return source_->Make(Mixed(epoch_ + static_cast<uint64_t>(round_))); }

  const SourcePtr source_;
  const int64_t count_;
  const uint64_t epoch_;
  int64_t round_ = 0;
  bool given_ = false;
  StagePtr input_;
};

struct CacheRows {
  std::mutex mu;
  std::shared_ptr<const std::vector<Element>> rows;  // of a whole iteration; null before
};

class CacheStage : public Stage {
 public:
  CacheStage(SourcePtr source, std::shared_ptr<CacheRows> cache)
      : source_(std::move(source)), cache_(std::move(cache)) {
    const std::lock_guard lock(cache_->mu);
    rows_ = cache_->rows;
  }
  absl::StatusOr<bool> Next(Element* element) override {
    if (rows_ != nullptr) {
      if (at_ >= rows_->size()) return false;
      *element = (*rows_)[at_++];
      return true;
    }
    if (input_ == nullptr) {
      // Every repetition reads what the first one has read.
      TROUPE_ASSIGN_OR_RETURN(input_, source_->Make(0));
    }
    TROUPE_ASSIGN_OR_RETURN(const bool more, input_->Next(element));
    if (more) {
      read_.push_back(*element);
      ++at_;
      return true;
    }
    rows_ = std::make_shared<const std::vector<Element>>(std::move(read_));
    const std::lock_guard lock(cache_->mu);
    if (cache_->rows == nullptr) cache_->rows = rows_;
    return false;
  }
  void Save(const std::string& prefix, ResourceState* to) override {
    Put(to, prefix + "cached", static_cast<int64_t>(at_));
  }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_ASSIGN_OR_RETURN(const int64_t at, Take(from, prefix + "cached"));
    Element passed;
    while (at_ < static_cast<size_t>(at)) {
      TROUPE_ASSIGN_OR_RETURN(const bool more, Next(&passed));
      if (!more) return InvalidArgument("the input of Cache ends after ", at_, " elements, before the position ", at);
    }
    return absl::OkStatus();
  }

 private:
  const SourcePtr source_;
  const std::shared_ptr<CacheRows> cache_;
  std::shared_ptr<const std::vector<Element>> rows_;
  StagePtr input_;
  std::vector<Element> read_;
  size_t at_ = 0;
};

class InterleaveStage : public InputStage {
 public:
  InterleaveStage(StagePtr input, Dataset::FlatFn f, std::function<absl::StatusOr<StagePtr>(const Dataset&)> make,
                  int cycle, int64_t block)
      : InputStage(std::move(input)),
        f_(std::move(f)),
        make_(std::move(make)),
        block_(block),
        slots_(static_cast<size_t>(cycle)) {}
  absl::StatusOr<bool> Next(Element* element) override {
    size_t empty = 0;
    while (empty < slots_.size()) {
      Slot& slot = slots_[now_];
      if (slot.stage == nullptr && !ended_) {
        TROUPE_ASSIGN_OR_RETURN(const bool more, input_->Next(&slot.element));
        ended_ = !more;
        if (more) TROUPE_RETURN_IF_ERROR(Open(&slot));
      }
      if (slot.stage == nullptr) {
        ++empty;
        Turn();
        continue;
      }
      TROUPE_ASSIGN_OR_RETURN(const bool more, slot.stage->Next(element));
      if (!more) {
        // The next set takes this place when its turn comes again.
        slot.stage.reset();
        empty = 0;
        Turn();
        continue;
      }
      if (++given_ >= block_) Turn();
      return true;
    }
    return false;
  }
  void Save(const std::string& prefix, ResourceState* to) override {
    InputStage::Save(prefix, to);
    Put(to, prefix + "now", static_cast<int64_t>(now_));
    Put(to, prefix + "given", given_);
    Put(to, prefix + "ended", ended_);
    for (size_t i = 0; i < slots_.size(); ++i) {
      const std::string place = StrCat(prefix, "s", i, ".");
      Put(to, place + "open", slots_[i].stage != nullptr);
      if (slots_[i].stage == nullptr) continue;
      PutElement(to, place + "of", slots_[i].element);
      slots_[i].stage->Save(place, to);
    }
  }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_RETURN_IF_ERROR(InputStage::Restore(prefix, from));
    TROUPE_ASSIGN_OR_RETURN(const int64_t now, Take(from, prefix + "now"));
    TROUPE_ASSIGN_OR_RETURN(given_, Take(from, prefix + "given"));
    TROUPE_ASSIGN_OR_RETURN(const int64_t ended, Take(from, prefix + "ended"));
    if (now >= static_cast<int64_t>(slots_.size())) return InvalidArgument("the position is of a larger cycle");
    now_ = static_cast<size_t>(now);
    ended_ = ended != 0;
    for (size_t i = 0; i < slots_.size(); ++i) {
      const std::string place = StrCat(prefix, "s", i, ".");
      TROUPE_ASSIGN_OR_RETURN(const int64_t open, Take(from, place + "open"));
      if (open == 0) continue;
      TROUPE_ASSIGN_OR_RETURN(slots_[i].element, TakeElement(from, place + "of"));
      TROUPE_RETURN_IF_ERROR(Open(&slots_[i]));
      TROUPE_RETURN_IF_ERROR(slots_[i].stage->Restore(place, from));
    }
    return absl::OkStatus();
  }

 private:
  struct Slot {
    Element element;  // of which the set was made
    StagePtr stage;
  };
  absl::Status Open(Slot* slot) {
    TROUPE_ASSIGN_OR_RETURN(const Dataset set, Guarded("Interleave", [&] { return f_(slot->element); }));
    TROUPE_ASSIGN_OR_RETURN(slot->stage, make_(set));
    return absl::OkStatus();
  }
  void Turn() {
    now_ = (now_ + 1) % slots_.size();
    given_ = 0;
  }

  const Dataset::FlatFn f_;
  const std::function<absl::StatusOr<StagePtr>(const Dataset&)> make_;
  const int64_t block_;
  std::vector<Slot> slots_;
  size_t now_ = 0;
  int64_t given_ = 0;
  bool ended_ = false;
};

// A thread fills a queue. Whoever saves waits for the element that is being made.
class PrefetchStage : public InputStage {
 public:
  PrefetchStage(StagePtr input, int n) : InputStage(std::move(input)), n_(static_cast<size_t>(n)) {}
  ~PrefetchStage() override {
    {
      const std::lock_guard lock(mu_);
      stop_ = true;
    }
    room_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  absl::StatusOr<bool> Next(Element* element) override {
    std::unique_lock lock(mu_);
    if (!thread_.joinable() && !ended_) {
      try {
        thread_ = std::thread([this] { Fill(); });
      } catch (const std::system_error&) {
        // Without a thread nothing is made ahead.
        if (queue_.empty()) return input_->Next(element);
      }
    }
    filled_.wait(lock, [this] { return !queue_.empty() || ended_; });
    if (!queue_.empty()) {
      *element = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      room_.notify_one();
      return true;
    }
    if (!failed_.ok()) return failed_;
    return false;
  }
  void Save(const std::string& prefix, ResourceState* to) override {
    const std::lock_guard input_lock(input_mu_);
    const std::lock_guard lock(mu_);
    InputStage::Save(prefix, to);
    Put(to, prefix + "ahead", static_cast<int64_t>(queue_.size()));
    for (size_t i = 0; i < queue_.size(); ++i) PutElement(to, StrCat(prefix, "ahead", i), queue_[i]);
  }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_RETURN_IF_ERROR(InputStage::Restore(prefix, from));
    TROUPE_ASSIGN_OR_RETURN(const int64_t n, Take(from, prefix + "ahead"));
    for (int64_t i = 0; i < n; ++i) {
      TROUPE_ASSIGN_OR_RETURN(Element element, TakeElement(from, StrCat(prefix, "ahead", i)));
      queue_.push_back(std::move(element));
    }
    return absl::OkStatus();
  }

 private:
  void Fill() {
    for (bool more = true; more;) {
      {
        std::unique_lock lock(mu_);
        room_.wait(lock, [this] { return stop_ || queue_.size() < n_; });
        if (stop_) return;
      }
      const std::lock_guard input_lock(input_mu_);
      Element element;
      const absl::StatusOr<bool> next = input_->Next(&element);
      more = next.ok() && *next;
      const std::lock_guard lock(mu_);
      if (more) {
        queue_.push_back(std::move(element));
      } else {
        failed_ = next.status();
        ended_ = true;
      }
      filled_.notify_all();
    }
  }

  const size_t n_;
  std::mutex input_mu_;  // before mu_; the input belongs to whoever has it
  std::mutex mu_;
  std::condition_variable filled_, room_;
  std::deque<Element> queue_;
  absl::Status failed_;
  bool ended_ = false, stop_ = false;
  std::thread thread_;
};

// --- The whole.

constexpr char kKind[] = "dataset iterator";

class WholeIterator : public DatasetIterator {
 public:
  explicit WholeIterator(StagePtr stage) : stage_(std::move(stage)) {}
  absl::StatusOr<bool> Next(Element* element) override {
    TROUPE_RETURN_IF_ERROR(failed_);
    absl::StatusOr<bool> more = stage_->Next(element);
    if (!more.ok()) failed_ = more.status();
    return more;
  }
  ResourceState Save() override {
    ResourceState state;
    state.kind = kKind;
    stage_->Save("", &state);
    return state;
  }

 private:
  const StagePtr stage_;
  absl::Status failed_;
};

}  // namespace

DatasetIterator::~DatasetIterator() = default;
Dataset::Dataset(std::shared_ptr<const Source> source) : source_(std::move(source)) {}

Dataset Dataset::FromTensors(Element tensors) {
  for (const Tensor& t : tensors) {
    if (!t.valid() || (!IsPlainBytes(t.dtype()) && t.dtype() != DType::kString) || t.rank() == 0 ||
        t.dim(0) != tensors[0].dim(0)) {
      return Dataset(Refused(InvalidArgument("FromTensors takes tensors of equally many rows, and got ",
                                             tensors[0].TypeAndShape(), " and ", t.TypeAndShape())));
    }
  }
  auto shared = std::make_shared<const Element>(std::move(tensors));
  return Dataset(NewSource({}, [shared](std::vector<StagePtr>, uint64_t) -> absl::StatusOr<StagePtr> {
    return std::make_unique<RowsStage>(shared);
  }));
}
Dataset Dataset::Range(int64_t begin, int64_t end, int64_t step) {
  if (step == 0) return Dataset(Refused(InvalidArgument("Range cannot go by steps of 0")));
  return Dataset(NewSource({}, [=](std::vector<StagePtr>, uint64_t) -> absl::StatusOr<StagePtr> {
    return std::make_unique<RangeStage>(begin, end, step);
  }));
}
Dataset Dataset::FromGenerator(std::function<Generator()> make) {
  return Dataset(NewSource({}, [make](std::vector<StagePtr>, uint64_t) -> absl::StatusOr<StagePtr> {
    return std::make_unique<GeneratorStage>(make());
  }));
}
Dataset Dataset::Records(std::vector<std::string> paths, files::Compression compression) {
  return Dataset(FilesSource(std::move(paths),
                             [compression](const std::string& path) { return io::OpenRecords(path, compression); }));
}
Dataset Dataset::TextLines(std::vector<std::string> paths, files::Compression compression) {
  return Dataset(FilesSource(std::move(paths),
                             [compression](const std::string& path) { return io::OpenLines(path, compression); }));
}
Dataset Dataset::FixedLength(std::vector<std::string> paths, uint64_t record_bytes, uint64_t header_bytes,
                             uint64_t footer_bytes) {
  if (record_bytes == 0) return Dataset(Refused(InvalidArgument("FixedLength needs records of at least one byte")));
  return Dataset(FilesSource(std::move(paths), [=](const std::string& path) -> absl::StatusOr<std::unique_ptr<Cursor>> {
    TROUPE_ASSIGN_OR_RETURN(const files::FileStat stat, files::Stat(path));
    if (stat.size < header_bytes || stat.size - header_bytes < footer_bytes ||
        (stat.size - header_bytes - footer_bytes) % record_bytes != 0) {
      return DataLoss(path, ": its ", stat.size, " bytes are no header of ", header_bytes, ", footer of ", footer_bytes,
                      " and records of ", record_bytes);
    }
    return io::OpenFixed(path, {.record = record_bytes, .header = header_bytes, .footer = footer_bytes},
                         files::Compression::kNone);
  }));
}
Dataset Dataset::Zip(std::vector<Dataset> sets) {
  std::vector<SourcePtr> inputs;
  for (const Dataset& set : sets) inputs.push_back(set.source_);
  return Dataset(NewSource(std::move(inputs), [](std::vector<StagePtr> in, uint64_t) -> absl::StatusOr<StagePtr> {
    return std::make_unique<ZipStage>(std::move(in));
  }));
}

Dataset Dataset::Map(MapFn f, int in_flight) const {
  return Dataset(NewSource({source_}, [f, in_flight](std::vector<StagePtr> in, uint64_t) -> absl::StatusOr<StagePtr> {
    if (in_flight <= 1) return std::make_unique<MapStage>(std::move(in[0]), f);
    return std::make_unique<ParallelMapStage>(std::move(in[0]), f, std::min(in_flight, 1024));
  }));
}
Dataset Dataset::Filter(Predicate keep) const {
  return Dataset(NewSource({source_}, [keep](std::vector<StagePtr> in, uint64_t) -> absl::StatusOr<StagePtr> {
    return std::make_unique<FilterStage>(std::move(in[0]), keep);
  }));
}
Dataset Dataset::Shuffle(int64_t buffer, uint64_t seed, bool reshuffle) const {
  if (buffer < 1) return Dataset(Refused(InvalidArgument("Shuffle needs a buffer of at least one element")));
  return Dataset(NewSource({source_}, [=](std::vector<StagePtr> in, uint64_t epoch) -> absl::StatusOr<StagePtr> {
    return std::make_unique<ShuffleStage>(std::move(in[0]), buffer, Mixed(seed) ^ (reshuffle ? epoch : 0));
  }));
}
Dataset Dataset::Batch(int64_t n, bool drop_remainder) const {
  if (n < 1) return Dataset(Refused(InvalidArgument("Batch needs at least one element")));
  return Dataset(NewSource({source_}, [=](std::vector<StagePtr> in, uint64_t) -> absl::StatusOr<StagePtr> {
    return std::make_unique<BatchStage>(std::move(in[0]), n, drop_remainder, false, std::vector<PartialTensorShape>());
  }));
}
Dataset Dataset::PaddedBatch(int64_t n, std::vector<PartialTensorShape> shapes, bool drop_remainder) const {
  if (n < 1) return Dataset(Refused(InvalidArgument("PaddedBatch needs at least one element")));
  return Dataset(NewSource({source_}, [=](std::vector<StagePtr> in, uint64_t) -> absl::StatusOr<StagePtr> {
    return std::make_unique<BatchStage>(std::move(in[0]), n, drop_remainder, true, shapes);
  }));
}
Dataset Dataset::Repeat(int64_t count) const {
  return Dataset(
      NewSource({}, [source = source_, count](std::vector<StagePtr>, uint64_t epoch) -> absl::StatusOr<StagePtr> {
        return std::make_unique<RepeatStage>(source, count, epoch);
      }));
}
Dataset Dataset::Interleave(FlatFn f, int cycle, int64_t block) const {
  if (cycle < 1 || block < 1)
    return Dataset(Refused(InvalidArgument("Interleave needs a cycle and blocks of at least 1")));
  return Dataset(NewSource({source_}, [=](std::vector<StagePtr> in, uint64_t epoch) -> absl::StatusOr<StagePtr> {
    const auto make = [epoch](const Dataset& set) { return set.source_->Make(epoch); };
    return std::make_unique<InterleaveStage>(std::move(in[0]), f, make, cycle, block);
  }));
}
Dataset Dataset::Prefetch(int n) const {
  if (n < 1) return Dataset(Refused(InvalidArgument("Prefetch needs room for at least one element")));
  return Dataset(NewSource({source_}, [n](std::vector<StagePtr> in, uint64_t) -> absl::StatusOr<StagePtr> {
    return std::make_unique<PrefetchStage>(std::move(in[0]), n);
  }));
}
namespace {
SourcePtr Counting(SourcePtr input, int64_t first, int64_t step, int64_t end) {
  return NewSource({std::move(input)}, [=](std::vector<StagePtr> in, uint64_t) -> absl::StatusOr<StagePtr> {
    return std::make_unique<CountingStage>(std::move(in[0]), first, step, end);
  });
}
}  // namespace
Dataset Dataset::Take(int64_t n) const { return Dataset(Counting(source_, 0, 1, std::max<int64_t>(n, 0))); }
Dataset Dataset::Skip(int64_t n) const { return Dataset(Counting(source_, std::max<int64_t>(n, 0), 1, -1)); }
Dataset Dataset::Shard(int64_t n, int64_t index) const {
  if (n < 1 || index < 0 || index >= n) {
    return Dataset(Refused(InvalidArgument("there is no part ", index, " of ", n)));
  }
  return Dataset(Counting(source_, index, n, -1));
}
Dataset Dataset::Cache() const {
  auto rows = std::make_shared<CacheRows>();
  return Dataset(NewSource({}, [source = source_, rows](std::vector<StagePtr>, uint64_t) -> absl::StatusOr<StagePtr> {
    return std::make_unique<CacheStage>(source, rows);
  }));
}

absl::StatusOr<std::unique_ptr<DatasetIterator>> Dataset::Iterate() const {
  TROUPE_ASSIGN_OR_RETURN(StagePtr stage, source_->Make(0));
  return std::make_unique<WholeIterator>(std::move(stage));
}
absl::StatusOr<std::unique_ptr<DatasetIterator>> Dataset::Iterate(const ResourceState& position) const {
  if (position.kind != kKind)
    return InvalidArgument("a state of kind '", position.kind, "' is no position in a data set");
  TROUPE_ASSIGN_OR_RETURN(StagePtr stage, source_->Make(0));
  absl::Status restored = stage->Restore("", position);
  if (!restored.ok()) return Annotate(restored, "the data set cannot go on at the position");
  return std::make_unique<WholeIterator>(std::move(stage));
}

}  // namespace troupe
