// Candidate samplers: classes drawn for sampled losses, with the number of times that each of them,
// and each true class, is expected among the draws. Streams and numbers are TensorFlow's.
//
// With `unique`, classes are drawn until `num_sampled` different ones are there. A class with
// probability p is then expected 1 - (1 - p)^tries times, else p * num_sampled times.
#include <cmath>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <unordered_set>

#include "kernels/random/distributions.h"
#include "kernels/random/random_kernel.h"
#include "troupe/files.h"
#include "troupe/resource_state.h"

namespace troupe::random {
namespace {

absl::Status SamplerShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const int64_t num_true, c.Attr<int64_t>("num_true"));
  TROUPE_ASSIGN_OR_RETURN(const int64_t num_sampled, c.Attr<int64_t>("num_sampled"));
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape true_classes, c.WithRank(0, 2));
  c.set_output(0, PartialTensorShape({num_sampled}));
  c.set_output(1, PartialTensorShape({true_classes.dim(0), num_true}));
  c.set_output(2, PartialTensorShape({num_sampled}));
  return absl::OkStatus();
}

OpBuilder SamplerOp(std::string_view name, std::string_view what, bool ranged = true) {
  OpBuilder op(name);
  op.Input("true_classes: int64")
      .Output("sampled_candidates: int64")
      .Output("true_expected_count: float")
      .Output("sampled_expected_count: float")
      .Attr("num_true: int >= 1")
      .Attr("num_sampled: int >= 1")
      .Attr("unique: bool");
  if (ranged) op.Attr("range_max: int >= 1");
  return op.Attr("seed: int = 0")
      .Attr("seed2: int = 0")
      .Stateful()
      .Shape(SamplerShape)
      .NotDifferentiable(kWhyNoGradient)
      .Doc(StrCat("`num_sampled` classes ", what,
                  ", each at most once with `unique`; how often each true class [batch, num_true] and each class that "
                  "was drawn is expected among the draws."));
}

// Integers in [0, n), each with the same probability.
uint64_t ExactUniform(PhiloxWords& words, uint64_t n) {
  const auto next = [&] {
    const uint64_t low = words();
    return low | static_cast<uint64_t>(words()) << 32;
  };
  if ((n & (n - 1)) == 0) return next() & (n - 1);
  const uint64_t skewed = ~uint64_t{0} % n + 1;
  uint64_t r = next();
  while (r < skewed) r = next();
  return r % n;
}

// As ExactUniform, of 32 bits.
uint32_t ExactUniform32(PhiloxWords& words, uint32_t n) {
  if ((n & (n - 1)) == 0) return words() & (n - 1);
  const uint32_t skewed = ~uint32_t{0} % n + 1;
  uint32_t r = words();
  while (r < skewed) r = words();
  return r % n;
}

// A distribution of classes has
//   explicit D(KernelInit&);
//   int64_t range() const;     how many classes there are
//   int64_t possible() const;  how many of them may be drawn
//   absl::Status Use(KernelContext&, const Tensor& known, f);   calls f(draws), where `draws` has
//     int64_t Draw(PhiloxWords&) const;
//     float Probability(int64_t) const;
struct UniformClasses {
  explicit UniformClasses(KernelInit& init)
      : size(init.Attr<int64_t>("range_max")), probability(1.0f / static_cast<float>(size)) {}
  int64_t range() const { return size; }
  int64_t possible() const { return size; }
  template <class F>
  absl::Status Use(KernelContext&, const Tensor&, F&& f) const {
    return f(*this);
  }
  int64_t Draw(PhiloxWords& words) const {
    return static_cast<int64_t>(ExactUniform(words, static_cast<uint64_t>(size)));
  }
  float Probability(int64_t) const { return probability; }
  const int64_t size;
  const float probability;
};

// P(class) = (log(class + 2) - log(class + 1)) / log(range + 1)
struct LogUniformClasses {
  explicit LogUniformClasses(KernelInit& init)
      : size(init.Attr<int64_t>("range_max")), log_range(std::log1p(static_cast<double>(size))) {}
  int64_t range() const { return size; }
  int64_t possible() const { return size; }
  template <class F>
  absl::Status Use(KernelContext&, const Tensor&, F&& f) const {
    return f(*this);
  }
  int64_t Draw(PhiloxWords& words) const {
    const uint32_t x0 = words(), x1 = words();
    // Rounding may lead one beyond the range.
    return (static_cast<int64_t>(std::exp(UniformDouble(x0, x1) * log_range)) - 1) % size;
  }
  float Probability(int64_t c) const {
    const auto at = static_cast<double>(c);
    return static_cast<float>(std::log((at + 2.0) / (at + 1.0)) / log_range);
  }
  const int64_t size;
  const double log_range;
};

