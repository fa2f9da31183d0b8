// Training by hand: find w and b so that w * x + b fits points on the line 3 x - 1. An optimizer
// (troupe/train/) would build the same from the loss.
#include <cstdio>

#include "troupe/troupe.h"

using namespace troupe;

absl::Status Fit() {
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root, DType::kFloat, {.shape = {-1}});
  Output target = ops::Placeholder(root, DType::kFloat, {.shape = {-1}});

  // Variables keep their values from step to step.
  Variable w(root.WithOpName("w"), 0.0f);
  Variable b(root.WithOpName("b"), 0.0f);
  Output error = w * x + b - target;
  Output loss = ops::Mean(root, error * error);

  // Gradients adds the nodes that compute d loss / d w and d loss / d b; one step goes a little
  // against them.
  OutputList d = Gradients(root, {loss}, {w, b});
  Operation step = Group(root, {w.AssignSub(root, 0.1f * d[0]), b.AssignSub(root, 0.1f * d[1])});
  Operation init = GlobalVariablesInitializer(root);
  TROUPE_RETURN_IF_ERROR(root.status());

  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create());
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  TROUPE_RETURN_IF_ERROR(session->Run({}, {}, {init}, nullptr));
  const Tensor xs = Tensor::Vector<float>({-1, 0, 1, 2}), ys = Tensor::Vector<float>({-4, -1, 2, 5});
  for (int i = 0; i < 200; ++i) TROUPE_RETURN_IF_ERROR(session->Run({{x, xs}, {target, ys}}, {}, {step}, nullptr));

  std::vector<Tensor> out;
  TROUPE_RETURN_IF_ERROR(session->Run({{x, xs}, {target, ys}}, {w, b, loss}, {}, &out));
  std::printf("w = %.3f, b = %.3f, loss = %.3f\n", out[0].scalar<float>(), out[1].scalar<float>(),
              out[2].scalar<float>());  // w = 3.000, b = -1.000, loss = 0.000
  return absl::OkStatus();
}

int main() {
  const absl::Status s = Fit();
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.ToString().c_str());
  return s.ok() && std::fflush(stdout) == 0 ? 0 : 1;  // output that is lost is a failure, too
}
