// Training: find w and b so that w * x + b fits points on the line 3 x - 1.
#include <cmath>
#include <cstdio>

#include "troupe/troupe.h"

using namespace troupe;

int main() {
  Scope scope = Scope::NewRootScope();
  Output x = ops::Placeholder(scope.WithOpName("x"), DType::kFloat, {.shape = {-1}});
  Output target = ops::Placeholder(scope.WithOpName("target"), DType::kFloat, {.shape = {-1}});

  // Variables keep their values from run to run.
  Variable w(scope.WithOpName("w"), 0.0f);
  Variable b(scope.WithOpName("b"), 0.0f);
  Output error = w * x + b - target;
  Output loss = ops::Mean(scope.WithOpName("loss"), error * error, 0);

  // Gradients adds the nodes that compute d loss / d w and d loss / d b; one step goes a little
  // against them.
  OutputList d = Gradients(scope, {loss}, {w, b});
  Operation step = Group(scope.WithOpName("step"), {w.AssignSub(scope, 0.1f * d[0]), b.AssignSub(scope, 0.1f * d[1])});
  Operation init = GlobalVariablesInitializer(scope);

  const auto check = [](const absl::Status& s) {
    if (!s.ok()) std::printf("%s\n", s.ToString().c_str());
    return s.ok();
  };
  if (!check(scope.status())) return 1;
  auto session = Session::Create();
  if (!check(session.status()) || !check((*session)->Extend(*scope.graph()))) return 1;
  if (!check((*session)->Run({}, {}, {init.name()}, nullptr))) return 1;

  const Tensor xs = Tensor::Vector<float>({-1, 0, 1, 2}), ys = Tensor::Vector<float>({-4, -1, 2, 5});
  for (int i = 0; i < 200; ++i) {
    if (!check((*session)->Run({{"x", xs}, {"target", ys}}, {}, {step.name()}, nullptr))) return 1;
  }
  std::vector<Tensor> out;
  if (!check((*session)->Run({{"x", xs}, {"target", ys}}, {w.name(), b.name(), loss.name()}, {}, &out))) return 1;
  const float found_w = out[0].scalar<float>(), found_b = out[1].scalar<float>();
  std::printf("w = %.3f, b = %.3f, loss = %.2g\n", found_w, found_b, out[2].scalar<float>());  // w = 3.000, b = -1.000
  return std::abs(found_w - 3) < 1e-3 && std::abs(found_b + 1) < 1e-3 ? 0 : 1;
}
