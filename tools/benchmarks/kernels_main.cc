// Times one matrix product or convolution, through a Session or by bare calls of the libraries, on
// one thread.
//
//   kernels WHAT session|bare
//
//   matmul[_ta|_tb]:MxKxN[xC]           row-major float32, C products of operands of their own in one step (1 when it is left out), the left or right operand
//                                       stored transposed; bare: the faster of a oneDNN primitive made once per product and Eigen, C calls
//   fused:MxKxN[xC]                     with a bias and Relu behind it; bare: a primitive with both as post-ops, and Eigen with a second pass
//   conv:NxHxWxC_KHxKWxO_S              NHWC, HWIO, SAME, stride S; bare: the fastest of oneDNN's primitives with plain layouts, with weights in the layout that
//   conv_input:..., conv_filter:...     the library likes (reordered each call), and with everything in such layouts (reordered each call)
//
// A sample is processor time in seconds, per product where C are run. C products in one step tell
// what a kernel costs, one product what a whole Run of it does. Operands and result are plain
// row-major tensors on both sides. Run the bare side with OMP_NUM_THREADS=1.
#include <Eigen/Core>
#include <cstring>
#include <dnnl.hpp>
#include <map>

#include "tools/benchmarks/serve.h"
#include "troupe/troupe.h"

namespace {

using namespace troupe;         // NOLINT
using namespace troupe::bench;  // NOLINT

struct Shape {
  enum Kind { kMatMul, kConv, kConvInput, kConvFilter } kind;
  int64_t m = 0, k = 0, n = 0, count = 1;  // MatMul
  bool ta = false, tb = false, fused = false;
  int64_t batch = 0, h = 0, w = 0, c = 0, kh = 0, kw = 0, o = 0, stride = 1;  // convolution
  int64_t oh() const { return (h + stride - 1) / stride; }
  int64_t ow() const { return (w + stride - 1) / stride; }
  int64_t pad_h() const { return std::max<int64_t>(0, (oh() - 1) * stride + kh - h); }
  int64_t pad_w() const { return std::max<int64_t>(0, (ow() - 1) * stride + kw - w); }
};

bool Parse(const std::string& text, Shape* s) {
  long long v[8];
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return false;
  const std::string what = text.substr(0, colon);
  if (what == "matmul" || what == "matmul_ta" || what == "matmul_tb" || what == "fused") {
    v[3] = 1;
    if (std::sscanf(text.c_str() + colon + 1, "%lldx%lldx%lldx%lld", v, v + 1, v + 2, v + 3) < 3) return false;
    *s = {.kind = Shape::kMatMul,
          .m = v[0],
          .k = v[1],
          .n = v[2],
          .count = v[3],
          .ta = what == "matmul_ta",
          .tb = what == "matmul_tb",
          .fused = what == "fused"};
    return *std::min_element(v, v + 4) > 0;
  }
  const std::map<std::string, Shape::Kind> kinds = {
      {"conv", Shape::kConv}, {"conv_input", Shape::kConvInput}, {"conv_filter", Shape::kConvFilter}};
  const auto kind = kinds.find(text.substr(0, colon));
  if (kind == kinds.end() || std::sscanf(text.c_str() + colon + 1, "%lldx%lldx%lldx%lld_%lldx%lldx%lld_%lld", v, v + 1,
                                         v + 2, v + 3, v + 4, v + 5, v + 6, v + 7) != 8) {
    return false;
  }
  *s = {.kind = kind->second,
        .batch = v[0],
        .h = v[1],
        .w = v[2],
        .c = v[3],
        .kh = v[4],
        .kw = v[5],
        .o = v[6],
        .stride = v[7]};
  return true;
}

std::vector<float> Numbers(int64_t n) {
  std::vector<float> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i * 7919 % 1001) * 1e-3f - 0.5f;
  return v;
}

void Need(const absl::Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "kernels: %s\n", s.ToString().c_str());
  std::exit(1);
}

