// The kernel of the convolution ops: checks and operands (Compute), a plan (Run), and the ways
// of computing that a plan picks from (RunHalves, RunDirect, RunPointwise, RunLibrary, RunGeneric;
// bands of an image's rows by the last three).
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/common/as_float.h"
#include "kernels/nn/conv.h"
#include "kernels/nn/conv_direct.h"
#include "kernels/nn/conv_generic.h"
#include "kernels/nn/conv_pointwise.h"
#include "kernels/nn/layout.h"
#include "kernels/tune/tuning.h"

namespace troupe {
namespace {

// The shape that a 1-D int32 tensor spells.
absl::StatusOr<TensorShape> ShapeFrom(const Tensor& t, const char* what) {
  if (t.rank() != 1 || t.dim(0) != 4) {
    return InvalidArgument(what, " must be a vector of 4 sizes, but it is ", t.DebugString());
  }
  const int32_t* d = t.data<int32_t>();
  return TensorShape::Make({d[0], d[1], d[2], d[3]});
}

// Of the graph: a value that is fed in its place is an argument.
bool HasConstantFilter(const Node& node, ConvPass pass) {
  if (pass == ConvPass::kBackwardFilter || node.num_inputs() < 2) return false;
  const Node* const filter = node.input(1).node;
  return filter != nullptr && filter->IsConstant();
}

}  // namespace

ConvKernel::ConvKernel(KernelInit& init, ConvPass pass, bool depthwise)
    : pass_(pass),
      depthwise_(depthwise),
      dtype_(init.output_type(0)),
      constant_filter_(HasConstantFilter(init.node(), pass)),
      dnnl_(pass, constant_filter_) {
  absl::StatusOr<WindowAttrs> attrs = ReadWindowAttrs(init.node());
  if (attrs.ok()) {
    attrs_ = *attrs;
  } else {
    init.Fail(attrs.status());
  }
}

absl::StatusOr<ConvShape> ConvKernel::Sizes(const TensorShape& input, const TensorShape& filter) const {
  if (input.rank() != 4) return InvalidArgument("input must be 4-dimensional: ", input.DebugString());
  if (filter.rank() != 4) return InvalidArgument("filter must be 4-dimensional: ", filter.DebugString());
  ConvShape s;
  s.n = input.dim(0);
  s.h = input.dim(attrs_.spatial_dim(0));
  s.w = input.dim(attrs_.spatial_dim(1));
  s.c = input.dim(attrs_.channel_dim());
  s.kh = filter.dim(0);
  s.kw = filter.dim(1);
  if (depthwise_) {
    if (filter.dim(2) != s.c) {
      return InvalidArgument("input and filter must have the same depth: ", s.c, " vs ", filter.dim(2), " (input ",
                             input.DebugString(), ", filter ", filter.DebugString(), ")");
    }
    s.groups = std::max<int64_t>(1, s.c);
    s.oc = s.c * filter.dim(3);
  } else {
    s.oc = filter.dim(3);
    if (filter.dim(2) == 0) return InvalidArgument("filter depth must be greater than 0: ", filter.DebugString());
    if (s.c % filter.dim(2) != 0) {
      return InvalidArgument("input depth must be evenly divisible by filter depth: ", s.c, " vs ", filter.dim(2),
                             " (input ", input.DebugString(), ", filter ", filter.DebugString(), ")");
    }
    s.groups = std::max<int64_t>(1, s.c / filter.dim(2));
    if (s.oc % s.groups != 0) {
      return InvalidArgument("output depth must be evenly divisible by number of groups: ", s.oc, " vs ", s.groups);
    }
  }
  TROUPE_ASSIGN_OR_RETURN(WindowExtent y, SlideWindow(attrs_, 0, s.h, s.kh));
  TROUPE_ASSIGN_OR_RETURN(WindowExtent x, SlideWindow(attrs_, 1, s.w, s.kw));
  s.oh = y.out, s.top = y.before, s.bottom = y.after;
  s.ow = x.out, s.left = x.before, s.right = x.after;
  s.stride_h = attrs_.stride[0], s.stride_w = attrs_.stride[1];
  s.dilation_h = attrs_.dilation[0], s.dilation_w = attrs_.dilation[1];
  return s;
}

// Operands and result: a, b and out as ConvPass says, NHWC and HWIO.
template <class T>
struct ConvKernel::Part {
  ConvShape shape;
  const T* a;
  const T* b;
  T* out;
  ConvEpilogue<T> epilogue;
  FoldedFilter* folded = nullptr;  // of the forward pass: in the place of b

