// A topology with actors of the program's own: one that has a process for itself, one in the
// process of a server, and a graph on that server that calls both.
//
//   play_fall TOPOLOGY     starts it, and waits for its end
//   play_fall ask TARGET   what the topology's program does: runs the graph in the server
#include <caf/all.hpp>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "troupe/open_cast.h"
#include "troupe/play_actors.h"
#include "troupe/troupe.h"

using namespace troupe;

namespace {

// Gets heights in m, answers how many seconds a stone falls.
caf::behavior Fall(caf::event_based_actor*, float gravity) {
  return {[gravity](const actor_call& call) -> actor_answer {
    const Tensor& h = call.tensors.at(0);
    Tensor t(DType::kFloat, h.shape());
    for (int64_t i = 0; i < h.num_elements(); ++i) t.data<float>()[i] = std::sqrt(2 * h.data<float>()[i] / gravity);
    return {{}, {t}};
  }};
}

// Answers the mean of all that it has ever got.
caf::behavior Mean(caf::event_based_actor*) {
  return {[sum = 0.0, n = 0.0](const actor_call& call) mutable -> actor_answer {
    const Tensor& t = call.tensors.at(0);
    for (int64_t i = 0; i < t.num_elements(); ++i) sum += t.data<float>()[i];
    n += static_cast<double>(t.num_elements());
    return {{}, {Tensor::Scalar(static_cast<float>(sum / n))}};
  }};
}

absl::Status Ask(const std::string& target) {
  const Scope root = Scope::NewRootScope();
  const Output heights = ops::Placeholder(root.WithOpName("heights"), DType::kFloat);
  const Output times = CallActor(root, "physics", {heights}, {DType::kFloat})[0];
  const Output mean = CallActor(root, "mean", {times}, {DType::kFloat})[0];
  TROUPE_RETURN_IF_ERROR(root.status());
  SessionOptions options;
  options.target = target;
  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(options));
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  std::vector<Tensor> out;
  for (const float h : {4.905f, 19.62f}) {
    TROUPE_RETURN_IF_ERROR(session->Run({{heights, Tensor::Vector<float>({h})}}, {times, mean}, {}, &out));
    std::printf("from %.1f m: %.2f s, on average %.2f s\n", h, out[0].data<float>()[0], out[1].scalar<float>());
  }
  return session->Close();
}

// [start]
absl::Status Start(const std::string& file) {
  TROUPE_ASSIGN_OR_RETURN(const play::Topology topology, play::Topology::Read(file));
  play::PlayOptions options;
  options.on_line = [](const std::string& name, uint64_t, std::string_view line) {
    std::printf("%s: %.*s\n", name.c_str(), static_cast<int>(line.size()), line.data());
  };
  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<play::Play> cast, play::Play::Start(topology, options));
  while (!cast->Wait(std::chrono::seconds(1)).value_or(true)) continue;
  TROUPE_ASSIGN_OR_RETURN(const play::PlayStatus status, cast->status());
  for (const play::PartStatus& p : status.parts)
    std::printf("%s %s\n", p.process.name.c_str(), std::string(ToString(p.process.state)).c_str());
  return status.result;
}
// [/start]

}  // namespace

// [main]
int main(int argc, char** argv) {
  absl::Status status = play::RegisterRole("fall", [](const play::RoleContext& context) {
    return context.system.spawn(Fall, std::stof(context.with.at("gravity")));
  });
  status.Update(play::RegisterRole("mean", [](const auto& context) { return context.system.spawn(Mean); }));
  // The processes of its actors and servers are this program, too.
  if (const auto ended = play::RunPart(argc, argv)) return *ended;
  // [/main]
  if (argc == 3 && std::string_view(argv[1]) == "ask") {
    status.Update(Ask(argv[2]));
  } else if (argc == 2) {
    status.Update(Start(argv[1]));
  } else {
    std::fprintf(stderr, "usage: play_fall TOPOLOGY | play_fall ask TARGET\n");
    return 2;
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() && std::fflush(stdout) == 0 ? 0 : 1;
}
