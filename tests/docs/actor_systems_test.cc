// The actor of docs/guide/actor_systems.md that starts steps by a Callable. The other one is
// examples/in_a_service.cc.
#include "tests/docs/pages.h"
#include "troupe/actors.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

// [actor]
struct ModelState {
  Callable step;  // what Prepare gave
  int64_t last = 0;
  std::map<int64_t, caf::typed_response_promise<double>> waiting;
};

// Two messages: a client's number, and the result of a step that the actor started.
caf::behavior Model(caf::stateful_actor<ModelState>* self, Callable step) {
  self->state.step = std::move(step);
  return {
      [self](double x) {
        const int64_t id = ++self->state.last;
        auto promise = self->state.waiting[id] = self->make_response_promise<double>();
        self->state.step.RunAsync(
            {Tensor::Scalar(x)}, [me = caf::actor_cast<caf::actor>(self), id](absl::Status s, std::vector<Tensor> out) {
              caf::anon_send(me, id, s.ok() ? out[0].scalar<double>() : 0.0, s.ToString());
            });
        return promise;
      },
      [self](int64_t id, double y, const std::string& status) {
        auto promise = std::move(self->state.waiting.extract(id).mapped());
        if (status == "OK") {
          promise.deliver(y);
        } else {
          promise.deliver(caf::make_error(caf::sec::runtime_error, status));
        }
      },
  };
}
// [/actor]

BOOST_AUTO_TEST_CASE(the_actor_of_the_guide_answers) {
  caf::actor_system_config config;
  caf::actor_system system{config};
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kDouble, {.shape = TensorShape()});
  Output y = ops::AddV2(root.WithOpName("y"), x * x, 1);
  SessionOptions options;
  options.runtime = StartRuntimeIn(system, {.threads = 2}).value();
  std::unique_ptr<Session> session = Session::Create(options).value();
  absl::Status s = session->Extend(*root.graph());
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  // [spawn]
  caf::actor model = system.spawn(Model, session->Prepare({x}, {y}, {}).value());
  // [/spawn]

  double sum = 0;
  {
    caf::scoped_actor client{system};
    for (int i = 0; i < 20; ++i) {
      client->request(model, std::chrono::seconds(20), 1.0 * i)
          .receive([&](double v) { sum += v; }, [](const caf::error& e) { BOOST_ERROR(to_string(e)); });
    }
    client->send_exit(model, caf::exit_reason::user_shutdown);
    client->wait_for(model);
  }
  model = nullptr;
  BOOST_TEST(sum == 2490);  // squares of 0..19, and 20
}

}  // namespace
}  // namespace troupe
