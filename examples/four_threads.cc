// One session, four threads: steps of one graph run side by side, and updates of a variable are not
// lost.
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "troupe/troupe.h"

using namespace troupe;

absl::Status Count() {
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root, DType::kFloat, {.shape = TensorShape()});
  Variable total(root.WithOpName("total"), 0.0f);
  Output square = ops::Square(root, x);
  Operation add = total.AssignAdd(root, x);
  Operation init = GlobalVariablesInitializer(root);
  TROUPE_RETURN_IF_ERROR(root.status());

  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create());
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  TROUPE_RETURN_IF_ERROR(session->Run({}, {}, {init}, nullptr));

  // Compiled once, before the threads begin. Any number of them may use it.
  TROUPE_ASSIGN_OR_RETURN(Callable step, session->Prepare({x}, {square}, {add}));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 1; t <= 4; ++t) {
    threads.emplace_back([&step, &wrong, t] {
      std::vector<Tensor> out;
      for (int i = 0; i < 1000; ++i) {
        if (!step.Run({Tensor::Scalar<float>(t)}, &out).ok() || out[0].scalar<float>() != t * t) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();

  TROUPE_ASSIGN_OR_RETURN(Tensor sum, session->Get(total));
  std::printf("total = %g, wrong steps: %d\n", sum.scalar<float>(), wrong.load());
  return absl::OkStatus();
}

int main() {
  const absl::Status s = Count();
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.ToString().c_str());
  return s.ok() && std::fflush(stdout) == 0 ? 0 : 1;  // output that is lost is a failure, too
}
