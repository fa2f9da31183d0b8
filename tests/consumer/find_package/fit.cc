#include <cstdio>

#include "troupe/troupe.h"

using namespace troupe;

absl::Status Fit() {
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = TensorShape()});
  Variable w(root.WithOpName("w"), 1.0f);
  Output loss = ops::Square(root.WithOpName("loss"), w * x - 6.0f);
  Output slope = Gradients(root, {loss}, {w})[0];  // 2 x (w x - 6)
  Operation train = train::GradientDescent(0.05f).Minimize(root, loss);
  Operation init = GlobalVariablesInitializer(root);
  TROUPE_RETURN_IF_ERROR(root.status());

  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create());
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  TROUPE_RETURN_IF_ERROR(session->Run({}, {}, {init.name()}, nullptr));
  TROUPE_ASSIGN_OR_RETURN(Callable step, session->Prepare({"x"}, {slope.name()}, {train.name()}));
  std::vector<Tensor> out, in = {Tensor::Scalar(2.0f)};
  for (int i = 0; i < 100; ++i) TROUPE_RETURN_IF_ERROR(step.Run(in, &out));
  std::printf("slope %.4f\n", out[0].scalar<float>());
  TROUPE_RETURN_IF_ERROR(session->Run({}, {w.name()}, {}, &out));
  std::printf("w %.4f\n", out[0].scalar<float>());
  return session->Close();
}

int main() {
  const absl::Status s = Fit();
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.ToString().c_str());
  return s.ok() ? 0 : 1;
}