// P(class) in proportion to a weight that the attrs, or a file, give it. A draw is one of equal
// buckets, each of which is shared by at most two classes (Walker's method of aliases).
class FixedUnigramClasses {
 public:
  explicit FixedUnigramClasses(KernelInit& init)
      : range_(init.Attr<int64_t>("range_max")), distortion_(init.Attr<float>("distortion")) {
    if (const absl::Status s = Load(init); !s.ok()) init.Fail(s);
  }
  int64_t range() const { return range_; }
  int64_t possible() const { return possible_; }
  template <class F>
  absl::Status Use(KernelContext&, const Tensor&, F&& f) const {
    return f(*this);
  }
  int64_t Draw(PhiloxWords& words) const {
    const float r = UniformFloat(words());
    const uint32_t bucket = ExactUniform32(words, static_cast<uint32_t>(buckets_.size()));
    return r < buckets_[bucket].share ? static_cast<int64_t>(bucket) : buckets_[bucket].other;
  }
  float Probability(int64_t c) const { return weights_[static_cast<size_t>(c)] / total_; }

 private:
  struct Bucket {
    float share = 1;    // of the class with the bucket's number
    int64_t other = 0;  // has the rest
  };

  absl::Status Load(KernelInit& init) {
    const auto file = init.Attr<std::string>("vocab_file");
    const auto unigrams = init.Attr<std::vector<float>>("unigrams");
    const int64_t reserved = init.Attr<int64_t>("num_reserved_ids"), shards = init.Attr<int64_t>("num_shards"),
                  shard = init.Attr<int64_t>("shard");
    if (file.empty() == unigrams.empty()) return InvalidArgument("either vocab_file or unigrams must be given");
    if (range_ >= INT32_MAX) return InvalidArgument("range_max is ", range_, ", but must be less than ", INT32_MAX);
    if (shard >= shards) return InvalidArgument("shard is ", shard, ", but there are only ", shards, " of them");
    // Reserved classes are never drawn. Only those of this shard have a number here.
    const int64_t kept = reserved > shard ? (reserved - shard + shards - 1) / shards : 0;
    if (kept > range_) return InvalidArgument("num_reserved_ids is ", reserved, ", more than the ", range_, " classes");
    weights_.assign(static_cast<size_t>(kept), 0.0f);
    int64_t number = kept;
    const auto add = [&](float weight) -> absl::Status {
      if (number++ % shards != shard) return absl::OkStatus();
      if (static_cast<int64_t>(weights_.size()) == range_)
        return InvalidArgument("there are more weights than the ", range_, " classes of range_max");
      weight = std::pow(weight, distortion_);
      if (!(weight >= 0) || std::isinf(weight))
        return InvalidArgument("the weight of class ", weights_.size(), " is ", weight, ": it must be a number from 0");
      total_ += weight;
      possible_ += weight > 0;
      weights_.push_back(weight);
      return absl::OkStatus();
    };
    for (const float weight : unigrams) TROUPE_RETURN_IF_ERROR(add(weight));
    if (!file.empty()) TROUPE_RETURN_IF_ERROR(LoadFile(file, add));
    if (static_cast<int64_t>(weights_.size()) != range_)
      return InvalidArgument("range_max is ", range_, ", but there are ", weights_.size(), " weights");
    if (!(total_ > 0) || std::isinf(total_)) return InvalidArgument("the sum of the weights is ", total_);
    FillBuckets();
    return absl::OkStatus();
  }

