// Troupe inside a program that has an actor system already: one of the service's own actors asks a
// model and answers its clients.
#include <caf/all.hpp>
#include <cstdio>
#include <map>

#include "troupe/actors.h"

using namespace troupe;

// The service's actor. A handler must not block: it starts a step, and the result comes back as a
// message like any other.
struct ModelState {
  std::map<int64_t, caf::typed_response_promise<double>> waiting;
  int64_t last = 0;
};
caf::behavior Model(caf::stateful_actor<ModelState>* self, Session* session) {
  return {
      [self, session](double x) {
        const int64_t id = ++self->state.last;
        session->RunAsync({{"x", Tensor::Scalar(x)}}, {"y:0"}, {},
                          [me = caf::actor_cast<caf::actor>(self), id](absl::Status s, std::vector<Tensor> out) {
                            caf::anon_send(me, id, s.ok() ? out[0].scalar<double>() : 0.0, std::string(s.message()));
                          });
        return self->state.waiting[id] = self->make_response_promise<double>();
      },
      [self](int64_t id, double y, const std::string& error) {
        auto promise = std::move(self->state.waiting.extract(id).mapped());
        if (error.empty()) {
          promise.deliver(y);
        } else {
          promise.deliver(caf::make_error(caf::sec::runtime_error, error));
        }
      },
  };
}

int main() {
  caf::actor_system_config config;
  caf::actor_system system(config);  // the service's own

  Scope scope = Scope::NewRootScope();
  Output x = ops::Placeholder(scope.WithOpName("x"), DType::kDouble, {.shape = TensorShape()});
  ops::AddV2(scope.WithOpName("y"), x * x, 1);

  // The runtime's actors are spawned in the service's system instead of one of their own.
  auto runtime = StartRuntimeIn(system, {});
  if (!runtime.ok() || !scope.ok()) return 1;
  auto session = Session::Create({.runtime = *runtime});
  if (!session.ok() || !(*session)->Extend(*scope.graph()).ok()) return 1;

  double answer = 0;
  {
    auto model = system.spawn(Model, session->get());  // main keeps the session: it ends outside of all actors
    caf::scoped_actor client(system);
    client->request(model, caf::infinite, 3.0)
        .receive([&](double y) { answer = y; },
                 [&](const caf::error& e) { std::printf("%s\n", to_string(e).c_str()); });
    client->send_exit(model, caf::exit_reason::user_shutdown);
    client->wait_for(model);
  }
  std::printf("the model answers %g\n", answer);  // 10
  return answer == 10 ? 0 : 1;
}
