// Products and convolutions while their ways are being tried: each result is within rounding of the
// fixed choice's, and has its bits where that is promised. Files of choices of a whole process.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <thread>

#include <sys/stat.h>

#include "kernels/tune/choice_file.h"
#include "kernels/tune/tuning.h"
#include "tests/common/folder.h"
#include "tests/common/shell.h"
#include "tests/nn/nn_test_util.h"
#include "troupe/files.h"
#include "troupe/strings.h"
#include "troupe/troupe.h"

namespace troupe {
namespace tuning_test {

// The mode of the process for the time of a test.
struct Mode {
  explicit Mode(TuningMode mode) { SetTuning(mode); }
  ~Mode() { SetTuning(TuningMode::kOff); }
};

std::map<std::string, TuningChoice> Choices() {
  std::map<std::string, TuningChoice> all;
  for (TuningChoice& c : TuningChoices()) all[c.problem] = std::move(c);
  return all;
}
// The problems that there are in one list and not in the other.
std::vector<std::string> New(const std::map<std::string, TuningChoice>& before) {
  std::vector<std::string> names;
  for (const auto& [problem, choice] : Choices()) {
    if (!before.contains(problem)) names.push_back(problem);
  }
  return names;
}

// Largest difference in units of the largest value.
double Difference(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = ToDoubles(a), y = ToDoubles(b);
  BOOST_REQUIRE_EQUAL(x.size(), y.size());
  double most = 0, largest = 1e-30;
  for (size_t i = 0; i < x.size(); ++i) {
    most = std::max(most, std::isfinite(x[i] - y[i]) ? std::abs(x[i] - y[i]) : INFINITY);
    largest = std::max(largest, std::abs(y[i]));
  }
  return most / largest;
}

struct Case {
  std::string op;
  std::vector<Tensor> inputs;
  AttrMap attrs;
};

// Values that are not small integers: sums in another order differ.
Tensor Odd(const TensorShape& shape, uint32_t seed) {
  Tensor t = RandomTensor(DType::kFloat, shape, seed);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.data<float>()[i] = t.data<float>()[i] / 3 + 1e-3f * (i % 7);
  return t;
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const auto product = [&](int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
    cases.push_back({"MatMul",
                     {Odd(ta ? TensorShape({k, m}) : TensorShape({m, k}), 1),
                      Odd(tb ? TensorShape({n, k}) : TensorShape({k, n}), 2)},
                     {{"transpose_a", ta}, {"transpose_b", tb}}});
  };
  product(16, 24, 32, false, false);
  product(96, 200, 130, false, false);
  product(130, 96, 61, true, false);
  product(61, 100, 300, false, true);
  product(8, 700, 129, true, true);
  const auto conv = [&](const std::string& op, TensorShape image, TensorShape filter, int64_t stride) {
    const bool depthwise = op.starts_with("Depthwise");
    const int64_t oh = (image.dim(1) + stride - 1) / stride, ow = (image.dim(2) + stride - 1) / stride,
                  oc = filter.dim(3) * (depthwise ? filter.dim(2) : 1);
    const AttrMap attrs = {{"strides", std::vector<int64_t>{1, stride, stride, 1}}, {"padding", "SAME"}};
    const auto sizes = [](const TensorShape& s) {
      Tensor t(DType::kInt32, TensorShape({4}));
      for (int i = 0; i < 4; ++i) t.data<int32_t>()[i] = static_cast<int32_t>(s.dim(i));
      return t;
    };
    const Tensor x = Odd(image, 3), w = Odd(filter, 4), d = Odd(TensorShape({image.dim(0), oh, ow, oc}), 5);
    cases.push_back({op, {x, w}, attrs});
    cases.push_back({op + "BackpropInput", {sizes(image), w, d}, attrs});
    cases.push_back({op + "BackpropFilter", {x, sizes(filter), d}, attrs});
  };
  conv("Conv2D", TensorShape({1, 28, 28, 32}), TensorShape({3, 3, 32, 64}), 1);
  conv("Conv2D", TensorShape({3, 28, 27, 6}), TensorShape({5, 5, 6, 16}), 1);
  conv("Conv2D", TensorShape({2, 20, 20, 48}), TensorShape({1, 1, 48, 40}), 1);
  conv("Conv2D", TensorShape({5, 15, 15, 16}), TensorShape({3, 3, 16, 8}), 2);
  conv("DepthwiseConv2dNative", TensorShape({2, 30, 30, 32}), TensorShape({3, 3, 32, 1}), 1);
  return cases;
}

BOOST_AUTO_TEST_SUITE(tuning)

BOOST_AUTO_TEST_CASE(nothing_is_looked_up_when_off) {
  const Mode off(TuningMode::kOff);
  const auto before = Choices();
  for (const Case& c : Cases()) Run(c.op, c.inputs, c.attrs, 2);
  BOOST_CHECK(New(before).empty());
}

// All ways have been tried in the end, each by a call whose result was right.
BOOST_AUTO_TEST_CASE(each_way_gives_the_result) {
  int ways = 0, problems = 0;
  for (int threads : {1, 2, 3}) {
    for (const Case& c : Cases()) {
      const Tensor want = Run(c.op, c.inputs, c.attrs, threads)[0];
      const Mode all(TuningMode::kAll);
      const auto before = Choices();
      std::vector<std::string> added;
      for (int call = 0; call < 400; ++call) {
        const Tensor got = Run(c.op, c.inputs, c.attrs, threads)[0];
        BOOST_CHECK_LE(Difference(got, want), 1e-5);
        added = New(before);
        if (added.empty()) break;  // another case's problem, or one that is not tried
        if (Choices()[added[0]].chosen >= 0) break;
      }
      BOOST_CHECK_LE(added.size(), 1);
      for (const std::string& problem : added) {
        const TuningChoice choice = Choices()[problem];
        BOOST_TEST_CONTEXT(problem << " by " << choice.ways.size() << " ways") {
          BOOST_CHECK_GE(choice.chosen, 0);
          for (const TuningWay& w : choice.ways)
            BOOST_CHECK(choice.ways.size() == 1 || (w.calls >= 2 && w.calls <= tune::Choice::kMostCalls));
          ways += static_cast<int>(choice.ways.size());
          ++problems;
        }
        // From now on always the same bits.
        const Tensor first = Run(c.op, c.inputs, c.attrs, threads)[0];
        for (int i = 0; i < 3; ++i) BOOST_CHECK(SameBytes(Run(c.op, c.inputs, c.attrs, threads)[0], first));
      }
    }
  }
  BOOST_CHECK_GE(problems, 3 * static_cast<int>(Cases().size()));
  BOOST_CHECK_GT(ways, 2 * problems);
}

// Bias and activation belong to a way, wherever it computes them; a constant may lie in panels, and
// a constant filter in the library's layout.
BOOST_AUTO_TEST_CASE(fused_nodes_and_constants) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat), image = ops::Placeholder(root, DType::kFloat);
  std::vector<Output> all;
  for (const int64_t n : {100, 400}) {
    // Two constants, so that the products are not merged.
    const auto sum = [&](uint32_t seed) {
      const Output product = ops::MatMul(root, x, ops::Const(root, Odd(TensorShape({150, n}), seed)));
      return ops::BiasAdd(root, product, ops::Const(root, Odd(TensorShape({n}), seed + 1)));
    };
    all.push_back(ops::Relu(root, sum(20)));
    all.push_back(ops::Tanh(root, sum(30)));
  }
  for (const int64_t size : {1, 3}) {
    const Output filter = ops::Const(root, Odd(TensorShape({size, size, 16, 24}), 9));
    const Output conv = ops::Conv2D(root, image, filter, {1, 1, 1, 1}, "SAME");
    all.push_back(ops::Relu(root, ops::BiasAdd(root, conv, ops::Const(root, Odd(TensorShape({24}), 10)))));
  }
  BOOST_REQUIRE(root.ok());
  SessionOptions options;
  options.runtime_options.threads = 2;
  auto session = *Session::Create(options);
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  const Tensor rows = Odd(TensorShape({20, 150}), 11), pictures = Odd(TensorShape({2, 30, 30, 16}), 12);
  const auto run = [&] {
    std::vector<Tensor> out;
    const absl::Status s = session->Run({{x, rows}, {image, pictures}}, all, {}, &out);
    BOOST_REQUIRE_MESSAGE(s.ok(), s);
    return out;
  };
  const std::vector<Tensor> want = run();
  const auto before = Choices();
  {
    const Mode on(TuningMode::kAll);
    for (int step = 0; step < 150; ++step) {
      const std::vector<Tensor> got = run();
      for (size_t i = 0; i < got.size(); ++i) BOOST_CHECK_LE(Difference(got[i], want[i]), 1e-5);
    }
  }
  BOOST_CHECK_GE(New(before).size(), 4);
  int with_bias = 0;
  for (const std::string& problem : New(before)) {
    const TuningChoice choice = Choices()[problem];
    for (const TuningWay& w : choice.ways) BOOST_CHECK(choice.ways.size() == 1 || w.calls >= 2);
    with_bias += problem.find(",bias=1,") != std::string::npos;
  }
  BOOST_CHECK_GE(with_bias, 3);
  // Without tuning all is as before.
  const std::vector<Tensor> again = run();
  for (size_t i = 0; i < again.size(); ++i) BOOST_CHECK(SameBytes(again[i], want[i]));
}