  // Lines of comma-separated values, the last of which is the weight.
  template <class Add>
  static absl::Status LoadFile(const std::string& path, Add&& add) {
    TROUPE_ASSIGN_OR_RETURN(const std::string text, files::Read(path));
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      std::string line = text.substr(at, end - at);
      at = end + 1;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (line.empty()) continue;
      const size_t comma = line.rfind(',');
      const std::string last = comma == std::string::npos ? line : line.substr(comma + 1);
      char* stop = nullptr;
      const float weight = std::strtof(last.c_str(), &stop);
      while (*stop == ' ' || *stop == '\t') ++stop;
      if (stop == last.c_str() || *stop != '\0')
        return InvalidArgument(path, ": there is no weight in the line: ", line);
      TROUPE_RETURN_IF_ERROR(add(weight));
    }
    return absl::OkStatus();
  }

  // A class with less than its share of the draws leaves the rest of its bucket to one with more.
  // The order is TensorFlow's, so that the draws are.
  void FillBuckets() {
    const size_t n = weights_.size();
    double sum = 0;
    for (const float w : weights_) sum += static_cast<double>(w);
    std::vector<double> share(n);
    std::vector<size_t> more, less;
    for (size_t i = 0; i < n; ++i) {
      // A float product, as there.
      share[i] = static_cast<double>(weights_[i] * static_cast<float>(n)) / sum;
      (share[i] < 1 ? less : more).push_back(i);
    }
    buckets_.resize(n);
    while (!more.empty() && !less.empty()) {
      const size_t low = less.back(), high = more.back();
      less.pop_back();
      more.pop_back();
      buckets_[low].other = static_cast<int64_t>(high);
      share[high] -= 1 - share[low];
      (share[high] < 1 ? less : more).push_back(high);
    }
    for (size_t i = 0; i < n; ++i) buckets_[i].share = static_cast<float>(share[i]);
    // What rounding has left.
    for (const auto* rest : {&more, &less}) {
      for (const size_t i : *rest) buckets_[i] = {1.0f, static_cast<int64_t>(i)};
    }
  }

  const int64_t range_;
  const float distortion_;
  int64_t possible_ = 0;
  float total_ = 0;
  std::vector<float> weights_;
  std::vector<Bucket> buckets_;
};

// How often each class was a true class, and once more: state of a node.
class ClassCounts : public Resource {
 public:
  explicit ClassCounts(int64_t range) : tree_(static_cast<size_t>(range) + 1) {
    for (int64_t i = 1; i <= range; ++i) tree_[static_cast<size_t>(i)] = static_cast<int32_t>(i & -i);
    total_ = static_cast<int32_t>(range);
  }
  // `counts`: not negative, and their sum is less than 2^31.
  explicit ClassCounts(const std::vector<int32_t>& counts) : tree_(counts.size() + 1) {
    for (size_t i = 0; i < counts.size(); ++i) AddTo(static_cast<int64_t>(i), counts[i]);
  }
  std::string DebugString() const override { return StrCat("counts of ", range(), " classes"); }
  void Save(const StateVisitor& visit) const override;

  int64_t range() const { return static_cast<int64_t>(tree_.size()) - 1; }
  // Its owner holds this while it calls what follows.
  std::mutex& mutex() const { return mu_; }
  int64_t Draw(PhiloxWords& words) const {
    // The class in which the number lies, when the counts are laid side by side.
    int64_t left = ExactUniform32(words, static_cast<uint32_t>(total_)), at = 0;
    for (int64_t step = HighestBit(); step > 0; step /= 2) {
      if (at + step > range() || tree_[static_cast<size_t>(at + step)] > left) continue;
      at += step;
      left -= tree_[static_cast<size_t>(at)];
    }
    return at;
  }
  float Probability(int64_t c) const { return static_cast<float>(Count(c)) / static_cast<float>(total_); }
  void Add(const Tensor& classes) {
    for (int64_t i = 0; i < classes.num_elements() && total_ < INT32_MAX; ++i) AddTo(classes.data<int64_t>()[i], 1);
  }

 private:
  int64_t HighestBit() const {
    int64_t bit = 1;
    while (bit * 2 <= range()) bit *= 2;
    return bit;
  }
  int32_t UpTo(int64_t n) const {  // the sum of the first n
    int32_t sum = 0;
    for (; n > 0; n &= n - 1) sum += tree_[static_cast<size_t>(n)];
    return sum;
  }
  int32_t Count(int64_t c) const { return UpTo(c + 1) - UpTo(c); }
  void AddTo(int64_t c, int32_t n) {
    for (int64_t i = c + 1; i <= range(); i += i & -i) tree_[static_cast<size_t>(i)] += n;
    total_ += n;
  }
  mutable std::mutex mu_;
  std::vector<int32_t> tree_;  // element i: the sum of the counts of the (i & -i) classes before class i
  int32_t total_ = 0;
};

constexpr char kCounts[] = "class counts";

void ClassCounts::Save(const StateVisitor& visit) const {
  Tensor counts(DType::kInt32, {range()});
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (int64_t i = 0; i < range(); ++i) counts.data<int32_t>()[i] = Count(i);
  }
  visit(ResourceState{kCounts, {{"counts", counts}}});
}

