// A data set as the input of a monitored session: whoever goes on from a checkpoint goes on with
// the element that followed.
#include "troupe/train/dataset_hook.h"

#include <boost/test/unit_test.hpp>
#include <numeric>

#include "tests/common/check_ok.h"
#include "troupe/train/global_step.h"
#include "troupe/train/monitored_session.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

using namespace train;  // NOLINT

Dataset Numbers() { return Dataset::Range(0, 40).Shuffle(7, 5).Batch(2).Prefetch(2); }
std::vector<int64_t> InOrder() {
  std::vector<int64_t> all;
  auto it = *Numbers().Iterate();
  for (Element e; *it->Next(&e);) all.insert(all.end(), e[0].data<int64_t>(), e[0].data<int64_t>() + 2);
  return all;
}

// A run of a program, which sums what it is fed.
struct Program {
  explicit Program(const std::string& folder, Dataset data = Numbers()) {
    options.checkpoint_folder = folder;
    options.save_checkpoint = {.steps = 3};
    options.hooks = {std::make_shared<DatasetHook>(std::move(data), NameList{x})};
    global = GetOrCreateGlobalStep(root);
    const Output add = sum.AssignAdd(root, ops::Sum(root, x, 0));
    update = Operation(global.AssignAdd(root.WithControlDependencies(add), int64_t{1}));
  }
  absl::Status Start() {
    auto made = MonitoredTrainingSession(root, options);
    if (made.ok()) session = *std::move(made);
    return made.status();
  }
  // What the next step is fed.
  absl::Status Step(std::vector<int64_t>* fed) {
    std::vector<Tensor> out;
    const absl::Status s = session->Run({}, {x}, {update}, &out);
    if (s.ok()) fed->insert(fed->end(), out[0].data<int64_t>(), out[0].data<int64_t>() + out[0].num_elements());
    return s;
  }
  int64_t Sum() { return session->session()->Get(sum)->scalar<int64_t>(); }
  int64_t Steps() { return session->session()->Get(global)->scalar<int64_t>(); }

  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kInt64, {.shape = {-1}});
  Variable sum{root.WithOpName("sum"), int64_t{0}}, global;
  Operation update;
  MonitoredTrainingOptions options;
  std::unique_ptr<MonitoredSession> session;
};

BOOST_AUTO_TEST_CASE(a_run_that_was_killed_goes_on_with_the_element_that_followed) {
  const std::vector<int64_t> all = InOrder();
  BOOST_REQUIRE(all.size() == 40u);
  for (const bool saves_at_its_end : {false, true}) {
    const std::string folder = StrCat("mem://dataset_hook/killed", saves_at_its_end);
    std::vector<int64_t> first, second;
    {
      Program p(folder);
      REQUIRE_OK(p.Start());
      for (int i = 0; i < 5; ++i) REQUIRE_OK(p.Step(&first));
      if (saves_at_its_end) REQUIRE_OK(p.session->Close());
    }
    BOOST_TEST(first == std::vector<int64_t>(all.begin(), all.begin() + 10), boost::test_tools::per_element());
    Program p(folder);
    REQUIRE_OK(p.Start());
    const int64_t done = p.Steps();
    BOOST_TEST(done == (saves_at_its_end ? 5 : 3));
    absl::Status s;
    while ((s = p.Step(&second)).ok()) {
    }
    BOOST_TEST(absl::IsOutOfRange(s), s);
    BOOST_TEST(second == std::vector<int64_t>(all.begin() + 2 * done, all.end()), boost::test_tools::per_element());
    BOOST_TEST(p.Sum() == std::accumulate(all.begin(), all.end(), int64_t{0}));
  }
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_an_error) {
  const std::string folder = "mem://dataset_hook/other";
  std::vector<int64_t> fed;
  {
    Program p(folder);
    REQUIRE_OK(p.Start());
    REQUIRE_OK(p.Step(&fed));
    REQUIRE_OK(p.session->Close());
  }
  Program other(folder, Dataset::Range(0, 3).Repeat());
  const absl::Status s = other.Start();
  BOOST_TEST(absl::IsInvalidArgument(s), s);
  BOOST_TEST(s.ToString().find("the data set of 'input'") != std::string::npos, s);
  Program pairs("mem://dataset_hook/pairs", Dataset::Zip({Numbers(), Numbers()}));
  REQUIRE_OK(pairs.Start());
  const absl::Status two = pairs.Step(&fed);
  BOOST_TEST(absl::IsInvalidArgument(two), two);
  BOOST_TEST(two.ToString().find("has 2 tensors, which are to be fed to 1 names") != std::string::npos, two);
}

}  // namespace
}  // namespace troupe
