// A node that calls an actor of the program's: a law of physics that lives outside of the graph,
// with its gradient, inside of a model that is trained.
//
// A stone falls from a height h and hits the ground after sqrt(2 h / g). The actor "fall" knows
// that; the graph finds the heights from the measured times by gradient descent.
#include <caf/all.hpp>
#include <cmath>
#include <cstdio>

#include "troupe/open_cast.h"
#include "troupe/troupe.h"

using namespace troupe;

namespace {

constexpr float kGravity = 9.81f;

Tensor Map(const Tensor& x, float (*f)(float)) {
  Tensor y(DType::kFloat, x.shape());
  for (int64_t i = 0; i < x.num_elements(); ++i) y.data<float>()[i] = f(x.data<float>()[i]);
  return y;
}

// Gets the heights, answers with the times.
caf::behavior Fall(caf::event_based_actor*) {
  return {[](const actor_call& call) -> actor_answer {
    return {{}, {Map(call.tensors.at(0), [](float h) { return std::sqrt(2 * h / kGravity); })}};
  }};
}

// Gets the heights, the times, and the gradient of the times; answers with that of the heights.
caf::behavior FallGradient(caf::event_based_actor*) {
  return {[](const actor_call& call) -> actor_answer {
    const Tensor &h = call.tensors.at(0), &t = call.tensors.at(1), &dt = call.tensors.at(2);
    Tensor dh(DType::kFloat, h.shape());
    for (int64_t i = 0; i < h.num_elements(); ++i)
      dh.data<float>()[i] = dt.data<float>()[i] / (kGravity * t.data<float>()[i]);
    return {{}, {dh}};
  }};
}

absl::Status Train(caf::actor_system& system) {
  SessionOptions session_options;
  TROUPE_ASSIGN_OR_RETURN(session_options.runtime, StartRuntimeIn(system, {.threads = 2}));
  TROUPE_RETURN_IF_ERROR(NameActor(*session_options.runtime, "fall", system.spawn(Fall)));
  TROUPE_RETURN_IF_ERROR(NameActor(*session_options.runtime, "fall gradient", system.spawn(FallGradient)));

  const Scope root = Scope::NewRootScope();
  const Variable heights(root.WithOpName("heights"), Tensor::Vector<float>({1, 1, 1}));
  CallActorOptions options;
  options.shapes = {PartialTensorShape(TensorShape({3}))};
  options.gradient_actor = "fall gradient";
  const Output now = heights.Read(root);
  const Output times = CallActor(root, "fall", {now}, {DType::kFloat}, options)[0];
  const Output measured = ops::Const(root, Tensor::Vector<float>({0.5f, 1.0f, 2.0f}));
  const Output error = ops::Sub(root, times, measured);
  const Output loss = ops::Sum(root.WithOpName("loss"), ops::Mul(root, error, error), 0);
  const Operation step = train::GradientDescent(5.0f).Minimize(root.WithOpName("step"), loss);
  const Operation init = GlobalVariablesInitializer(root);
  TROUPE_RETURN_IF_ERROR(root.status());

  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(session_options));
  session_options.runtime = nullptr;
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  TROUPE_RETURN_IF_ERROR(session->Run({}, {}, {init}, nullptr));
  for (int i = 0; i < 300; ++i) TROUPE_RETURN_IF_ERROR(session->Run({}, {}, {step}, nullptr));
  std::vector<Tensor> out;
  TROUPE_RETURN_IF_ERROR(session->Run({}, {now, loss}, {}, &out));
  const float* h = out[0].data<float>();
  std::printf("heights %.2f %.2f %.2f m, loss %.1e\n", h[0], h[1], h[2], out[1].scalar<float>());
  for (int i = 0; i < 3; ++i) {
    const float t = 0.5f * static_cast<float>(1 << i), wanted = kGravity * t * t / 2;
    if (std::abs(h[i] - wanted) > 0.01f * wanted) return absl::InternalError("a height was not found");
  }
  return absl::OkStatus();
}

}  // namespace

int main() {
  caf::actor_system_config config;
  caf::actor_system system(config);
  const absl::Status status = Train(system);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() && std::fflush(stdout) == 0 ? 0 : 1;
}