absl::StatusOr<std::shared_ptr<Resource>> MakeCounts(const std::string& name, const ResourceState& state) {
  const Tensor* const counts = state.Find("counts");
  if (counts == nullptr || counts->dtype() != DType::kInt32 || counts->rank() != 1)
    return InvalidArgument("the state of '", name, "' has no counts");
  std::vector<int32_t> all(counts->data<int32_t>(), counts->data<int32_t>() + counts->num_elements());
  int64_t sum = 0;
  for (const int32_t n : all) {
    sum += n;
    if (n < 0 || sum > INT32_MAX) return InvalidArgument("the counts of '", name, "' are negative, or too large");
  }
  if (sum == 0) return InvalidArgument("the counts of '", name, "' are all 0");
  return std::make_shared<ClassCounts>(all);
}
const ResourceKind counts_kind(kCounts, MakeCounts);

// P(class) in proportion to its count.
class LearnedUnigramClasses {
 public:
  explicit LearnedUnigramClasses(KernelInit& init)
      : range_(init.Attr<int64_t>("range_max")), key_(init.ResourceKey(/*per_session=*/true)) {
    if (range_ >= INT32_MAX) init.Fail(InvalidArgument("range_max is ", range_, ", but must be less than ", INT32_MAX));
  }
  int64_t range() const { return range_; }
  int64_t possible() const { return range_; }
  template <class F>
  absl::Status Use(KernelContext& ctx, const Tensor& known, F&& f) {
    TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<ClassCounts> counts,
                            counts_.Get(ctx.device()->containers(), key_.first, key_.second + "/counts",
                                        [&] { return std::make_shared<ClassCounts>(range_); }));
    std::lock_guard<std::mutex> lock(counts->mutex());
    if (counts->range() != range_)
      return InvalidArgument("there are counts of ", counts->range(), " classes, not of ", range_);
    TROUPE_RETURN_IF_ERROR(f(*counts));
    counts->Add(known);
    return absl::OkStatus();
  }

 private:
  const int64_t range_;
  const std::pair<std::string, std::string> key_;
  ResourceCache<ClassCounts> counts_;
};

float Expected(float p, int64_t wanted, int64_t tries) {
  if (tries == wanted) return p * static_cast<float>(wanted);
  return static_cast<float>(-std::expm1(static_cast<double>(tries) * std::log1p(-static_cast<double>(p))));
}

// Known classes must be classes.
absl::Status CheckKnown(const Tensor& known, int64_t num_true, int64_t range) {
  if (known.rank() != 2 || known.dim(1) != num_true) {
    return InvalidArgument("true_classes must be a matrix with ", num_true, " columns, but have shape ",
                           known.shape().DebugString());
  }
  for (int64_t i = 0; i < known.num_elements(); ++i) {
    const int64_t c = known.data<int64_t>()[i];
    if (c < 0 || c >= range) return InvalidArgument("the true class ", c, " is not in [0, ", range, ")");
  }
  return absl::OkStatus();
}

template <class Classes>
class SamplerKernel {
 public:
  explicit SamplerKernel(KernelInit& init)
      : source_(init),
        num_true_(init.Attr<int64_t>("num_true")),
        num_sampled_(init.Attr<int64_t>("num_sampled")),
        unique_(init.Attr<bool>("unique")),
        classes_(init) {
    if (unique_ && num_sampled_ > classes_.possible()) {
      init.Fail(InvalidArgument("num_sampled is ", num_sampled_, ", but there are only ", classes_.possible(),
                                " different classes to draw"));
    }
  }
  absl::Status Compute(KernelContext& ctx) {
    const Tensor& known = ctx.input(0);
    TROUPE_RETURN_IF_ERROR(CheckKnown(known, num_true_, classes_.range()));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const drawn, ctx.AllocateOutput(0, TensorShape({num_sampled_})));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const expected_true, ctx.AllocateOutput(1, known.shape()));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const expected, ctx.AllocateOutput(2, TensorShape({num_sampled_})));
    // 2048 words for each draw.
    TROUPE_ASSIGN_OR_RETURN(const Philox start, source_.Reserve(ctx, static_cast<uint64_t>(num_sampled_) * 512));
    return classes_.Use(ctx, known, [&](const auto& draws) -> absl::Status {
      PhiloxWords words(start);
      int64_t* const out = drawn->template data<int64_t>();
      int64_t tries = 0;
      std::unordered_set<int64_t> seen;
      for (int64_t n = 0; n < num_sampled_; ++tries) {
        out[n] = draws.Draw(words);
        if (!unique_ || seen.insert(out[n]).second) ++n;
        // The last few of many classes may take long.
        if ((tries & 0xffff) == 0xffff && ctx.cancelled()) return Cancelled("drawing classes was cancelled");
      }
      const auto count = [&](int64_t c) { return Expected(draws.Probability(c), num_sampled_, tries); };
      for (int64_t i = 0; i < num_sampled_; ++i) expected->template data<float>()[i] = count(out[i]);
      for (int64_t i = 0; i < known.num_elements(); ++i)
        expected_true->template data<float>()[i] = count(known.template data<int64_t>()[i]);
      return absl::OkStatus();
    });
  }

 private:
  RandomSource source_;
  const int64_t num_true_, num_sampled_;
  const bool unique_;
  Classes classes_;
};

