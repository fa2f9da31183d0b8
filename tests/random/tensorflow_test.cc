// Numbers against TensorFlow's: streams/random.txt. Each line takes the next stretch of the stream
// of its node, whose lines are in the order of its runs.
#include <boost/test/unit_test.hpp>
#include <map>
#include <sstream>

#include "kernels/run_kernel.h"
#include "tests/cases/case_file.h"

namespace troupe {
namespace tensorflow_test {

uint64_t Hash(const Tensor& t) {
  uint64_t h = 0xcbf29ce484222325;
  const auto* bytes = static_cast<const uint8_t*>(t.raw());
  for (size_t i = 0; i < t.bytes(); ++i) h = (h ^ bytes[i]) * 0x100000001b3;
  return h;
}

double Element(const Tensor& t, int64_t i) {
  return VisitNumeric(t.dtype(), 0.0, [&]<class T>() -> double {
    if constexpr (std::is_convertible_v<T, double>) {
      return static_cast<double>(t.data<T>()[i]);
    } else {
      return 0;
    }
  });
}

struct Line {
  std::string op, type, elements;
  int64_t seed, seed2, size;
  uint64_t hash;
};

std::vector<Line> ReadLines() {
  std::vector<Line> lines;
  for (const test::CaseLine& line : test::ReadLines("streams")) {
    std::istringstream s(line.text);
    Line l;
    s >> l.op >> l.type >> l.seed >> l.seed2 >> l.size >> std::hex >> l.hash >> std::dec;
    std::getline(s, l.elements);
    lines.push_back(l);
  }
  return lines;
}

// A node with its kernel, on a device with `threads` threads.
class Stream {
 public:
  Stream(const Line& line, int threads) : line_(line), dtype_(DTypeFromName(line.type)) {
    static int session = 0;
    const bool stateless = line.op.rfind("Stateless", 0) == 0;
    const bool integers = line.op.find("UniformInt") != std::string::npos;
    const bool classes = line.op.find("Multinomial") != std::string::npos;
    AttrMap attrs;
    if (line.op != "RandomShuffle") attrs.Set("T", classes ? DType::kFloat : DType::kInt32);
    if (line.op == "RandomShuffle") attrs.Set("T", dtype_);
    if (!stateless) {
      attrs.Set("seed", line.seed);
      attrs.Set("seed2", line.seed2);
    }
    if (classes) {
      attrs.Set("output_dtype", dtype_);
    } else if (line.op != "RandomShuffle") {
      attrs.Set(integers && !stateless ? "Tout" : "dtype", dtype_);
    }
    node_ = *graph_.AddNode("stream", line.op, attrs);
    Device* const device = EvaluationDevice(threads);
    absl::StatusOr<PreparedKernel> kernel = PrepareKernel(*node_, device, "random test " + std::to_string(session++));
    BOOST_REQUIRE_MESSAGE(kernel.ok(), kernel.status().ToString());
    kernel_ = *kernel;
    described_ = DescribeNode(*node_, device);
  }
  Tensor Next(int64_t size) {
    const Tensor shape = Tensor::Vector<int32_t>({static_cast<int32_t>(size)}),
                 seed = Tensor::Vector<int64_t>({line_.seed, line_.seed2});
    const bool stateless = line_.op.rfind("Stateless", 0) == 0;
    std::vector<Tensor> inputs;
    if (line_.op == "RandomShuffle") {
      inputs = {dtype_ == DType::kInt32 ? Range<int32_t>(size, {size}) : Range<int64_t>(size * 3, {size, 3})};
    } else if (line_.op.find("Multinomial") != std::string::npos) {
      inputs = {Tensor::Of<float>({0.5, -1, 2, 0, -std::numeric_limits<float>::infinity(), 1}, {1, 6}),
                Tensor::Scalar<int32_t>(static_cast<int32_t>(size))};
      if (stateless) inputs.push_back(seed);
    } else {
      inputs = {shape};
      if (stateless) inputs.push_back(seed);
      if (line_.op.find("UniformInt") != std::string::npos) {
        const bool wide = dtype_ == DType::kInt64;
        inputs.push_back(wide ? Tensor::Scalar<int64_t>(-(int64_t{1} << 40)) : Tensor::Scalar<int32_t>(-5));
        inputs.push_back(wide ? Tensor::Scalar<int64_t>(int64_t{1} << 50) : Tensor::Scalar<int32_t>(17));
      }
    }
    StepContext step;
    auto out = EvaluateKernel(kernel_, described_, std::move(inputs), &step);
    BOOST_REQUIRE_MESSAGE(out.ok(), out.status().ToString());
    return (*out)[0];
  }

 private:
  template <class T>
  static Tensor Range(int64_t n, const TensorShape& shape) {
    Tensor t(kDTypeOf<T>, shape);
    for (int64_t i = 0; i < n; ++i) t.data<T>()[i] = static_cast<T>(i);
    return t;
  }
  const Line line_;
  const DType dtype_;
  Graph graph_;
  Node* node_;
  PreparedKernel kernel_;
  KernelNode described_;
};

BOOST_AUTO_TEST_SUITE(tensorflow)

BOOST_AUTO_TEST_CASE(every_op_and_type) {
  const std::vector<Line> lines = ReadLines();
  BOOST_TEST(lines.size() == 290u);
  std::map<std::string, std::pair<std::unique_ptr<Stream>, std::unique_ptr<Stream>>> streams;
  int inexact = 0;
  for (const Line& line : lines) {
    auto& [one, many] = streams[StrCat(line.op, " ", line.type, " ", line.seed, " ", line.seed2)];
    if (one == nullptr) {
      one = std::make_unique<Stream>(line, 1);
      many = std::make_unique<Stream>(line, 4);
    }
    const std::string what = StrCat(line.op, " ", line.type, " of size ", line.size);
    const Tensor t = one->Next(line.size);
    BOOST_TEST(Hash(many->Next(line.size)) == Hash(t), what << ": four threads give other numbers than one");
    // The normal distributions go through the C library's log, sin and cos, whose last bit may
    // differ between versions.
    const bool normal = line.op.find("Normal") != std::string::npos;
    if (!normal) BOOST_TEST(Hash(t) == line.hash, what);
    inexact += Hash(t) != line.hash;
    const double tolerance = !normal                 ? 0
                             : line.type == "double" ? 1e-14
                             : line.type == "float"  ? 2e-6
                             : line.type == "half"   ? 2e-3
                                                     : 1e-2;
    std::istringstream elements(line.elements);
    for (std::string element; elements >> element;) {
      const size_t colon = element.find(':');
      const double want = std::stod(element.substr(colon + 1)), got = Element(t, std::stoll(element));
      BOOST_TEST(std::abs(got - want) <= tolerance * std::max(1.0, std::abs(want)),
                 what << ": " << element << " is " << got);
    }
  }
  BOOST_TEST_MESSAGE(inexact << " of " << lines.size() << " tensors differ in some bit");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tensorflow_test
}  // namespace troupe