// What competes with the fixed choice there has its bits, in each call of the trials.
BOOST_AUTO_TEST_CASE(ways_of_the_same_bits) {
  std::vector<Case> cases = Cases();
  int tried = 0;
  for (int threads : {1, 2, 4}) {
    for (const Case& c : cases) {
      const Tensor want = Run(c.op, c.inputs, c.attrs, threads)[0];
      const Mode same(TuningMode::kSameBits);
      for (int call = 0; call < 40; ++call) {
        BOOST_CHECK_MESSAGE(SameBytes(Run(c.op, c.inputs, c.attrs, threads)[0], want),
                            c.op << " " << c.inputs[0].shape().DebugString() << " on " << threads << " threads");
      }
    }
  }
  const Mode same(TuningMode::kSameBits);
  for (const auto& [problem, choice] : Choices()) {
    if (choice.chosen < 0) continue;
    BOOST_CHECK_MESSAGE(choice.chosen == 0 || choice.ways[choice.chosen].same_bits, problem);
    for (const TuningWay& w : choice.ways) tried += w.same_bits && w.calls > 0;
  }
  BOOST_CHECK_GT(tried, 10);
}

// The header says how far the ways of a convolution agree where the filter, or the gradient of the
// output, is not finite: within the image.
BOOST_AUTO_TEST_CASE(what_is_not_finite_differs_at_the_border_only) {
  const auto sizes = [](int a, int b, int c, int d) {
    Tensor t(DType::kInt32, TensorShape({4}));
    int* const to = t.data<int32_t>();
    to[0] = a, to[1] = b, to[2] = c, to[3] = d;
    return t;
  };
  const Tensor x = Odd(TensorShape({4, 9, 9, 3}), 40);
  Tensor f = Odd(TensorShape({3, 3, 3, 4}), 41), d = Odd(TensorShape({4, 9, 9, 4}), 42);
  f.data<float>()[0] = INFINITY;  // the first tap of the first channels
  const AttrMap attrs = {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}};
  const std::pair<Case, int64_t> kCases[] = {{{"Conv2D", {x, f}, attrs}, 4},
                                             {{"Conv2DBackpropInput", {sizes(4, 9, 9, 3), f, d}, attrs}, 3}};
  for (const auto& [c, channels] : kCases) {
    const Tensor want = Run(c.op, c.inputs, c.attrs, 1)[0];
    const Mode all(TuningMode::kAll);
    for (int call = 0; call < 60; ++call) {
      const Tensor got = Run(c.op, c.inputs, c.attrs, 1)[0];
      int wrong = 0;
      for (int64_t i = 0; i < got.num_elements(); ++i) {
        const int64_t column = i / channels % 9, row = i / channels / 9 % 9;
        if (row == 0 || row == 8 || column == 0 || column == 8) continue;
        const float a = got.data<float>()[i], b = want.data<float>()[i];
        wrong += std::isfinite(b) ? !(std::abs(a - b) <= 1e-4f * (1 + std::abs(b)))
                                  : !(a == b || (std::isnan(a) && std::isnan(b)));
      }
      BOOST_CHECK_EQUAL(wrong, 0);
    }
  }
}

