// The code of docs/guide/running.md.
#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>

#include "tests/docs/pages.h"
#include "troupe/proto/config.pb.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

constexpr char kPage[] = "docs/guide/running.md";

BOOST_AUTO_TEST_CASE(steps_of_many_forms) {
  // [graph]
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = {-1}});
  Variable w(root.WithOpName("w"), 2.0f);
  Variable runs(root.WithOpName("runs"), 0);
  Output y = ops::Mul(root.WithOpName("y"), x, w);
  Output mean = ops::Mean(root.WithOpName("mean"), y);
  Operation count = runs.AssignAdd(root.WithOpName("count"), 1);
  Operation init = GlobalVariablesInitializer(root);

  std::unique_ptr<Session> session = *Session::Create();
  absl::Status s = session->Extend(*root.graph());
  if (s.ok()) s = session->Run({}, {}, {init}, nullptr);
  // [/graph]
  BOOST_REQUIRE_MESSAGE(s.ok(), s);

  const Tensor t = Tensor::Vector<float>({1, 2, 3});
  // [run]
  std::vector<Tensor> out;
  s = session->Run({{x, t}},   // feeds: values for tensors of the graph
                   {y, mean},  // fetches: what comes back, in this order
                   {count},    // targets: what runs, too, but gives nothing back
                   &out);      // out[0] is y, out[1] is mean; null when nothing is fetched
  // [/run]
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(out[0].DebugString() == "float32 [3] [2 4 6]");
  BOOST_TEST(out[1].DebugString() == "float32 [] [4]");

  // [names]
  s = session->Run({{"x", t}}, {"y", "mean:0", w}, {"count"}, &out);
  // [/names]
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(out.size() == 3);

  // [feed_any]
  s = session->Run({{y, Tensor::Vector<float>({10, 20})}}, {mean}, {}, &out);  // x is not needed then
  // [/feed_any]
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(out[0].scalar<float>() == 15);

  // [lists]
  std::vector<std::pair<Output, Tensor>> feeds = {{x, t}};
  std::vector<Output> fetches = {y, mean};
  s = session->Run(feeds, fetches, {}, &out);
  // [/lists]
  BOOST_REQUIRE_MESSAGE(s.ok(), s);

  // [prepare]
  absl::StatusOr<Callable> step = session->Prepare({x}, {mean}, {count});
  for (int i = 0; i < 1000 && step.ok() && s.ok(); ++i) {
    s = step->Run({t}, &out);  // one tensor for each feed of Prepare, in their order
  }
  // [/prepare]
  BOOST_REQUIRE_MESSAGE((step.ok() && s.ok()), s);
  BOOST_TEST(session->Get(runs)->scalar<int32_t>() == 1002);

  // [async]
  auto answer = std::make_shared<std::promise<float>>();
  session->RunAsync({{x, t}}, {mean}, {}, [answer](absl::Status s, std::vector<Tensor> out) {
    answer->set_value(s.ok() ? out[0].scalar<float>() : -1);
  });
  float value = answer->get_future().get();
  // [/async]
  BOOST_TEST(value == 4);

  // [stats]
  RunOptions options;
  options.collect_stats = true;
  proto::RunMetadata metadata;
  s = session->Run(options, {{x, t}}, {mean}, {}, &out, &metadata);
  for (const auto& device : metadata.step_stats().dev_stats()) {
    for (const auto& node : device.node_stats()) {
      std::cout << node.node_name() << " took " << node.op_end_rel_micros() - node.op_start_rel_micros() << " us\n";
    }
  }
  // [/stats]
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_REQUIRE(metadata.step_stats().dev_stats_size() == 1);
  BOOST_TEST(metadata.step_stats().dev_stats(0).node_stats_size() >= 2);
}

BOOST_AUTO_TEST_CASE(steps_that_check_themselves) {
  // [numerics]
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = {-1}});
  Variable w(root.WithOpName("w"), std::vector<float>{1, 2});
  Output next = w.Assign(root.WithOpName("next"), ops::Log(root.WithOpName("log"), x));
  std::unique_ptr<Session> session = *Session::Create();
  absl::Status s = session->Extend(*root.graph());
  if (s.ok()) s = session->Run({}, {}, {w.initializer()}, nullptr);

  RunOptions options;
  options.check_numerics = true;
  options.numerics_folder = "mem://nan";  // mostly a folder on disk
  std::vector<Tensor> out;
  s = session->Run(options, {{x, Tensor::Vector<float>({1, 0})}}, {next}, {}, &out, nullptr);  // w is still {1, 2}
  // [/numerics]
  const auto kept = session->Get(w);
  BOOST_REQUIRE(kept.ok());
  BOOST_TEST((kept->data<float>()[0] == 1 && kept->data<float>()[1] == 2));
  BOOST_TEST(Like(s.ToString() + "\n", BlockOf(kPage, "numerics")), s);
}

