// A client of a model that `troupe play` serves: asks for y, once for each number.
//
//   ask_batcher HOST:PORT X ...
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <cstdio>
#include <string>

#include "absl/strings/numbers.h"
#include "troupe/actors.h"
#include "troupe/cluster.h"
#include "troupe/troupe.h"

using namespace troupe;

namespace {

struct Config : caf::actor_system_config {
  Config() {
    load<caf::io::middleman>();
    AddMessageTypes(this);
  }
};

absl::Status Ask(caf::actor_system& system, const std::string& address, int count, char** numbers) {
  TROUPE_ASSIGN_OR_RETURN(const HostPort at, HostPort::Parse(address));
  const auto batcher = system.middleman().remote_actor(at.host, at.port);
  if (!batcher) return absl::UnavailableError(system.render(batcher.error()));
  caf::scoped_actor self(system);
  for (int i = 0; i < count; ++i) {
    float x = 0;
    if (!absl::SimpleAtof(numbers[i], &x)) return absl::InvalidArgumentError(std::string(numbers[i]) + " is no number");
    run_request request;
    request.feeds = {{"x", Tensor::Of<float>({x}, TensorShape({1}))}};
    request.fetches = {"y"};
    absl::Status status = absl::UnavailableError("no answer");
    self->request(*batcher, std::chrono::seconds(30), request)
        .receive(
            [&](const run_reply& reply) {
              status = reply.status;
              if (status.ok()) std::printf("x = %g: y = %g\n", x, reply.outputs.at(0).data<float>()[0]);
            },
            [&](const caf::error& e) { status = absl::UnavailableError(system.render(e)); });
    TROUPE_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: ask_batcher HOST:PORT X ...\n");
    return 2;
  }
  Config config;
  caf::actor_system system(config);
  const absl::Status status = Ask(system, argv[1], argc - 2, argv + 2);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() && std::fflush(stdout) == 0 ? 0 : 1;
}
