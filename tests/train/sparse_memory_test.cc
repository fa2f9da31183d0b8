// A step that reads some rows of a large table makes no tensor of the table's size: neither a
// gradient nor a copy. The process's allocator is watched during the step.
#include <algorithm>
#include <memory>

#include "tests/train/run.h"
#include "troupe/buffer.h"
#include "troupe/control_flow.h"
#include "troupe/train/adadelta.h"
#include "troupe/train/adagrad.h"
#include "troupe/train/adam.h"
#include "troupe/train/clip.h"
#include "troupe/train/ftrl.h"
#include "troupe/train/gradient_descent.h"
#include "troupe/train/momentum.h"
#include "troupe/train/proximal.h"
#include "troupe/train/rms_prop.h"

namespace troupe::testing {
namespace sparse_memory_test {

constexpr int64_t kRows = 1000000, kWidth = 16, kRead = 32;
constexpr int64_t kTableBytes = kRows * kWidth * static_cast<int64_t>(sizeof(float));

enum class Reads { kByHandle, kValue, kInBranch, kInLoop };

// What a step takes at its peak beyond what was in use before it.
int64_t PeakOfStep(train::Optimizer& optimizer, bool resource, Reads reads = Reads::kByHandle, bool clipped = false) {
  const Scope s = Scope::NewRootScope();
  VariableOptions options;
  options.use_resource = resource;
  const Output shape = Const(s, {static_cast<int32_t>(kRows), static_cast<int32_t>(kWidth)});
  const Variable table(s.WithOpName("table"), Build(s, "Fill", {shape, Const(s, 0.5f)}), options);
  const Output ids = Build(s.WithOpName("ids"), "Placeholder", {},
                           {{"dtype", DType::kInt32}, {"shape", PartialTensorShape(TensorShape({kRead}))}});
  const auto look = [&](const Scope& b) {
    const Output rows = reads != Reads::kByHandle ? Build(b, "GatherV2", {table, ids, 0})
                        : resource ? Build(b, "ResourceGather", {table.handle(), ids}, {{"dtype", DType::kFloat}})
                                   : Build(b, "Gather", {table.handle(), ids});
    return Build(b, "Sum", {rows * rows, Const(b, {0, 1})});
  };
  Output loss;
  if (reads == Reads::kInBranch) {
    const Output yes = Build(s, "Greater", {Build(s, "Size", {ids}), 3});
    loss = Cond(s, yes, look, [&](const Scope& b) { return Build(b, "Identity", {Const(b, 1.0f)}); });
  } else if (reads == Reads::kInLoop) {
    loss = While(
        s, {0, 0.0f}, [&](const Scope&, const OutputList& v) { return v[0] < 3; },
        [&](const Scope& b, const OutputList& v) -> OutputList {
          return {v[0] + 1, v[1] + look(b)};
        })[1];
  } else {
    loss = look(s);
  }
  std::vector<train::GradAndVar> grads = optimizer.ComputeGradients(s, loss, {table});
  if (clipped) grads = train::ClipByGlobalNorm(s, grads, 0.5);
  const Operation step = optimizer.ApplyGradients(s, grads);
  const auto session = Start(s);
  Tensor some(DType::kInt32, {kRead});
  for (int64_t i = 0; i < kRead; ++i) some.data<int32_t>()[i] = static_cast<int32_t>(i % 7 * 31 + 1000 * i);
  const Feeds feeds = {{"ids", some}};
  Fetch(*session, {}, feeds, {step.name()});
  int64_t most = 0;
  // What a costly node waits for has gone by then: so also when all are known to be cheap.
  for (int i = 0; i < 40; ++i) {
    const int64_t before = Allocator::Cpu()->stats().bytes_in_use;
    Allocator::Cpu()->ResetPeak();
    Fetch(*session, {}, feeds, {step.name()});
    most = std::max(most, Allocator::Cpu()->stats().peak_bytes_in_use - before);
  }
  return most;
}

BOOST_AUTO_TEST_CASE(no_optimizer_makes_a_tensor_of_the_tables_size) {
  using namespace train;
  std::vector<std::unique_ptr<Optimizer>> all;
  all.push_back(std::make_unique<GradientDescent>(0.1));
  all.push_back(std::make_unique<Momentum>(0.1, 0.9));
  all.push_back(std::make_unique<Adagrad>(0.1));
  all.push_back(std::make_unique<Adadelta>(0.1));
  all.push_back(std::make_unique<RMSProp>(0.1));
  all.push_back(std::make_unique<RMSProp>(0.1, 0.9, 0.5, 1e-3, true));
  all.push_back(std::make_unique<Ftrl>(0.1));
  all.push_back(std::make_unique<ProximalGradientDescent>(0.1));
  all.push_back(std::make_unique<ProximalAdagrad>(0.1));
  all.push_back(std::make_unique<Adam>(0.1, 0.9, 0.999, 1e-8, /*lazy=*/true));
  all.push_back(std::make_unique<AdamW>(0.01, 0.1, 0.9, 0.999, 1e-8, /*lazy=*/true));
  bool resource = false;
  for (const auto& optimizer : all) {
    resource = !resource;
    BOOST_TEST(PeakOfStep(*optimizer, resource) < kTableBytes / 16, optimizer->name());
  }
}

BOOST_AUTO_TEST_CASE(neither_does_clipping_nor_control_flow) {
  for (const Reads reads : {Reads::kByHandle, Reads::kValue, Reads::kInBranch, Reads::kInLoop}) {
    for (const bool clipped : {false, true}) {
      train::Adagrad optimizer(0.1);
      BOOST_TEST(PeakOfStep(optimizer, true, reads, clipped) < kTableBytes / 16,
                 "reads " << static_cast<int>(reads) << (clipped ? ", clipped" : ""));
    }
  }
}

// The watch itself: TensorFlow's Adam moves every row.
BOOST_AUTO_TEST_CASE(the_allocator_shows_a_step_that_does) {
  train::Adam adam(0.1);
  BOOST_TEST(PeakOfStep(adam, true) >= kTableBytes);
}

}  // namespace sparse_memory_test
}  // namespace troupe::testing