// A problem of its own, whose ways sleep.
constexpr const char* kNumbers[] = {"id"};
constexpr tune::Problem kProblem = {"of_this_test", kNumbers};

int Call(int64_t id, TuningMode mode) {
  SetTuning(mode);
  tune::Trial trial(tune::Key(&kProblem, {id}), [] { return std::vector<tune::Way>{{"slow", true}, {"fast", false}}; });
  if (trial.trying() && trial.way() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  trial.Done();
  SetTuning(TuningMode::kOff);
  return trial.way();
}

BOOST_AUTO_TEST_CASE(a_trial_measures) {
  std::vector<int> taken;
  for (int i = 0; i < 8; ++i) taken.push_back(Call(1, TuningMode::kAll));
  BOOST_CHECK((taken == std::vector<int>{0, 1, 0, 1, 1, 1, 1, 1}));
  BOOST_CHECK_EQUAL(Call(1, TuningMode::kFixed), 0);
  BOOST_CHECK_EQUAL(Call(1, TuningMode::kOff), 0);
}

BOOST_AUTO_TEST_CASE(a_call_that_throws_does_not_count) {
  SetTuning(TuningMode::kAll);
  try {
    tune::Trial trial(tune::Key(&kProblem, {2}), [] { return std::vector<tune::Way>{{"a", true}, {"b", true}}; });
    throw 1;
  } catch (int) {
  }
  BOOST_CHECK_EQUAL(Choices()["of_this_test(id=2)"].ways[0].calls, 0);
  SetTuning(TuningMode::kOff);
}

BOOST_AUTO_TEST_CASE(nodes_are_noted_on_request) {
  const Mode all(TuningMode::kAll);
  const Tensor a = Odd(TensorShape({9, 70}), 1), b = Odd(TensorShape({70, 90}), 2);
  const auto before = Choices();
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat), y = ops::Placeholder(root, DType::kFloat);
  const Output product = ops::MatMul(root.WithOpName("the_product"), x, y);
  auto session = *Session::Create();
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  std::vector<Tensor> out;
  BOOST_REQUIRE(session->Run({{x, a}, {y, b}}, {product}, {}, &out).ok());
  BOOST_REQUIRE_EQUAL(New(before).size(), 1);
  const std::string problem = New(before)[0];
  BOOST_CHECK(Choices()[problem].nodes.empty());
  NoteTuningNodes(true);
  BOOST_REQUIRE(session->Run({{x, a}, {y, b}}, {product}, {}, &out).ok());
  NoteTuningNodes(false);
  BOOST_CHECK((Choices()[problem].nodes == std::vector<std::string>{"the_product (MatMul)"}));
}

