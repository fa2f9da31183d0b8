// The smallest program: state a computation as a graph, run it, read the result.
#include <cstdio>

#include "troupe/troupe.h"

using namespace troupe;

int main() {
  // A graph is built through a scope. Nothing is computed yet: a, x and y are names of values to
  // come.
  Scope scope = Scope::NewRootScope();
  Output a = Const(scope.WithOpName("a"), {{1.f, 2.f}, {3.f, 4.f}});
  Output x = ops::Placeholder(scope.WithOpName("x"), DType::kFloat, {.shape = {2, 1}});
  Output y = ops::MatMul(scope.WithOpName("y"), a, x) + 0.5f;

  // A mistake does not abort; the scope keeps the first one, with the line that made it.
  if (!scope.ok()) {
    std::printf("%s\n", scope.status().ToString().c_str());
    return 1;
  }

  // A session runs parts of the graph: here y, with a value fed for x.
  auto session = Session::Create();
  if (!session.ok() || !(*session)->Extend(*scope.graph()).ok()) return 1;
  std::vector<Tensor> results;
  absl::Status status = (*session)->Run({{"x", Tensor::Of<float>({10, 1}, {2, 1})}}, {y.name()}, {}, &results);
  if (!status.ok()) {
    std::printf("%s\n", status.ToString().c_str());
    return 1;
  }

  std::printf("y = %s\n", results[0].DebugString().c_str());  // float32 [2,1] [12.5 34.5]
  const float* v = results[0].data<float>();
  return v[0] == 12.5f && v[1] == 34.5f ? 0 : 1;
}
