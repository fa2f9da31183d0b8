// A loop inside the graph, and the gradient through it: x to the power of n, and n x^(n-1).
#include <cstdio>

#include "troupe/troupe.h"

using namespace troupe;

int main() {
  Scope scope = Scope::NewRootScope();
  Output x = ops::Placeholder(scope.WithOpName("x"), DType::kFloat, {.shape = TensorShape()});
  Output n = ops::Placeholder(scope.WithOpName("n"), DType::kInt32, {.shape = TensorShape()});

  // Two loop variables: a counter and the power so far. Both functions are called once, to build
  // the loop; x and n come in from outside.
  OutputList loop = While(
      scope, {0, 1.0f}, [&](const Scope&, const OutputList& v) { return v[0] < n; },
      [&](const Scope&, const OutputList& v) -> OutputList {
        return {v[0] + 1, v[1] * x};
      });
  Output power = loop[1];
  Output slope = Gradients(scope, {power}, {x})[0];
  if (!scope.ok()) {
    std::printf("%s\n", scope.status().ToString().c_str());
    return 1;
  }

  auto session = Session::Create();
  if (!session.ok() || !(*session)->Extend(*scope.graph()).ok()) return 1;
  bool right = true;
  float expected[][2] = {{1, 0}, {2, 1}, {4, 4}, {8, 12}, {16, 32}};
  for (int k = 0; k < 5; ++k) {
    std::vector<Tensor> out;
    absl::Status s = (*session)->Run({{"x", Tensor::Scalar(2.0f)}, {"n", Tensor::Scalar(k)}},
                                     {power.name(), slope.name()}, {}, &out);
    if (!s.ok()) {
      std::printf("%s\n", s.ToString().c_str());
      return 1;
    }
    std::printf("2^%d = %g, slope %g\n", k, out[0].scalar<float>(), out[1].scalar<float>());
    right = right && out[0].scalar<float>() == expected[k][0] && out[1].scalar<float>() == expected[k][1];
  }
  return right ? 0 : 1;
}
