#include "kernels/nn/dnnl_conv.h"

#include <algorithm>
#include <dnnl.hpp>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "kernels/common/dnnl_single_thread.h"
#include "troupe/tensor.h"

namespace troupe {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Args = std::unordered_map<int, memory>;

// Plans beyond this many idle ones per node are dropped, the longest unused first. Those of a
// constant filter have none of their own, and may be for some of an image's rows: its first, its
// last, and those between.
constexpr size_t kMaxIdle = 16, kMaxIdleOfConstant = 64;
// Layouts in which a node keeps a constant filter.
constexpr size_t kMaxLayouts = 4;

// How many images to compute at a time. The activations are ours: the library's Relu makes a NaN 0
// and its exponential is not the op Elu's. A pass over outputs that have gone to memory would cost
// a tenth of the convolution, so images are taken as many at a time as divide their number and are
// near afterwards.
int64_t ImagesAtATime(ConvPass pass, const ConvShape& s, const ConvEpilogue<float>& e) {
  if (pass != ConvPass::kForward || !e.HasBehind()) return s.n;
  const int64_t most = std::max<int64_t>(1, kNearConvOutputs / std::max<int64_t>(1, s.oh * s.ow * s.oc));
  if (s.n <= most) return s.n;
  int64_t images = most;
  while (s.n % images != 0) --images;
  return 4 * images >= most ? images : s.n;
}

const dnnl::engine& Engine() {
  static const dnnl::engine* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

memory::desc Desc(memory::dims dims, Tag tag) { return memory::desc(dims, memory::data_type::f32, tag); }

}  // namespace

// What a primitive is made for.
struct DnnlConv::PlanKey {
  ConvShape shape;
  bool bias = false;  // in the forward pass added, in the filter's gradient summed
  PlanKey(ConvPass pass, const ConvShape& s, const ConvEpilogue<float>& e) : shape(s) {
    if (pass == ConvPass::kForward) bias = e.bias != nullptr;
    if (pass == ConvPass::kBackwardFilter) bias = e.bias_gradient != nullptr;
  }
  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};

struct DnnlConv::Plan {
  PlanKey key;
  bool works = false;
  bool has_kept_filter = false;
  std::string implementation;
  dnnl::stream stream;
  const bool constant;
  dnnl::primitive conv, reorder;  // reorder is empty when the library took HWIO as it is
  Args conv_args, reorder_args;
  // Which arguments are the caller's, by pass: a, b and out.
  memory a, b, out, bias;
  // What is needed during a call only: scratch memory, and the library's copy of a filter that is
  // not constant. Each call has one block of the heap for it, which the next node's takes over:
  // kept by each plan, it was a fifth of the memory in which ResNet-50 is trained.
  std::vector<memory> borrowed;
  size_t borrowed_bytes = 0;

  Plan(ConvPass pass, bool constant_filter, const PlanKey& k) : key(k), stream(Engine()), constant(constant_filter) {
    if (WritesBeyond(pass, k.shape)) return;
    try {
      Build(pass);
      works = true;
    } catch (const dnnl::error&) {  // no implementation, or out of memory: the caller has another way
      works = false;
    }
  }

  // Of filters of one pixel with a stride, the library (2.6, jit_1x1) gathers the pixels first. For
  // the filter's gradient and fewer channels than a vector has, it writes beyond what it has
  // gathered them into.
  static bool WritesBeyond(ConvPass pass, const ConvShape& s) {
    constexpr int64_t kWidestVector = 16;
    return pass == ConvPass::kBackwardFilter && s.kh == 1 && s.kw == 1 && (s.stride_h > 1 || s.stride_w > 1) &&
           s.c / s.groups < kWidestVector;
  }