BOOST_AUTO_TEST_CASE(a_file_keeps_choices_and_what_others_wrote) {
  const std::string path = "mem://tuning_choices";
  BOOST_CHECK(LoadTuning(path).code() == absl::StatusCode::kNotFound);
  const tune::SavedChoices others = {{"of_this_test(id=10)", {"fast", {{"fast", 1.0}, {"slow", 2.0}}}},
                                     {"unheard_of(n=1)", {"own", {{"own", 1.0}}}}};
  BOOST_REQUIRE(files::Write(path, tune::ToText(tune::ThisMachine(), others)).ok());
  for (int i = 0; i < 20; ++i) Call(11, TuningMode::kAll);
  BOOST_REQUIRE(SaveTuning(path).ok());
  const auto text = files::Read(path);
  BOOST_REQUIRE(text.ok());
  const auto all = tune::FromText(tune::ThisMachine(), *text);
  BOOST_REQUIRE_MESSAGE(all.ok(), all.status());
  BOOST_CHECK(all->contains("unheard_of(n=1)") && all->contains("of_this_test(id=10)"));
  BOOST_REQUIRE(all->contains("of_this_test(id=11)"));
  BOOST_CHECK_EQUAL(all->at("of_this_test(id=11)").way, "fast");
  // A problem that comes later is not tried.
  BOOST_CHECK_EQUAL(Call(10, TuningMode::kFixed), 0);
  BOOST_REQUIRE(LoadTuning(path).ok());
  BOOST_CHECK_EQUAL(Call(10, TuningMode::kFixed), 1);
  BOOST_CHECK_EQUAL(Call(10, TuningMode::kAll), 1);
}