int RunSession(const Shape& s) {
  const Scope root = Scope::NewRootScope();
  std::vector<Tensor> feeds;
  Names names;
  const auto feed = [&](const std::string& name, const TensorShape& shape) {
    feeds.push_back(Tensor::Of<float>(Numbers(shape.num_elements()), shape));
    names.push_back(name);
    return ops::Placeholder(root.WithOpName(name), DType::kFloat, {.shape = shape});
  };
  const auto sizes = [](const TensorShape& shape) {
    std::vector<int32_t> dims;
    for (int i = 0; i < shape.rank(); ++i) dims.push_back(static_cast<int32_t>(shape.dim(i)));
    return Tensor::Vector<int32_t>(absl::Span<const int32_t>(dims));
  };
  const TensorShape x({s.batch, s.h, s.w, s.c}), w({s.kh, s.kw, s.c, s.o}), y({s.batch, s.oh(), s.ow(), s.o});
  const std::vector<int64_t> strides = {1, s.stride, s.stride, 1};
  Output z;
  std::vector<Output> products;
  switch (s.kind) {
    case Shape::kMatMul:
      for (int64_t i = 0; i < s.count; ++i) {
        const Output a = feed(StrCat("a", i), s.ta ? TensorShape({s.k, s.m}) : TensorShape({s.m, s.k}));
        const Output b = feed(StrCat("b", i), s.tb ? TensorShape({s.n, s.k}) : TensorShape({s.k, s.n}));
        z = ops::MatMul(root, a, b, {.transpose_a = s.ta, .transpose_b = s.tb});
        if (s.fused) z = ops::Relu(root, ops::BiasAdd(root, z, feed(StrCat("c", i), TensorShape({s.n}))));
        products.push_back(z);
      }
      break;
    case Shape::kConv: {
      const Output a = feed("a", x);
      z = ops::Conv2D(root, a, feed("b", w), strides, "SAME");
      break;
    }
    case Shape::kConvInput: {
      const Output a = feed("a", w);
      z = ops::Conv2DBackpropInput(root, sizes(x), a, feed("b", y), strides, "SAME");
      break;
    }
    case Shape::kConvFilter: {
      const Output a = feed("a", x);
      z = ops::Conv2DBackpropFilter(root, a, sizes(w), feed("b", y), strides, "SAME");
      break;
    }
  }
  Need(root.status());
  SessionOptions options;
  options.runtime_options.threads = 1;
  const std::unique_ptr<Session> session = Session::Create(options).value();
  Need(session->Extend(*root.graph()));
  Names fetches;
  for (const Output& product : products) fetches.push_back(product.name());
  if (products.empty()) fetches.push_back(z.name());
  const Callable step = session->Prepare(names, fetches, {}).value();
  const auto run = [&] {
    std::vector<Tensor> out;
    Need(step.Run(feeds, &out));
  };
  // Until the kernel has chosen its way.
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 4 || (i < 20 && SecondsSince(start) < 1); ++i) run();
  return Serve("{\"best\":\"\"}", [&] { return Sample(0.1, run, CpuSeconds) / static_cast<double>(s.count); });
}

using dnnl::memory;
using Tag = memory::format_tag;

// A oneDNN primitive with the reorders around it that plain operands need.
class Primitive {
 public:
  Primitive() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}
  const dnnl::engine& engine() const { return engine_; }
  // An operand whose plain values are `plain`, and which the primitive wants as `wanted`.
  void In(int arg, const memory::desc& plain, const memory::desc& wanted, const std::vector<float>& values) {
    memory user(plain, engine_);
    std::memcpy(user.get_data_handle(), values.data(), values.size() * sizeof(float));
    memory own = plain == wanted ? user : memory(wanted, engine_);
    if (plain != wanted) before_.push_back({dnnl::reorder(user, own), {{DNNL_ARG_FROM, user}, {DNNL_ARG_TO, own}}});
    arguments_[arg] = own;
  }
  void Out(int arg, const memory::desc& plain, const memory::desc& made) {
    memory own(made, engine_);
    memory user = plain == made ? own : memory(plain, engine_);
    if (plain != made) after_.push_back({dnnl::reorder(own, user), {{DNNL_ARG_FROM, own}, {DNNL_ARG_TO, user}}});
    arguments_[arg] = own;
  }
  void Set(dnnl::primitive p) { primitive_ = std::move(p); }
  void Run() {
    for (auto& [p, a] : before_) p.execute(stream_, a);
    primitive_.execute(stream_, arguments_);
    for (auto& [p, a] : after_) p.execute(stream_, a);
    stream_.wait();
  }

 private:
  using Arguments = std::unordered_map<int, memory>;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  Arguments arguments_;
  std::vector<std::pair<dnnl::primitive, Arguments>> before_, after_;
};

