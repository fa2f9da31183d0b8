// The open cast: nodes of a graph whose kernel is a message to an actor of the program's own.
//
// NameActor gives an actor a name in a runtime; CallActor adds a node that, each time it runs,
// sends actor_call to whoever has that name, and whose outputs are the tensors of the actor_answer.
//
// The actor may live in any process that CAF reaches: a handle from the middleman's remote_actor is
// named like any other. Both sides call AddMessageTypes and AddCallMessageTypes then. Includes CAF
// 0.17.6; link troupe::actors.
//
// Thread rule: NameActor and UnnameActor may be called from any thread; CallActor as for Scope;
// `inspect` by one thread for each value.
#ifndef TROUPE_OPEN_CAST_H_
#define TROUPE_OPEN_CAST_H_

#include <caf/all.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "troupe/actors.h"
#include "troupe/dtype.h"
#include "troupe/export.h"
#include "troupe/output.h"
#include "troupe/runtime.h"
#include "troupe/scope.h"
#include "troupe/shape.h"
#include "troupe/status.h"
#include "troupe/tensor.h"

namespace TROUPE_EXPORT troupe {

// What an actor gets for each run of a node that calls it. It answers with an actor_answer, at once
// or later (a promise, a delegated request). The tensors are shared with the step: they must not be
// written to.
struct actor_call {
  std::string node;  // full name
  int64_t step = 0;  // of its session
  std::vector<Tensor> tensors;
};
// A status that is not OK ends the step with it; otherwise there is one tensor for each output of
// the node, of its type, and of its shape as far as that was given.
struct actor_answer {
  absl::Status status;
  std::vector<Tensor> tensors;
};

// From now on nodes on any device of this runtime that call `name` call this actor, also in place
// of another that had the name: on all devices, or after an error on none. Steps that are under way
// keep the one they have asked. An actor that dies keeps its name: calls fail until the name is
// given to another. A node on another process's device calls the actor of that process's runtime.
// INVALID_ARGUMENT: an empty name, no actor, or one of another actor system of this process: a
// runtime for actors of the program is started by StartRuntimeIn, a server by Server::StartIn.
absl::Status NameActor(const Runtime& runtime, const std::string& name, const caf::actor& actor);
// NOT_FOUND: no actor has the name.
absl::Status UnnameActor(const Runtime& runtime, const std::string& name);

struct CallActorOptions {
  // In ms, of one call; a step's own deadline ends it sooner. At least 1.
  int64_t timeout_ms = 10000;
  // Of the outputs, where they are known: none, or one for each.
  std::vector<PartialTensorShape> shapes = {};
  // The actor that is called for the gradient: with the inputs, the outputs, and the gradient of
  // each output (zeros where none arrives), in this order. It answers with the gradient of each
  // input of a floating or complex type, which has the input's type and shape. Empty: the node has
  // no gradient, and Gradients says so. The gradient of the gradient is not known.
  std::string gradient_actor = {};
};

// Calls the actor with this name on the runtime in which the node is placed, with the values of
// `inputs`, once for each run of the node. Outputs: one for each of `types`. Inputs and outputs may
// have any type but resource and variant. Equal calls are not merged, and none is made when the
// graph is compiled.
//
// Errors of a step: FAILED_PRECONDITION, nobody has the name, or the actor does not take
// actor_call; UNAVAILABLE, it is dead or cannot be reached; DEADLINE_EXCEEDED, no answer in time;
// CANCELLED, the step was told to end; INVALID_ARGUMENT, the answer does not fit, or the values are
// too big for a message to or from another node (2 GiB); RESOURCE_EXHAUSTED, the answer passes the
// memory limit of the device, to which it is charged; what the actor answered.
OutputList CallActor(const ScopeAt& at, const std::string& name, const std::vector<Input>& inputs,
                     const std::vector<DType>& types, const CallActorOptions& options = {});

// Lets actor_call and actor_answer pass between nodes. To be called before the actor system is
// made.
void AddCallMessageTypes(caf::actor_system_config* config);

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, actor_call& x) {
  return f(caf::meta::type_name("actor_call"), x.node, x.step, x.tensors);
}
caf::error inspect(caf::serializer& f, actor_answer& x);
caf::error inspect(caf::deserializer& f, actor_answer& x);

}  // namespace troupe

// Beside those of troupe/actors.h.
CAF_BEGIN_TYPE_ID_BLOCK(troupe_calls, first_custom_type_id + 640)
CAF_ADD_TYPE_ID(troupe_calls, (troupe::actor_call))
CAF_ADD_TYPE_ID(troupe_calls, (troupe::actor_answer))
CAF_END_TYPE_ID_BLOCK(troupe_calls)

#endif  // TROUPE_OPEN_CAST_H_
