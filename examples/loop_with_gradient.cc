// A loop inside the graph, and the gradient through it: x to the power of n, and n x^(n-1).
#include <cstdio>

#include "troupe/troupe.h"

using namespace troupe;

absl::Status Powers() {
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root, DType::kFloat, {.shape = TensorShape()});
  Output n = ops::Placeholder(root, DType::kInt32, {.shape = TensorShape()});

  // Two loop variables: a counter and the power so far. Both functions are called once, to build
  // the loop; x and n come in from outside.
  OutputList loop = While(
      root, {0, 1.0f}, [&](const Scope&, const OutputList& v) { return v[0] < n; },
      [&](const Scope&, const OutputList& v) -> OutputList {
        return {v[0] + 1, v[1] * x};
      });
  Output power = loop[1];
  Output slope = Gradients(root, {power}, {x})[0];
  TROUPE_RETURN_IF_ERROR(root.status());

  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create());
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  std::vector<Tensor> out;
  for (int k = 0; k < 5; ++k) {
    TROUPE_RETURN_IF_ERROR(session->Run({{x, Tensor::Scalar(2.0f)}, {n, Tensor::Scalar(k)}}, {power, slope}, {}, &out));
    std::printf("2^%d = %g, slope %g\n", k, out[0].scalar<float>(), out[1].scalar<float>());
  }
  return absl::OkStatus();
}

int main() {
  const absl::Status s = Powers();
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.ToString().c_str());
  return s.ok() && std::fflush(stdout) == 0 ? 0 : 1;  // output that is lost is a failure, too
}
