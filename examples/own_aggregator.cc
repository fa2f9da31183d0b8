// An aggregator of the program's own, in place of the accumulators of train::SyncReplicas: an actor
// that gets the gradient of each worker, and answers all of them with the median of each element
// when the last one has come. A worker that sends nonsense does no harm.
//
// Three workers find the mean of numbers around 5; one of them is broken.
#include <algorithm>
#include <caf/all.hpp>
#include <cmath>
#include <cstdio>
#include <thread>
#include <vector>

#include "troupe/open_cast.h"
#include "troupe/troupe.h"

using namespace troupe;

namespace {

constexpr size_t kWorkers = 3;

// Element by element.
Tensor Median(const std::vector<Tensor>& gradients) {
  Tensor median(DType::kFloat, gradients[0].shape());
  for (int64_t i = 0; i < median.num_elements(); ++i) {
    std::vector<float> values;
    for (const Tensor& g : gradients) values.push_back(g.data<float>()[i]);
    std::nth_element(values.begin(), values.begin() + kWorkers / 2, values.end());
    median.data<float>()[i] = values[kWorkers / 2];
  }
  return median;
}

// One round after the other: no worker is in the next one before all have got the answer of this
// one, since its node waits.
struct Aggregator {
  std::vector<Tensor> gradients;
  std::vector<caf::typed_response_promise<actor_answer>> waiting;
};

caf::behavior Aggregate(caf::stateful_actor<Aggregator>* self) {
  return {[self](const actor_call& call) -> caf::result<actor_answer> {
    Aggregator& round = self->state;
    const Tensor& gradient = call.tensors.at(0);
    if (!round.gradients.empty() && gradient.shape() != round.gradients[0].shape())
      return actor_answer{absl::InvalidArgumentError("a gradient of another shape"), {}};
    round.gradients.push_back(gradient);
    round.waiting.push_back(self->make_response_promise<actor_answer>());
    const auto promise = round.waiting.back();
    if (round.gradients.size() == kWorkers) {
      const Tensor median = Median(round.gradients);
      for (auto& each : round.waiting) each.deliver(actor_answer{{}, {median}});
      round = {};
    }
    return promise;
  }};
}

absl::StatusOr<float> Work(const std::shared_ptr<Runtime>& runtime, size_t worker, int steps) {
  const Scope root = Scope::NewRootScope();
  const Variable w(root.WithOpName("w"), 0.0f);
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = {}});
  Output gradient = ops::Sub(root, w.Read(root), x);
  if (worker == 0) gradient = ops::Mul(root, gradient, -1000.0f);  // it is broken
  CallActorOptions options;
  options.shapes = {PartialTensorShape(TensorShape())};
  const Output together = CallActor(root, "aggregator", {gradient}, {DType::kFloat}, options)[0];
  const Output after = w.AssignSub(root, ops::Mul(root, together, 0.1f));
  const Operation init = GlobalVariablesInitializer(root);
  TROUPE_RETURN_IF_ERROR(root.status());
  SessionOptions session_options;
  session_options.runtime = runtime;
  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(session_options));
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  TROUPE_RETURN_IF_ERROR(session->Run({}, {}, {init}, nullptr));
  std::vector<Tensor> out;
  for (int i = 0; i < steps; ++i) {
    const float sample = 5.0f + (i % 2 == 0 ? 0.1f : -0.1f) * static_cast<float>(worker);
    TROUPE_RETURN_IF_ERROR(session->Run({{"x", Tensor::Scalar(sample)}}, {after}, {}, &out));
  }
  return out.at(0).scalar<float>();
}

absl::Status Train(caf::actor_system& system) {
  TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<Runtime> runtime, StartRuntimeIn(system, {.threads = 2}));
  TROUPE_RETURN_IF_ERROR(NameActor(*runtime, "aggregator", system.spawn(Aggregate)));
  std::vector<absl::StatusOr<float>> found(kWorkers, absl::InternalError("it has not run"));
  std::vector<std::thread> workers;
  for (size_t i = 0; i < kWorkers; ++i) workers.emplace_back([&, i] { found[i] = Work(runtime, i, 100); });
  for (std::thread& t : workers) t.join();
  for (const auto& w : found) {
    TROUPE_RETURN_IF_ERROR(w.status());
    std::printf("w = %.2f\n", *w);
    // All have made the same steps.
    if (*w != *found[0] || std::abs(*w - 5) > 0.1f) return absl::InternalError("a worker has another result");
  }
  return UnnameActor(*runtime, "aggregator");
}

}  // namespace

int main() {
  caf::actor_system_config config;
  caf::actor_system system(config);
  const absl::Status status = Train(system);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() && std::fflush(stdout) == 0 ? 0 : 1;
}