// Every class once: for comparisons of sampled losses with whole ones.
class AllClassesKernel {
 public:
  explicit AllClassesKernel(KernelInit& init)
      : num_true_(init.Attr<int64_t>("num_true")), num_sampled_(init.Attr<int64_t>("num_sampled")) {}
  absl::Status Compute(KernelContext& ctx) {
    const Tensor& known = ctx.input(0);
    TROUPE_RETURN_IF_ERROR(CheckKnown(known, num_true_, num_sampled_));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const all, ctx.AllocateOutput(0, TensorShape({num_sampled_})));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const expected_true, ctx.AllocateOutput(1, known.shape()));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const expected, ctx.AllocateOutput(2, TensorShape({num_sampled_})));
    std::iota(all->data<int64_t>(), all->data<int64_t>() + num_sampled_, int64_t{0});
    std::fill_n(expected_true->data<float>(), known.num_elements(), 1.0f);
    std::fill_n(expected->data<float>(), num_sampled_, 1.0f);
    return absl::OkStatus();
  }

 private:
  const int64_t num_true_, num_sampled_;
};

const OpRegistrar uniform = SamplerOp("UniformCandidateSampler", "of [0, range_max) drawn with equal probabilities");
const OpRegistrar log_uniform = SamplerOp(
    "LogUniformCandidateSampler",
    "of [0, range_max) drawn with probabilities (log(class + 2) - log(class + 1)) / log(range_max + 1), as of "
    "words by frequency");
const OpRegistrar fixed_unigram =
    SamplerOp("FixedUnigramCandidateSampler",
              "of [0, range_max) drawn with probabilities in proportion to weight^distortion, where num_reserved_ids "
              "classes have no weight, and the others those of unigrams, or of the last columns of vocab_file")
        .Attr("vocab_file: string = ''")
        .Attr("distortion: float = 1.0")
        .Attr("num_reserved_ids: int = 0")
        .Attr("num_shards: int >= 1 = 1")
        .Attr("shard: int >= 0 = 0")
        .Attr("unigrams: list(float) = []");
const char* const kLearned =
    "of [0, range_max) drawn with probabilities in proportion to how often they have been true classes of this node, "
    "and once more";
const OpRegistrar learned_unigram = SamplerOp("LearnedUnigramCandidateSampler", kLearned);
const OpRegistrar unsafe_unigram = SamplerOp("ThreadUnsafeUnigramCandidateSampler", kLearned);
const OpRegistrar all_classes = SamplerOp("AllCandidateSampler", "of [0, num_sampled), all of them", /*ranged=*/false);
TROUPE_KERNEL("UniformCandidateSampler").Device("CPU").Class<SamplerKernel<UniformClasses>>();
TROUPE_KERNEL("LogUniformCandidateSampler").Device("CPU").Class<SamplerKernel<LogUniformClasses>>();
TROUPE_KERNEL("FixedUnigramCandidateSampler").Device("CPU").Class<SamplerKernel<FixedUnigramClasses>>();
TROUPE_KERNEL("LearnedUnigramCandidateSampler").Device("CPU").Class<SamplerKernel<LearnedUnigramClasses>>();
TROUPE_KERNEL("ThreadUnsafeUnigramCandidateSampler").Device("CPU").Class<SamplerKernel<LearnedUnigramClasses>>();
TROUPE_KERNEL("AllCandidateSampler").Device("CPU").Class<AllClassesKernel>();

}  // namespace
}  // namespace troupe::random