// In a process of its own, which has not asked the environment yet.
BOOST_AUTO_TEST_CASE(what_is_loaded_first_of_all_holds_against_the_file_of_the_environment) {
  constexpr char kMine[] = "TROUPE_TEST_OF_LOADING";
  if (const char* const mine = std::getenv(kMine)) {
    const absl::Status s = LoadTuning(mine);
    BOOST_REQUIRE_MESSAGE(s.ok(), s);
    SetTuning(TuningMode::kFixed);
    BOOST_CHECK_EQUAL(Call(30, TuningMode::kFixed), 1);
    return;
  }
  const testing::Folder folder;
  for (const char* const way : {"slow", "fast"}) {
    const tune::SavedChoices choices = {{"of_this_test(id=30)", {way, {{way, 1.0}}}}};
    BOOST_REQUIRE(files::Write(StrCat(folder.path(), "/", way), tune::ToText(tune::ThisMachine(), choices)).ok());
  }
  const auto run = [&](const char* mine) {
    return testing::RunShell(StrCat("TROUPE_TUNE_CACHE=", folder.path(), "/slow ", kMine, "=", folder.path(), "/", mine,
                                    " ", std::filesystem::read_symlink("/proc/self/exe").string(),
                                    " --run_test=tuning/what_is_loaded_first_of_all_holds_against_the_file_of_the_"
                                    "environment 2>&1"));
  };
  const testing::ShellResult fast = run("fast"), slow = run("slow");
  BOOST_CHECK_MESSAGE(fast.code == 0, fast.out);
  BOOST_CHECK_MESSAGE(slow.code != 0 && slow.code != -1, slow.out);
}

BOOST_AUTO_TEST_CASE(a_damaged_file_stays_as_it_is) {
  const std::string path = "mem://tuning_damaged";
  tune::Machine other = tune::ThisMachine();
  other.processor += " II";
  for (const auto& [text, code] :
       {std::pair{tune::ToText(tune::ThisMachine(), {}) + "x\n", absl::StatusCode::kInvalidArgument},
        std::pair{tune::ToText(other, {}), absl::StatusCode::kFailedPrecondition}}) {
    BOOST_REQUIRE(files::Write(path, text).ok());
    for (const absl::Status& s : {LoadTuning(path), SaveTuning(path)}) {
      BOOST_CHECK(s.code() == code);
      BOOST_CHECK_MESSAGE(std::string(s.message()).starts_with(path + ": "), s);
    }
    BOOST_CHECK(*files::Read(path) == text);
  }
}

// To read a pipe would wait for who writes it, and some devices have no end.
BOOST_AUTO_TEST_CASE(a_pipe_or_a_device_is_no_file) {
  const testing::Folder folder;
  const std::string pipe = folder.path() + "/pipe";
  BOOST_REQUIRE_EQUAL(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero"), std::string("/dev/full"), folder.path()}) {
    for (const absl::Status& s : {LoadTuning(path), SaveTuning(path)}) {
      BOOST_CHECK_MESSAGE(absl::IsFailedPrecondition(s), s);
      BOOST_CHECK_MESSAGE(s.message().find(path) != std::string::npos, s);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_link_stays_and_its_target_is_written) {
  namespace fs = std::filesystem;
  const testing::Folder folder;
  const fs::path target = fs::path(folder.path()) / "target", inner = fs::path(folder.path()) / "inner",
                 link = fs::path(folder.path()) / "link";
  fs::create_symlink("target", inner);
  fs::create_symlink(inner, link);
  // First where nothing is behind the link, then in place of a file.
  for (int times = 0; times < 2; ++times) {
    const absl::Status s = SaveTuning(times == 0 ? link.string() : "file://" + link.string());
    BOOST_REQUIRE_MESSAGE(s.ok(), s);
    BOOST_CHECK(fs::is_symlink(link) && fs::is_symlink(inner));
    BOOST_REQUIRE(fs::is_regular_file(fs::symlink_status(target)));
    BOOST_CHECK(LoadTuning(target.string()).ok());
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_mode_changes_nothing) {
  const Mode fixed(TuningMode::kFixed);
  for (const int number : {-1, 4, 77}) {
    SetTuning(static_cast<TuningMode>(number));
    BOOST_CHECK(CurrentTuning() == TuningMode::kFixed);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tuning_test
}  // namespace troupe
