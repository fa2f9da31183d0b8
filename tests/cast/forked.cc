// A child of fork: what the parent made is refused with a sentence and ends without harm; what the
// child makes works.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "troupe/troupe.h"

namespace {

using namespace troupe;

#define EXPECT(condition)                               \
  if (!(condition)) {                                   \
    std::printf("line %d: " #condition "\n", __LINE__); \
    std::fflush(stdout);                                \
    _exit(2);                                           \
  }

bool Refused(const absl::Status& s) {
  return s.code() == absl::StatusCode::kFailedPrecondition && s.ToString().find("forked") != std::string::npos;
}

std::unique_ptr<Session> Make(const std::shared_ptr<Runtime>& runtime, const Graph& graph) {
  SessionOptions options;
  options.runtime = runtime;
  options.runtime_options.threads = 2;
  auto s = Session::Create(options);
  EXPECT(s.ok());
  EXPECT((*s)->Extend(graph).ok());
  return *std::move(s);
}

}  // namespace

int main() {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  ops::Add(root.WithOpName("y"), x, x);
  const Feeds feeds = {{"x", Tensor::Scalar(2.0f)}};
  std::vector<Tensor> out;
  auto runtime = Runtime::Start({.threads = 2}).value();
  auto session = Make(runtime, *root.graph());
  EXPECT(session->Run(feeds, {"y"}, {}, &out).ok());
  Callable callable = session->Prepare({"x"}, {"y"}, {}).value();
  const std::string handle = session->PartialRunSetup({"x"}, {"y"}, {}).value();
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    EXPECT(Refused(session->Run(feeds, {"y"}, {}, &out)));
    EXPECT(Refused(session->Run(feeds, {"x"}, {}, &out)));
    EXPECT(Refused(session->Extend(*root.graph())));
    EXPECT(Refused(session->Prepare({"x"}, {"x"}, {}).status()));
    EXPECT(Refused(session->PartialRun(handle, feeds, {"y"}, &out)));
    EXPECT(Refused(session->PartialRunCancel(handle)));
    EXPECT(Refused(session->Reset({""})));
    EXPECT(Refused(callable.Run({feeds[0].second}, &out)));
    absl::Status late;
    session->RunAsync(feeds, {"y"}, {}, [&](absl::Status s, std::vector<Tensor>) { late = s; });
    EXPECT(Refused(late));
    callable.RunAsync({feeds[0].second}, [&](absl::Status s, std::vector<Tensor>) { late = s; });
    EXPECT(Refused(late));
    EXPECT(session->RunningSteps().empty());
    SessionOptions options;
    options.runtime = runtime;
    EXPECT(Refused(Session::Create(options).status()));
    EXPECT(Refused(session->Close()));
    session = nullptr;
    runtime = nullptr;
    options.runtime = nullptr;
    {
      auto own = Make(nullptr, *root.graph());
      EXPECT(own->Run(feeds, {"y"}, {}, &out).ok() && out[0].scalar<float>() == 4.0f);
      Callable mine = own->Prepare({"x"}, {"y"}, {}).value();
      EXPECT(mine.Run({feeds[0].second}, &out).ok());
    }
    return 0;
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  // The parent is as it was.
  EXPECT(session->Run(feeds, {"y"}, {}, &out).ok() && out[0].scalar<float>() == 4.0f);
  EXPECT(callable.Run({feeds[0].second}, &out).ok());
  return 0;
}