BOOST_AUTO_TEST_CASE(partial_runs) {
  // [partial]
  Scope root = Scope::NewRootScope();
  Output a = ops::Placeholder(root, DType::kFloat, {.shape = TensorShape()});
  Output b = ops::Placeholder(root, DType::kFloat, {.shape = TensorShape()});
  Output twice = a * 2, sum = twice + b;
  std::unique_ptr<Session> session = *Session::Create();
  absl::Status s = session->Extend(*root.graph());

  absl::StatusOr<std::string> run = session->PartialRunSetup({a, b}, {twice, sum}, {});
  std::vector<Tensor> out;
  if (run.ok()) s = session->PartialRun(*run, {{a, Tensor::Scalar(3.0f)}}, {twice}, &out);
  float next = s.ok() ? out[0].scalar<float>() + 1 : 0;  // a later feed may depend on an earlier fetch
  if (s.ok()) s = session->PartialRun(*run, {{b, Tensor::Scalar(next)}}, {sum}, &out);
  // [/partial]
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(out[0].scalar<float>() == 13);
}

BOOST_AUTO_TEST_CASE(deadlines_and_tokens) {
  // [deadline]
  Scope root = Scope::NewRootScope();
  Output endless = While(
      root.WithOpName("endless"), 1.0f, [](const Scope& s, const Output& v) { return v > 0; },
      [](const Scope& s, const Output& v) { return v * 1; });
  std::unique_ptr<Session> session = *Session::Create();
  absl::Status s = session->Extend(*root.graph());

  RunOptions options;
  options.timeout_ms = 100;
  std::vector<Tensor> out;
  s = session->Run(options, {}, {endless}, {}, &out, nullptr);  // DEADLINE_EXCEEDED
  // [/deadline]
  BOOST_TEST(absl::IsDeadlineExceeded(s));
  // The report shows one moment of the loop; some of them look otherwise.
  for (int i = 0; i < 10 && !Like(s.ToString() + "\n", BlockOf(kPage, "deadline")); ++i) {
    s = session->Run(options, {}, {endless}, {}, &out, nullptr);
  }
  BOOST_TEST(Like(s.ToString() + "\n", BlockOf(kPage, "deadline")), s);

  // [token]
  CancellationToken token;
  std::thread button([&token] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    token.Cancel();
  });
  RunOptions cancellable;
  cancellable.cancellation = &token;
  s = session->Run(cancellable, {}, {endless}, {}, &out, nullptr);  // CANCELLED
  button.join();
  // [/token]
  BOOST_TEST(absl::IsCancelled(s));
}

BOOST_AUTO_TEST_CASE(errors_have_an_address) {
  // [error]
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = {-1}});
  Output i = ops::Placeholder(root.WithOpName("i"), DType::kInt32, {.shape = TensorShape()});
  Output xi = ops::Gather(root.WithOpName("xi"), x, i);
  std::unique_ptr<Session> session = *Session::Create();
  absl::Status s = session->Extend(*root.graph());

  const Tensor three = Tensor::Vector<float>({1, 2, 3});
  std::vector<Tensor> out;
  std::cerr << session->Run({{x, three}, {i, Tensor::Scalar(7)}}, {xi}, {}, &out) << "\n";
  std::cerr << session->Run({{x, three}}, {xi}, {}, &out) << "\n";
  std::cerr << session->Run({{x, three}, {i, Tensor::Scalar(7.0f)}}, {xi}, {}, &out) << "\n";
  std::cerr << session->Run({}, {"y"}, {}, &out) << "\n";
  // [/error]
  std::ostringstream all;
  all << session->Run({{x, three}, {i, Tensor::Scalar(7)}}, {xi}, {}, &out) << "\n";
  all << session->Run({{x, three}}, {xi}, {}, &out) << "\n";
  all << session->Run({{x, three}, {i, Tensor::Scalar(7.0f)}}, {xi}, {}, &out) << "\n";
  all << session->Run({}, {"y"}, {}, &out) << "\n";
  BOOST_TEST(Like(all.str(), BlockOf(kPage, "errors")), all.str());
}

BOOST_AUTO_TEST_CASE(stalls_are_reported) {
  std::mutex mutex;
  std::string reports;
  // [stall]
  SessionOptions options;
  options.stall_report_ms = 100;
  options.on_stall = [&](const std::string& report) {
    std::lock_guard<std::mutex> lock(mutex);
    reports += report + "\n";
  };
  // [/stall]
  const Scope root = Scope::NewRootScope();
  const Output a = ops::Placeholder(root.WithOpName("a"), DType::kFloat, {.shape = TensorShape()});
  const Output b = ops::Placeholder(root.WithOpName("b"), DType::kFloat, {.shape = TensorShape()});
  const Output sum = ops::Add(root.WithOpName("sum"), a, b);
  std::unique_ptr<Session> session = *Session::Create(options);
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  const std::string run = *session->PartialRunSetup({a, b}, {sum, a}, {});
  std::vector<Tensor> out;
  BOOST_REQUIRE(session->PartialRun(run, {{a, Tensor::Scalar(1.0f)}}, {a}, &out).ok());
  // [steps]
  for (const std::string& line : session->RunningSteps()) std::cerr << line << "\n";
  // [/steps]
  for (int i = 0; i < 100; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::lock_guard<std::mutex> lock(mutex);
    if (!reports.empty()) break;
  }
  std::lock_guard<std::mutex> lock(mutex);
  BOOST_TEST(Like(reports, BlockOf(kPage, "stall")), reports);
}

}  // namespace
}  // namespace troupe
