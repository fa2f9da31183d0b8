// Roles of actors for tests, as a library that `troupe play --load` opens.
#include <caf/all.hpp>

#include "tests/play/number.h"
#include "troupe/open_cast.h"
#include "troupe/play_actors.h"
#include "troupe/troupe.h"

namespace troupe::play {
namespace {

Tensor Times(const Tensor& x, float by) {
  Tensor y(DType::kFloat, x.shape());
  for (int64_t i = 0; i < x.num_elements(); ++i) y.data<float>()[i] = by * x.data<float>()[i];
  return y;
}

// Multiplies by a number, which a message may change; dies of a negative one.
caf::behavior Multiplier(caf::event_based_actor* self, float by) {
  const auto now = std::make_shared<float>(by);
  return {[=](const actor_call& call) -> actor_answer {
            return {{}, {Times(call.tensors.at(0), *now)}};
          },
          [=](number n) {
            *now = static_cast<float>(n.value);
            if (n.value < 0) self->quit(caf::exit_reason::unhandled_exception);
            return number{2 * n.value};
          }};
}

// Hands calls on to the actor that it uses. (`other` is an argument since CAF's header binds a
// reference to nothing for a function without arguments, which UBSan refuses.)
caf::behavior Agent(caf::event_based_actor* self, const std::shared_ptr<caf::actor>& other) {
  return {[=](const part_up& up) { *other = up.actor; }, [=](const part_down&) { *other = nullptr; },
          [=](const actor_call& call) -> caf::result<actor_answer> {
            if (!*other) return actor_answer{absl::UnavailableError("the other is not there"), {}};
            auto promise = self->make_response_promise<actor_answer>();
            self->request(*other, caf::infinite, call).then([promise](const actor_answer& answer) mutable {
              promise.deliver(answer);
            });
            return promise;
          }};
}

const auto registered = [] {
  ConfigureSystems([](caf::actor_system_config* config) { config->add_message_types<caf::id_block::test_numbers>(); });
  absl::Status status = RegisterRole("multiplier", [](const RoleContext& context) {
    return context.system.spawn(Multiplier, std::stof(context.with.at("by")));
  });
  status.Update(RegisterRole(
      "agent", [](const RoleContext& context) { return context.system.spawn(Agent, std::make_shared<caf::actor>()); }));
  return status;
}();

}  // namespace
}  // namespace troupe::play