  void Build(ConvPass pass) {
    const ConvShape& s = key.shape;
    const memory::desc x = Desc({s.n, s.c, s.h, s.w}, Tag::nhwc), y = Desc({s.n, s.oc, s.oh, s.ow}, Tag::nhwc);
    const bool grouped = s.groups > 1;
    const memory::dims wd = grouped ? memory::dims{s.groups, s.oc / s.groups, s.c / s.groups, s.kh, s.kw}
                                    : memory::dims{s.oc, s.c, s.kh, s.kw};
    const memory::desc w_any = Desc(wd, Tag::any), w_user = Desc(wd, grouped ? Tag::hwigo : Tag::hwio);
    const memory::dims strides{s.stride_h, s.stride_w}, dilates{s.dilation_h - 1, s.dilation_w - 1};
    const memory::dims before{s.top, s.left}, after{s.bottom, s.right};
    // The library's own scratch memory belongs to the thread that made the primitive; ours comes
    // with the call.
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    // A zero memory descriptor says "without".
    const memory::desc bias_desc = key.bias ? memory::desc({s.oc}, memory::data_type::f32, Tag::x) : memory::desc();
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const auto kind =
        pass == ConvPass::kForward ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training;
    const dnnl::convolution_forward::primitive_desc forward(
        dnnl::convolution_forward::desc(kind, algorithm, x, w_any, bias_desc, y, strides, dilates, before, after), attr,
        Engine());
    auto finish = [&](const auto& pd, auto primitive) {
      conv = primitive;
      implementation = pd.impl_info_str();
      conv_args[DNNL_ARG_SCRATCHPAD] = Borrow(pd.scratchpad_desc());
    };
    switch (pass) {
      case ConvPass::kForward: {
        finish(forward, dnnl::convolution_forward(forward));
        a = conv_args[DNNL_ARG_SRC] = memory(x, Engine(), nullptr);
        out = conv_args[DNNL_ARG_DST] = memory(y, Engine(), nullptr);
        b = UserWeights(w_user, forward.weights_desc(), DNNL_ARG_WEIGHTS, true);
        if (key.bias) bias = conv_args[DNNL_ARG_BIAS] = memory(bias_desc, Engine(), nullptr);
        break;
      }
      case ConvPass::kBackwardInput: {
        const dnnl::convolution_backward_data::primitive_desc pd(
            dnnl::convolution_backward_data::desc(algorithm, x, w_any, y, strides, dilates, before, after), attr,
            Engine(), forward);
        finish(pd, dnnl::convolution_backward_data(pd));
        out = conv_args[DNNL_ARG_DIFF_SRC] = memory(x, Engine(), nullptr);
        b = conv_args[DNNL_ARG_DIFF_DST] = memory(y, Engine(), nullptr);
        a = UserWeights(w_user, pd.weights_desc(), DNNL_ARG_WEIGHTS, true);
        break;
      }
      case ConvPass::kBackwardFilter: {
        const dnnl::convolution_backward_weights::primitive_desc pd(
            dnnl::convolution_backward_weights::desc(algorithm, x, w_any, bias_desc, y, strides, dilates, before,
                                                     after),
            attr, Engine(), forward);
        finish(pd, dnnl::convolution_backward_weights(pd));
        a = conv_args[DNNL_ARG_SRC] = memory(x, Engine(), nullptr);
        b = conv_args[DNNL_ARG_DIFF_DST] = memory(y, Engine(), nullptr);
        out = UserWeights(w_user, pd.diff_weights_desc(), DNNL_ARG_DIFF_WEIGHTS, false);
        if (key.bias) bias = conv_args[DNNL_ARG_DIFF_BIAS] = memory(bias_desc, Engine(), nullptr);
        break;
      }
    }
  }

  // Sets up weights argument `arg` with the library's `desc`, and the reorder from (`in`) or to the
  // user's layout; returns the user's memory.
  memory UserWeights(const memory::desc& user, const memory::desc& desc, int arg, bool in) {
    memory mine(user, Engine(), nullptr);
    if (desc == user) {
      conv_args[arg] = mine;
      return mine;
    }
    const memory theirs = constant && in ? memory(desc, Engine()) : Borrow(desc);
    conv_args[arg] = theirs;
    const memory &from = in ? mine : theirs, &to = in ? theirs : mine;
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc pd(from, to, attr);
    reorder = dnnl::reorder(pd);
    reorder_args = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, Borrow(pd.scratchpad_desc())}};
    return mine;
  }

  // Memory that a call has to lend it (Lend). It comes with whatever was there before: the padding
  // of a filter's channels is zeroed by the reorder that fills it, and by nothing else (2.6.3).
  memory Borrow(const memory::desc& desc) {
    memory m(desc, Engine(), nullptr);
    if (desc.get_size() > 0) {
      borrowed.push_back(m);
      borrowed_bytes += Rounded(desc.get_size());
    }
    return m;
  }
  static size_t Rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }
  // What has to be there until the call ends; invalid when there is no memory for it.
  Tensor Lend() {
    Tensor lent(Allocator::Cpu(), DType::kUint8, TensorShape({static_cast<int64_t>(borrowed_bytes)}));
    if (!lent.valid()) return lent;
    char* at = static_cast<char*>(lent.raw());
    for (memory& m : borrowed) {
      m.set_data_handle(at);
      at += Rounded(m.get_desc().get_size());
    }
    return lent;
  }

  // `weights` says whether the library's copy of the filter has to be made: not when these are more
  // images of a call.
  void Execute(ConvPass pass, const float* a_data, const float* b_data, float* out_data, const ConvEpilogue<float>& e,
               bool weights) {
    // The maps hold other handles of the same memory objects.
    a.set_data_handle(const_cast<float*>(a_data));
    b.set_data_handle(const_cast<float*>(b_data));
    out.set_data_handle(out_data);
    if (key.bias) bias.set_data_handle(pass == ConvPass::kForward ? const_cast<float*>(e.bias) : e.bias_gradient);
    if (pass != ConvPass::kBackwardFilter && weights && reorder) reorder.execute(stream, reorder_args);
    conv.execute(stream, conv_args);
    if (pass == ConvPass::kBackwardFilter && reorder) reorder.execute(stream, reorder_args);
    stream.wait();
    if (pass == ConvPass::kForward)
      FinishForward<float>(e.Behind(), key.shape.n * key.shape.oh * key.shape.ow, key.shape.oc, out_data);
    if (pass == ConvPass::kBackwardInput) FinishBackwardInput(e, key.shape.input_size(), out_data);
  }
};

