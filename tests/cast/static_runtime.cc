// Leaves a runtime and sessions to be destroyed at exit: after main's thread has lost its
// thread-local variables, and before or after each other.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "troupe/troupe.h"

namespace {

// Destroyed in the opposite order, after everything that is made while main runs.
std::unique_ptr<troupe::Session> dies_last;
std::shared_ptr<troupe::Runtime> runtime;
std::unique_ptr<troupe::Session> dies_first;

std::unique_ptr<troupe::Session> Make(std::shared_ptr<troupe::Runtime> in) {
  using namespace troupe;
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  Variable v(root.WithOpName("v"), 5.0f);
  ops::Add(root.WithOpName("y"), ops::Add(root, x, x), v);
  const Operation init = GlobalVariablesInitializer(root);
  SessionOptions options;
  options.runtime = std::move(in);
  std::unique_ptr<Session> s = Session::Create(options).value();
  std::vector<Tensor> out;
  if (!s->Extend(*root.graph()).ok() || !s->Run({}, {}, {init.name()}, nullptr).ok() ||
      !s->Run({{"x", Tensor::Scalar(1.0f)}}, {"y"}, {}, &out).ok() || out[0].scalar<float>() != 7.0f) {
    std::puts("the step failed");
    std::_Exit(2);
  }
  return s;
}

// Makes a session, runs a step and ends it, all within its destructor.
struct Late {
  ~Late() {
    if (armed) Make(nullptr);
  }
  bool armed = false;
} late;

}  // namespace

int main(int, char** argv) {
  const std::string order = argv[1];
  if (order == "session_only") {
    dies_last = Make(nullptr);
  } else if (order == "runtime_first") {
    runtime = troupe::Runtime::Start().value();
    dies_last = Make(runtime);
  } else if (order == "session_first") {
    runtime = troupe::Runtime::Start().value();
    dies_first = Make(runtime);
  } else if (order == "function_static") {
    static auto made_in_main = Make(nullptr);
  } else if (order == "late") {
    late.armed = true;
  } else if (order == "running") {
    dies_first = Make(nullptr);
    for (int i = 0; i < 100; ++i) {
      dies_first->RunAsync({{"x", troupe::Tensor::Scalar(1.0f)}}, {"y"}, {},
                           [](absl::Status, std::vector<troupe::Tensor>) {});
    }
  } else {
    return 3;
  }
}