using Ways = std::vector<std::pair<std::string, std::function<void()>>>;

Ways MatMulWays(const Shape& s) {
  Ways ways;
  const memory::desc a({s.m, s.k}, memory::data_type::f32, s.ta ? Tag::ba : Tag::ab),
      b({s.k, s.n}, memory::data_type::f32, s.tb ? Tag::ba : Tag::ab), c({s.m, s.n}, memory::data_type::f32, Tag::ab),
      bias({1, s.n}, memory::data_type::f32, Tag::ab);
  dnnl::primitive_attr attr;
  if (s.fused) {
    dnnl::post_ops post;
    post.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    attr.set_post_ops(post);
  }
  auto primitives = std::make_shared<std::vector<Primitive>>(static_cast<size_t>(s.count));
  for (Primitive& p : *primitives) {
    p.In(DNNL_ARG_SRC, a, a, Numbers(s.m * s.k));
    p.In(DNNL_ARG_WEIGHTS, b, b, Numbers(s.k * s.n));
    if (s.fused) p.In(DNNL_ARG_BIAS, bias, bias, Numbers(s.n));
    p.Out(DNNL_ARG_DST, c, c);
    const dnnl::matmul::desc desc = s.fused ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    p.Set(dnnl::matmul(dnnl::matmul::primitive_desc(desc, attr, p.engine())));
  }
  ways.emplace_back("oneDNN", [primitives] {
    for (Primitive& p : *primitives) p.Run();
  });
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  struct Operands {
    Matrix a, b, bias, c;
  };
  auto all = std::make_shared<std::vector<Operands>>(static_cast<size_t>(s.count));
  const auto matrix = [](int64_t rows, int64_t columns) {
    return Matrix(Eigen::Map<const Matrix>(Numbers(rows * columns).data(), rows, columns));
  };
  for (Operands& o : *all) {
    o = {s.ta ? matrix(s.k, s.m) : matrix(s.m, s.k), s.tb ? matrix(s.n, s.k) : matrix(s.k, s.n), matrix(1, s.n),
         Matrix(s.m, s.n)};
  }
  ways.emplace_back("Eigen", [all, s] {
    for (Operands& o : *all) {
      if (s.ta) {
        o.c.noalias() = o.a.transpose() * o.b;
      } else if (s.tb) {
        o.c.noalias() = o.a * o.b.transpose();
      } else {
        o.c.noalias() = o.a * o.b;
      }
      if (s.fused) o.c = (o.c.rowwise() + o.bias.row(0)).cwiseMax(0.0f);
    }
  });
  return ways;
}

