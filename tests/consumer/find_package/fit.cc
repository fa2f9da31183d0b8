// Finds the line w x + b through four points.
#include <cstdio>

#include "troupe/troupe.h"

using namespace troupe;

absl::Status Fit() {
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root, DType::kFloat, {.shape = {-1}});
  Output target = ops::Placeholder(root, DType::kFloat, {.shape = {-1}});
  Variable w(root, 0.0f), b(root, 0.0f);
  Output loss = ops::Mean(root, ops::Square(root, w * x + b - target));
  Operation train = train::GradientDescent(0.1f).Minimize(root, loss);
  Operation init = GlobalVariablesInitializer(root);
  TROUPE_RETURN_IF_ERROR(root.status());

  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create());
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  TROUPE_RETURN_IF_ERROR(session->Run({}, {}, {init}, nullptr));
  const Tensor xs = Tensor::Vector<float>({-1, 0, 1, 2}), ys = Tensor::Vector<float>({-4, -1, 2, 5});
  std::vector<Tensor> out;
  for (int i = 0; i < 500; ++i) TROUPE_RETURN_IF_ERROR(session->Run({{x, xs}, {target, ys}}, {loss}, {train}, &out));
  std::printf("loss %.4f\n", out[0].scalar<float>());
  TROUPE_RETURN_IF_ERROR(session->Run({}, {w, b}, {}, &out));
  std::printf("w %.4f, b %.4f\n", out[0].scalar<float>(), out[1].scalar<float>());
  return session->Close();
}

int main() {
  const absl::Status s = Fit();
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.ToString().c_str());
  return s.ok() ? 0 : 1;
}