  const T* second() const {
    if constexpr (std::is_same_v<T, float>) {
      if (folded != nullptr) return folded->Kept();
    }
    return b;
  }

  // Images [begin, end). A gradient of the filter stays where it is.
  Part Images(ConvPass pass, int64_t begin, int64_t end) const {
    const int64_t in = begin * shape.h * shape.w * shape.c, to = begin * shape.oh * shape.ow * shape.oc;
    Part part = *this;
    part.shape.n = end - begin;
    if (pass != ConvPass::kBackwardInput) part.a += in;
    if (pass != ConvPass::kForward) part.b += to;
    if (pass != ConvPass::kBackwardFilter) part.out += pass == ConvPass::kForward ? to : in;
    if (epilogue.relu_output != nullptr) part.epilogue.relu_output += in;
    if (pass == ConvPass::kForward) part.epilogue = part.epilogue.From(to);
    return part;
  }

  // Rows [begin, limit) of what the pass writes, of one image. REQUIRES: no gradient of the filter.
  Part Rows(ConvPass pass, int64_t begin, int64_t limit) const {
    Part part = *this;
    int64_t first;
    if (pass == ConvPass::kBackwardInput) {
      part.shape = shape.InputRows(begin, limit, &first);
      part.b += first * shape.ow * shape.oc;
      part.out += begin * shape.w * shape.c;
      if (epilogue.relu_output != nullptr) part.epilogue.relu_output += begin * shape.w * shape.c;
      return part;
    }
    part.shape = shape.Rows(begin, limit, &first);
    part.a += first * shape.w * shape.c;
    part.out += begin * shape.ow * shape.oc;
    part.epilogue = part.epilogue.From(begin * shape.ow * shape.oc);
    return part;
  }
};

// The work is split into ranges of units, which are images, groups of images (RunDirect), halves of
// groups (RunHalves) or, with several bands, parts of the rows of an image (RunBands).
template <class T>
struct ConvKernel::Plan {
  void (ConvKernel::*run)(const Part<T>& whole, int64_t begin, int64_t end);
  int64_t units, ranges, bands = 1;
};

template <class T>
ConvKernel::Plan<T> ConvKernel::PlanByRule(int threads, const Part<T>& whole) const {
  if constexpr (std::is_same_v<T, float>) {
    return PlanOf(ConvWayByRule(threads, pass_, whole.shape, whole.epilogue), whole.shape);
  } else {
    const ConvShape& s = whole.shape;
    const int64_t bands = ConvBands(pass_, s, threads), units = s.n * bands;
    return {&ConvKernel::RunGeneric<T>, units, ConvRanges(s, units, threads, sizeof(T) == 8 ? 4 : 1), bands};
  }
}

ConvKernel::Plan<float> ConvKernel::PlanOf(const ConvWay& way, const ConvShape& s) const {
  auto run = &ConvKernel::RunLibrary;
  if (way.loops == ConvLoops::kPointwise) run = &ConvKernel::RunPointwise;
  if (way.loops == ConvLoops::kDirect)
    run = pass_ == ConvPass::kBackwardFilter ? &ConvKernel::RunDirect : &ConvKernel::RunHalves;
  return {run, ConvUnits(pass_, s, way.loops, way.bands), way.ranges, way.bands};
}

// By our own loops, halves of the rows of groups of kConvTogether images: a batch of a hundred has
// 25 groups, which two threads would not share evenly. Not for the gradient of the filter.
void ConvKernel::RunHalves(const Part<float>& whole, int64_t begin, int64_t end) {
  const int64_t rows = pass_ == ConvPass::kForward ? whole.shape.oh : whole.shape.h;
  const auto run = [&](int64_t from, int64_t to, ConvRows some) {  // groups
    const Part<float> p = whole.Images(pass_, from * kConvTogether, std::min(to * kConvTogether, whole.shape.n));
    DirectConv(pass_, p.shape, p.a, p.second(), p.out, p.epilogue.Inside(), some);
    const int64_t row = p.shape.ow * p.shape.oc;
    for (int64_t i = 0; i < p.shape.n && p.epilogue.HasOutside(); ++i) {
      const int64_t at = (i * p.shape.oh + some.begin) * row;
      FinishForward(p.epilogue.Behind().From(at), (some.end - some.begin) * p.shape.ow, p.shape.oc, p.out + at);
    }
  };
  if (begin % 2 != 0) run(begin / 2, begin / 2 + 1, {rows / 2, rows});
  const int64_t full = (begin + 1) / 2;
  if (full < end / 2) run(full, end / 2, {0, rows});
  if (end % 2 != 0) run(end / 2, end / 2 + 1, {0, rows / 2});
}

// By our own loops, groups of kConvTogether images.
void ConvKernel::RunDirect(const Part<float>& whole, int64_t begin, int64_t end) {
  const int64_t first = begin * kConvTogether, limit = std::min(end * kConvTogether, whole.shape.n);
  const Part<float> p = whole.Images(pass_, first, limit);
  if (!DirectConv(pass_, p.shape, p.a, p.second(), p.out, p.epilogue)) RunLibrary(whole, first, limit);
}

void ConvKernel::RunPointwise(const Part<float>& whole, int64_t begin, int64_t end) {
  const Part<float> p = whole.Images(pass_, begin, end);
  PointwiseConv(pass_, p.shape, p.a, p.second(), p.out, p.epilogue.Inside());
  if (p.epilogue.HasOutside())
    FinishForward(p.epilogue.Behind(), p.shape.n * p.shape.oh * p.shape.ow, p.shape.oc, p.out);
}

void ConvKernel::RunLibrary(const Part<float>& whole, int64_t begin, int64_t end) {
  const Part<float> p = whole.Images(pass_, begin, end);
  const int64_t rows = RowsAtATime(p.shape, p.epilogue);
  if (rows == p.shape.oh) {
    if (!dnnl_.Run(p.shape, p.a, p.b, p.out, p.epilogue, p.folded)) RunGeneric<float>(whole, begin, end);
    return;
  }
  for (int64_t image = begin; image < end; ++image) {
    const Part<float> one = whole.Images(pass_, image, image + 1);
    for (int64_t at = 0; at < one.shape.oh; at += rows) {
      const Part<float> some = one.Rows(pass_, at, std::min(at + rows, one.shape.oh));
      if (!dnnl_.Run(some.shape, some.a, some.b, some.out, some.epilogue, some.folded)) RunGeneric<float>(some, 0, 1);
    }
  }
}

// How many rows of an image the library computes at a time, so that what comes behind finds them in
// the cache: all of them, unless an image is too large for that. Other filters than constant ones
// are put into the library's layout each time.
int64_t ConvKernel::RowsAtATime(const ConvShape& s, const ConvEpilogue<float>& e) const {
  constexpr int64_t kFewest = 4;
  if (pass_ != ConvPass::kForward || !constant_filter_ || !e.HasBehind()) return s.oh;
  const int64_t most = kNearConvOutputs / std::max<int64_t>(1, s.ow * s.oc);
  if (most >= s.oh || most < kFewest) return s.oh;
  const int64_t bands = (s.oh + most - 1) / most, rows = (s.oh + bands - 1) / bands;
  for (int64_t at = 0, first; at < s.oh; at += rows) {
    if (s.Rows(at, std::min(at + rows, s.oh), &first).h == 0) return s.oh;
  }
  return rows;
}

// Whole images, and rows of those that others have a part of.
template <class T>
void ConvKernel::RunBands(const Plan<T>& plan, const Part<T>& whole, int64_t begin, int64_t end) {
  for (int64_t next; begin < end; begin = next) {
    const int64_t image = begin / plan.bands, band = begin % plan.bands;
    if (const int64_t full = (end - begin) / plan.bands; band == 0 && full > 0) {
      next = begin + full * plan.bands;
      (this->*plan.run)(whole, image, image + full);
    } else {
      next = std::min(end, (image + 1) * plan.bands);
      Part<T> one = whole.Images(pass_, image, image + 1);
      one.shape = WithBands(one.shape);
      const int64_t rows = one.shape.rows(pass_), first = rows * band / plan.bands,
                    limit = rows * (band + next - begin) / plan.bands;
      (this->*plan.run)(one.Rows(pass_, first, limit), 0, 1);
    }
  }
}

template <class T>
void ConvKernel::RunGeneric(const Part<T>& whole, int64_t begin, int64_t end) {
  const Part<T> p = whole.Images(pass_, begin, end);
  GenericConv<T>(pass_, p.shape, p.a, p.second(), p.out);
  const int64_t pixels = p.shape.n * p.shape.oh * p.shape.ow;
  switch (pass_) {
    case ConvPass::kForward:
      return FinishForward(p.epilogue, pixels, p.shape.oc, p.out);
    case ConvPass::kBackwardInput:
      return FinishBackwardInput(p.epilogue, p.shape.input_size(), p.out);
    case ConvPass::kBackwardFilter:
      return FinishBackwardFilter(p.epilogue, p.b, pixels, p.shape.oc);
  }
}

// The gradients of filter and bias of the ranges are summed in order, so that a result depends on
// the number of threads but on no race.
template <class T>
void ConvKernel::Run(ComputeThreads* threads, const Part<T>& whole) {
  if constexpr (std::is_same_v<T, float>) {
    if (tune::Active()) [[unlikely]]
      return RunTuned(threads, whole);
  }
  RunPlan(threads, whole, PlanByRule(threads->num_threads(), whole));
}

// In the way that was the fastest here, or in one that is being tried.
void ConvKernel::RunTuned(ComputeThreads* threads, const Part<float>& whole) {
  const ConvShape& s = whole.shape;
  const ConvEpilogue<float>& e = whole.epilogue;
  const int count = threads->num_threads();
  const ConvWays ways(count, pass_, s, e);
  tune::Trial trial(ConvKey(count, pass_, s, e, constant_filter_), [&] { return ways.Names(); });
  if (trial.trying()) {
    has_tried_.store(true, std::memory_order_relaxed);
  } else if (has_tried_.load(std::memory_order_relaxed) && has_tried_.exchange(false)) {
    dnnl_.DropIdle();  // what the ways that lost have set up
  }
  RunPlan(threads, whole, PlanOf(ways.way[trial.way()], s));
  trial.Done();
}

template <class T>
void ConvKernel::RunPlan(ComputeThreads* threads, const Part<T>& whole, const Plan<T>& plan) {
  const int64_t filter = whole.shape.filter_size(), channels = whole.shape.oc, sums = filter + channels;
  std::vector<T> partial(pass_ == ConvPass::kBackwardFilter ? (plan.ranges - 1) * sums : 0);
  threads->ParallelRanges(plan.ranges, plan.ranges, [&](int64_t first, int64_t limit) {
    for (int64_t r = first; r < limit; ++r) {
      Part<T> mine = whole;
      if (pass_ == ConvPass::kBackwardFilter && r > 0) {
        mine.out = partial.data() + (r - 1) * sums;
        if (mine.epilogue.bias_gradient != nullptr) mine.epilogue.bias_gradient = mine.out + filter;
      }
      int64_t begin, end;
      ComputeThreads::Range(plan.units, plan.ranges, r, &begin, &end);
      plan.bands > 1 ? RunBands(plan, mine, begin, end) : (this->*plan.run)(mine, begin, end);
    }
  });
  T* const bias_gradient = whole.epilogue.bias_gradient;
  for (size_t p = 0; p < partial.size(); p += sums) {
    for (int64_t i = 0; i < filter; ++i) whole.out[i] += partial[p + i];
    for (int64_t i = 0; i < channels && bias_gradient != nullptr; ++i) bias_gradient[i] += partial[p + filter + i];
  }
}

struct ConvKernel::Problem {
  TensorShape input, filter, output;
  ConvShape sizes;
};

absl::StatusOr<ConvKernel::Problem> ConvKernel::Read(const KernelContext& ctx, const ConvFusion& fusion) const {
  Problem p;
  p.input = ctx.input(0).shape();
  p.filter = ctx.input(1).shape();
  if (pass_ == ConvPass::kBackwardInput) {
    TROUPE_ASSIGN_OR_RETURN(p.input, ShapeFrom(ctx.input(0), "input_sizes"));
  } else if (pass_ == ConvPass::kBackwardFilter) {
    TROUPE_ASSIGN_OR_RETURN(p.filter, ShapeFrom(ctx.input(1), "filter_sizes"));
  }
  TROUPE_ASSIGN_OR_RETURN(p.sizes, Sizes(p.input, p.filter));
  p.output = ImageShape<TensorShape>(attrs_, p.sizes.n, p.sizes.oh, p.sizes.ow, p.sizes.oc);
  TROUPE_RETURN_IF_ERROR(TensorShape::Make(p.output.dims()).status());
  if (pass_ != ConvPass::kForward && !ctx.input(2).HasShape(p.output)) {
    return InvalidArgument("out_backprop has shape ", ctx.input(2).shape().DebugString(), ", but an input of ",
                           p.input.DebugString(), " and a filter of ", p.filter.DebugString(), " give ",
                           p.output.DebugString());
  }
  if (fusion.bias.valid() && !fusion.bias.HasShape(TensorShape({p.sizes.oc}))) {
    return InvalidArgument("bias has shape ", fusion.bias.shape().DebugString(), ", but the convolution has ",
                           p.sizes.oc, " output channels");
  }
  if (fusion.addend.valid() && !fusion.addend.HasShape(p.output)) {
    return InvalidArgument("the addend has shape ", fusion.addend.shape().DebugString(), ", but the convolution ",
                           p.output.DebugString());
  }
  if (fusion.relu_output.valid() && !fusion.relu_output.HasShape(p.input)) {
    return InvalidArgument("the output of Relu has shape ", fusion.relu_output.shape().DebugString(),
                           ", but the input ", p.input.DebugString());
  }
  return p;
}

absl::StatusOr<TensorShape> ConvKernel::OutputShape(const KernelContext& ctx) const {
  TROUPE_ASSIGN_OR_RETURN(Problem problem, Read(ctx, {}));
  return std::move(problem.output);
}

absl::Status ConvKernel::Compute(KernelContext& ctx, const ConvFusion& fusion) {
  TROUPE_ASSIGN_OR_RETURN(const Problem problem, Read(ctx, fusion));
  const ConvShape& s = problem.sizes;
  const TensorShape& out_shape = pass_ == ConvPass::kForward         ? problem.output
                                 : pass_ == ConvPass::kBackwardInput ? problem.input
                                                                     : problem.filter;
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, out_shape));
  Tensor bias_gradient;
  if (fusion.bias_gradient) {
    TROUPE_ASSIGN_OR_RETURN(Tensor * sums, ctx.AllocateOutput(1, TensorShape({s.oc})));
    bias_gradient = *sums;
  }
  const bool small = IsSmallFloat(dtype_);
  if (out->num_elements() == 0 && !bias_gradient.valid()) return absl::OkStatus();
  // Operands with the channels last, in a type that is computed in.
  auto image = [&](const Tensor& t) {
    const Tensor wide = Widened(ctx, t);
    return attrs_.channels_first ? ChannelsLast(ctx, wide) : wide;
  };
  const Tensor a = pass_ == ConvPass::kBackwardInput ? Widened(ctx, ctx.input(1)) : image(ctx.input(0));
  const Tensor b = pass_ == ConvPass::kForward ? Widened(ctx, ctx.input(1)) : image(ctx.input(2));
  const Tensor bias = fusion.bias.valid() ? Widened(ctx, fusion.bias) : Tensor(),
               relu_output = fusion.relu_output.valid() ? image(fusion.relu_output) : Tensor(),
               addend = fusion.addend.valid() ? image(fusion.addend) : Tensor();
  const bool swap = attrs_.channels_first && pass_ != ConvPass::kBackwardFilter;
  Tensor result = *out;
  if (swap || small) {
    TensorShape shape = out_shape;
    if (swap) shape = TensorShape({out_shape.dim(0), out_shape.dim(2), out_shape.dim(3), out_shape.dim(1)});
    TROUPE_ASSIGN_OR_RETURN(result, ctx.AllocateTemp(ComputeType(dtype_), shape));
  }
  if (small && bias_gradient.valid()) {
    TROUPE_ASSIGN_OR_RETURN(bias_gradient, ctx.AllocateTemp(ComputeType(dtype_), TensorShape({s.oc})));
  }
  auto run = [&]<class T>(T) {
    auto data = [](const Tensor& t) {
      return t.valid() && t.num_elements() > 0 ? static_cast<T*>(const_cast<void*>(t.raw())) : nullptr;
    };
    const ConvEpilogue<T> e = {data(bias),          fusion.activation, data(relu_output),
                               data(bias_gradient), fusion.norm,       data(addend)};
    if (s.work() > 0) {
      const tune::AtNode here(ctx.node().name, ctx.node().op);
      return Run<T>(ctx.threads(), {s, data(a), data(b), data(result), e, fusion.filter});
    }
    // No images or no channels: sums of nothing.
    if (result.num_elements() > 0) std::memset(result.raw(), 0, result.bytes());
    if (pass_ == ConvPass::kForward) FinishForward<T>(e, s.n * s.oh * s.ow, s.oc, data(result));
    if (pass_ == ConvPass::kBackwardFilter) FinishBackwardFilter<T>(e, data(b), s.n * s.oh * s.ow, s.oc);
  };
  switch (ComputeType(dtype_)) {
    case DType::kFloat:
      run(float());
      break;
    case DType::kDouble:
      run(double());
      break;
    default:
      run(uint32_t());
  }
  if (swap) result = ChannelsToFront(ctx, result);
  if (swap || small) ctx.set_output(0, Narrowed(ctx, std::move(result), dtype_));
  if (small && bias_gradient.valid()) ctx.set_output(1, Narrowed(ctx, std::move(bias_gradient), dtype_));
  return absl::OkStatus();
}

}  // namespace troupe
