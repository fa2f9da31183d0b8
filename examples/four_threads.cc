// One session, four threads: steps of one graph run side by side, and updates of a variable are not
// lost.
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "troupe/troupe.h"

using namespace troupe;

int main() {
  Scope scope = Scope::NewRootScope();
  Output x = ops::Placeholder(scope.WithOpName("x"), DType::kFloat, {.shape = TensorShape()});
  Variable total(scope.WithOpName("total"), 0.0f);
  Output square = ops::Square(scope.WithOpName("square"), x);
  Output add = total.AssignAdd(scope.WithOpName("add"), x);
  Operation init = GlobalVariablesInitializer(scope);

  auto session = Session::Create();
  if (!scope.ok() || !session.ok() || !(*session)->Extend(*scope.graph()).ok()) return 1;
  if (!(*session)->Run({}, {}, {init.name()}, nullptr).ok()) return 1;

  // What every call would look up again and again, looked up once. A Callable may be used by many
  // threads.
  auto step = (*session)->Prepare({"x"}, {square.name()}, {add.node()->name()});
  if (!step.ok()) {
    std::printf("%s\n", step.status().ToString().c_str());
    return 1;
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Tensor> out;
      for (int i = 0; i < 1000; ++i) {
        const float v = static_cast<float>(t + 1);
        const Tensor feed = Tensor::Scalar(v);
        if (!step->Run({feed}, &out).ok() || out[0].scalar<float>() != v * v) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();

  std::vector<Tensor> out;
  if (!(*session)->Run({}, {total.name()}, {}, &out).ok()) return 1;
  std::printf("total = %g, wrong steps: %d\n", out[0].scalar<float>(), wrong.load());  // total = 10000, wrong steps: 0
  return wrong == 0 && out[0].scalar<float>() == 10000.0f ? 0 : 1;
}