struct DnnlConv::Idle {
  std::mutex mu;
  std::vector<std::unique_ptr<Plan>> plans;  // the most recently used last
  // The constant filter in the layouts of plans. The library knows few for one size of filter;
  // plans that want more than kMaxLayouts reorder for themselves.
  std::vector<memory> filters;
};

DnnlConv::DnnlConv(ConvPass pass, bool constant_filter)
    : pass_(pass), constant_filter_(constant_filter), idle_(std::make_unique<Idle>()) {}
DnnlConv::~DnnlConv() = default;

std::unique_ptr<DnnlConv::Plan> DnnlConv::Lease(const PlanKey& key) {
  {
    std::lock_guard<std::mutex> lock(idle_->mu);
    for (size_t i = idle_->plans.size(); i-- > 0;) {
      if (!(idle_->plans[i]->key == key)) continue;
      std::unique_ptr<Plan> plan = std::move(idle_->plans[i]);
      idle_->plans.erase(idle_->plans.begin() + i);
      return plan;
    }
  }
  return std::make_unique<Plan>(pass_, constant_filter_, key);
}

void DnnlConv::GiveBack(std::unique_ptr<Plan> plan) {
  std::unique_ptr<Plan> oldest;  // freed outside of the lock
  std::lock_guard<std::mutex> lock(idle_->mu);
  idle_->plans.push_back(std::move(plan));
  if (idle_->plans.size() > (constant_filter_ ? kMaxIdleOfConstant : kMaxIdle)) {
    oldest = std::move(idle_->plans.front());
    idle_->plans.erase(idle_->plans.begin());
  }
}

void DnnlConv::DropIdle() {
  std::vector<std::unique_ptr<Plan>> dropped;  // freed outside of the lock
  std::lock_guard<std::mutex> lock(idle_->mu);
  dropped.swap(idle_->plans);
}

void DnnlConv::UseKeptFilter(Plan* plan, const float* filter, FoldedFilter* folded) {
  memory& theirs = plan->reorder_args.at(DNNL_ARG_TO);
  const auto keep = [&](const memory& kept) {
    plan->conv_args[DNNL_ARG_WEIGHTS] = kept;
    plan->reorder = dnnl::primitive();
    plan->reorder_args.clear();
    plan->has_kept_filter = true;
  };
  const auto find = [&]() -> const memory* {
    for (const memory& kept : idle_->filters) {
      if (kept.get_desc() == theirs.get_desc()) return &kept;
    }
    return nullptr;
  };
  {
    std::lock_guard<std::mutex> lock(idle_->mu);
    if (const memory* kept = find()) return keep(*kept);
    if (idle_->filters.size() == kMaxLayouts) return;
  }
  // Without the lock: two threads may do this at once, and the first one's is kept.
  const Tensor made = folded != nullptr ? folded->Make() : Tensor();
  if (folded != nullptr) filter = made.data<float>();
  plan->reorder_args.at(DNNL_ARG_FROM).set_data_handle(const_cast<float*>(filter));
  plan->reorder.execute(plan->stream, plan->reorder_args);
  plan->stream.wait();
  std::lock_guard<std::mutex> lock(idle_->mu);
  if (const memory* kept = find()) return keep(*kept);
  if (idle_->filters.size() < kMaxLayouts) idle_->filters.push_back(theirs);
  keep(memory(theirs));
}

bool DnnlConv::Run(const ConvShape& shape, const float* a, const float* b, float* out,
                   const ConvEpilogue<float>& epilogue, FoldedFilter* folded) {
  DnnlSingleThread guard;
  ConvShape some = shape;
  some.n = ImagesAtATime(pass_, shape, epilogue);
  std::unique_ptr<Plan> plan = Lease(PlanKey(pass_, some, epilogue));
  bool ok = plan->works;
  if (ok) {
    try {
      const Tensor lent = plan->Lend();
      if (!lent.valid()) throw dnnl::error(dnnl_out_of_memory, "no memory for a convolution's scratch");
      if (constant_filter_ && plan->reorder) UseKeptFilter(plan.get(), pass_ == ConvPass::kForward ? b : a, folded);
      if (folded != nullptr && !plan->has_kept_filter) b = folded->Kept();
      plan->Execute(pass_, a, b, out, epilogue, true);
      for (int64_t n = some.n; n < shape.n; n += some.n)
        plan->Execute(pass_, a + n / some.n * some.input_size(), b, out + n * some.oh * some.ow * some.oc,
                      epilogue.From(n * some.oh * some.ow * some.oc), false);
    } catch (const dnnl::error&) {
      ok = false;
    }
  }
  GiveBack(std::move(plan));
  return ok;
}

std::string DnnlConv::Implementation(const ConvShape& shape) {
  DnnlSingleThread guard;
  std::unique_ptr<Plan> plan = Lease(PlanKey(pass_, shape, {}));
  std::string name = plan->works ? plan->implementation : "";
  GiveBack(std::move(plan));
  return name;
}

}  // namespace troupe
