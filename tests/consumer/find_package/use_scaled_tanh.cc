// Uses an op that was linked into the program, by its name.
#include <cstdio>

#include "troupe/troupe.h"

using namespace troupe;

int main() {
  Scope root = Scope::NewRootScope();
  Output x = Const(root, {0.0f, 1.0f});
  Output y = EmitOp(root.WithOpName("y"), "ScaledTanh", {x}, {{"scale", 2.0f}}).output(0);
  Output slope = Gradients(root, {y}, {x})[0];
  auto session = Session::Create();
  std::vector<Tensor> out;
  absl::Status s = root.status();
  if (s.ok()) s = session.status();
  if (s.ok()) s = (*session)->Extend(*root.graph());
  if (s.ok()) s = (*session)->Run({}, {y, slope}, {}, &out);
  if (!s.ok()) {
    std::printf("%s\n", s.ToString().c_str());
    return 1;
  }
  std::printf("y %s, slope %s\n", out[0].DebugString().c_str(), out[1].DebugString().c_str());
}
