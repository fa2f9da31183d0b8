// Troupe inside a program that has an actor system already: one of the service's own actors asks a
// model and answers its clients.
#include <cstdio>

#include "troupe/actors.h"
#include "troupe/troupe.h"

// A message of the service, in a block of type ids of its own.
struct question {
  double x;
};
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, question& q) {
  return f(caf::meta::type_name("question"), q.x);
}
CAF_BEGIN_TYPE_ID_BLOCK(service, first_custom_type_id)
CAF_ADD_TYPE_ID(service, (question))
CAF_END_TYPE_ID_BLOCK(service)

using namespace troupe;

// The service's actor. A handler must not block: it sends the session's actor a message that asks
// for a step, and answers its client when the reply has come.
caf::behavior Model(caf::event_based_actor* self, caf::actor session) {
  return {
      [self, session](const question& q) {
        auto promise = self->make_response_promise<double>();
        run_request step;
        step.feeds = {{"x", Tensor::Scalar(q.x)}};
        step.fetches = {"y"};
        self->request(session, caf::infinite, step)
            .then(
                [promise](const run_reply& reply) mutable {
                  if (reply.status.ok()) {
                    promise.deliver(reply.outputs[0].scalar<double>());
                  } else {
                    promise.deliver(caf::make_error(caf::sec::runtime_error, reply.status.ToString()));
                  }
                },
                [promise](const caf::error& e) mutable { promise.deliver(e); });  // the session has ended
        return promise;
      },
  };
}

absl::Status Serve(caf::actor_system& system) {
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kDouble, {.shape = TensorShape()});
  ops::AddV2(root.WithOpName("y"), x * x, 1);
  TROUPE_RETURN_IF_ERROR(root.status());

  SessionOptions options;
  TROUPE_ASSIGN_OR_RETURN(options.runtime, StartRuntimeIn(system, {.threads = 2}));
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create(options));
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));

  caf::actor model = system.spawn(Model, ActorOf(*session));
  caf::scoped_actor client(system);
  client->request(model, caf::infinite, question{3})
      .receive([](double y) { std::printf("the model answers %g\n", y); },
               [](const caf::error& e) { std::printf("%s\n", to_string(e).c_str()); });

  // The service's actors end first, then the session and the runtime (here), then the system.
  client->send_exit(model, caf::exit_reason::user_shutdown);
  client->wait_for(model);
  return session->Close();
}

int main() {
  caf::actor_system_config config;
  config.add_message_types<caf::id_block::service>();
  caf::actor_system system(config);
  const absl::Status s = Serve(system);
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.ToString().c_str());
  return s.ok() && std::fflush(stdout) == 0 ? 0 : 1;  // output that is lost is a failure, too
}