Ways ConvWays(const Shape& s) {
  Ways ways;
  const auto f32 = memory::data_type::f32;
  const memory::dims x = {s.batch, s.c, s.h, s.w}, w = {s.o, s.c, s.kh, s.kw}, y = {s.batch, s.o, s.oh(), s.ow()};
  const memory::dims strides = {s.stride, s.stride}, pad_l = {s.pad_h() / 2, s.pad_w() / 2},
                     pad_r = {s.pad_h() - s.pad_h() / 2, s.pad_w() - s.pad_w() / 2};
  const memory::desc plain_x(x, f32, Tag::nhwc), plain_w(w, f32, Tag::hwio), plain_y(y, f32, Tag::nhwc);
  const auto algorithm = dnnl::algorithm::convolution_direct;
  for (const int way : {0, 1, 2}) {
    const memory::desc dx = way == 2 ? memory::desc(x, f32, Tag::any) : plain_x,
                       dy = way == 2 ? memory::desc(y, f32, Tag::any) : plain_y;
    const memory::desc dw = way == 0 ? plain_w : memory::desc(w, f32, Tag::any);
    auto p = std::make_shared<Primitive>();
    try {
      const dnnl::convolution_forward::primitive_desc forward(
          dnnl::convolution_forward::desc(dnnl::prop_kind::forward_training, algorithm, dx, dw, dy, strides, pad_l,
                                          pad_r),
          p->engine());
      if (s.kind == Shape::kConv) {
        p->In(DNNL_ARG_SRC, plain_x, forward.src_desc(), Numbers(s.batch * s.h * s.w * s.c));
        p->In(DNNL_ARG_WEIGHTS, plain_w, forward.weights_desc(), Numbers(s.kh * s.kw * s.c * s.o));
        p->Out(DNNL_ARG_DST, plain_y, forward.dst_desc());
        p->Set(dnnl::convolution_forward(forward));
      } else if (s.kind == Shape::kConvInput) {
        const dnnl::convolution_backward_data::primitive_desc pd(
            dnnl::convolution_backward_data::desc(algorithm, dx, dw, dy, strides, pad_l, pad_r), p->engine(), forward);
        p->In(DNNL_ARG_WEIGHTS, plain_w, pd.weights_desc(), Numbers(s.kh * s.kw * s.c * s.o));
        p->In(DNNL_ARG_DIFF_DST, plain_y, pd.diff_dst_desc(), Numbers(s.batch * s.oh() * s.ow() * s.o));
        p->Out(DNNL_ARG_DIFF_SRC, plain_x, pd.diff_src_desc());
        p->Set(dnnl::convolution_backward_data(pd));
      } else {
        const dnnl::convolution_backward_weights::primitive_desc pd(
            dnnl::convolution_backward_weights::desc(algorithm, dx, dw, dy, strides, pad_l, pad_r), p->engine(),
            forward);
        p->In(DNNL_ARG_SRC, plain_x, pd.src_desc(), Numbers(s.batch * s.h * s.w * s.c));
        p->In(DNNL_ARG_DIFF_DST, plain_y, pd.diff_dst_desc(), Numbers(s.batch * s.oh() * s.ow() * s.o));
        p->Out(DNNL_ARG_DIFF_WEIGHTS, plain_w, pd.diff_weights_desc());
        p->Set(dnnl::convolution_backward_weights(pd));
      }
    } catch (const dnnl::error&) {
      continue;  // the library has no such way
    }
    const char* names[] = {"plain layouts", "weights reordered", "all reordered"};
    ways.emplace_back(names[way], [p] { p->Run(); });
  }
  return ways;
}

int RunBare(const Shape& s) {
  Ways ways = s.kind == Shape::kMatMul ? MatMulWays(s) : ConvWays(s);
  if (ways.empty()) return std::fprintf(stderr, "kernels: the library has no such convolution\n"), 1;
  size_t best = 0;
  double best_seconds = 1e9;
  for (size_t i = 0; i < ways.size(); ++i) {
    ways[i].second();
    // Slow ways are known after one call.
    const double start = CpuSeconds();
    ways[i].second();
    double seconds = CpuSeconds() - start;
    if (seconds < 4 * best_seconds) seconds = std::min(seconds, Sample(0.1, ways[i].second, CpuSeconds));
    if (seconds < best_seconds) {
      best_seconds = seconds;
      best = i;
    }
  }
  return Serve(StrCat("{\"best\":\"", ways[best].first, "\"}"),
               [&] { return Sample(0.1, ways[best].second, CpuSeconds) / static_cast<double>(s.count); });
}

}  // namespace

int main(int argc, char** argv) {
  Shape s;
  if (argc != 3 || !Parse(argv[1], &s))
    return std::fprintf(
               stderr,
               "usage: kernels matmul[_ta|_tb]|fused:MxKxN[xC]|conv[_input|_filter]:NxHxWxC_KHxKWxO_S session|bare\n"),
           2;
  return std::string(argv[2]) == "bare" ? RunBare(s) : RunSession(s);
}
