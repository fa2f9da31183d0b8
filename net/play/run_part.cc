// A process that is a part of a topology.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <mutex>
#include <string_view>

#include "net/play/part_here.h"
#include "net/play/plan.h"
#include "net/play/settings.h"

namespace troupe::play {
namespace {

constexpr std::string_view kArgument = "--troupe_part=";

// No thread takes them: they wait for sigwait.
sigset_t BlockSignals() {
  sigset_t ends;
  ::sigemptyset(&ends);
  for (const int s : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&ends, s);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  return ends;
}

std::chrono::milliseconds StopWithin(const Topology& topology) {
  const Part& first = topology.parts().front();
  if (first.kind != Kind::kTopology) return std::chrono::seconds(2);
  // The rest is for what cannot be hurried.
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             DurationOf(first, "stop_within", std::chrono::seconds(10))) /
         5;
}

absl::Status Run(const std::string& name) {
  const sigset_t ends = BlockSignals();
  TROUPE_ASSIGN_OR_RETURN(const Topology topology, Topology::OfThisProcess());
  struct Ended {
    std::mutex mu;
    absl::Status why;
  };
  const auto ended = std::make_shared<Ended>();
  const auto over = [ended](const absl::Status& why) {
    {
      std::lock_guard<std::mutex> lock(ended->mu);
      ended->why = why;
    }
    ::kill(::getpid(), SIGTERM);
  };
  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<PartHere> part, PartHere::Start(topology, name, over));
  std::printf("%s at %s\n", ReadyLine(name).c_str(), part->address().c_str());
  std::fflush(stdout);
  int signal = 0;
  ::sigwait(&ends, &signal);
  absl::Status status = part->Stop(StopWithin(topology));
  std::lock_guard<std::mutex> lock(ended->mu);
  return ended->why.ok() ? status : ended->why;
}

}  // namespace

std::string ReadyLine(const std::string& process) { return StrCat("troupe: ", process, " is ready"); }

int RunPart(const std::string& name) {
  const absl::Status status = Run(name);
  if (status.ok()) return 0;
  std::fprintf(stderr, "troupe: %s: %s\n", name.c_str(), status.ToString().c_str());
  return 1;
}

std::optional<int> RunPart(int argc, char** argv) {
  if (argc != 2 || !std::string_view(argv[1]).starts_with(kArgument)) return std::nullopt;
  return RunPart(std::string(argv[1] + kArgument.size()));
}

}  // namespace troupe::play
