// The smallest program: state a computation as a graph, run it, read the result.
#include <cstdio>

#include "troupe/troupe.h"

using namespace troupe;

absl::Status Hello() {
  // The graph. Nothing is computed yet: a, x and y stand for values to come.
  Scope root = Scope::NewRootScope();
  Output a = Const(root, {{1.0f, 2.0f}, {3.0f, 4.0f}});
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = {2, 1}});
  Output y = ops::MatMul(root, a, x) + 0.5f;
  TROUPE_RETURN_IF_ERROR(root.status());

  // A session runs what is asked for: here y, with a value fed for x.
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create());
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  std::vector<Tensor> out;
  TROUPE_RETURN_IF_ERROR(session->Run({{x, Tensor::Of<float>({10, 1}, {2, 1})}}, {y}, {}, &out));
  std::printf("y = %s\n", out[0].DebugString().c_str());
  return absl::OkStatus();
}

int main() {
  const absl::Status s = Hello();
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.ToString().c_str());
  return s.ok() && std::fflush(stdout) == 0 ? 0 : 1;  // output that is lost is a failure, too
}
