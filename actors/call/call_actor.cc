// CallActor: a node whose kernel is a message to an actor of the program's.
#include <utility>

#include "actors/call/caller.h"
#include "actors/call/named_actors.h"
#include "actors/runtime/charge.h"
#include "actors/wire/remote_messages.h"
#include "actors/wire/wire.h"
#include "troupe/emit.h"
#include "troupe/gradient_function.h"
#include "troupe/op_def.h"
#include "troupe/open_cast.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

// Whether a tensor of this type means something to an actor elsewhere.
bool Crosses(DType t) { return t != DType::kResource && t != DType::kVariant; }

bool HasGradient(DType t) { return IsFloating(t) || IsComplex(t); }

class CallActorKernel {
 public:
  explicit CallActorKernel(KernelInit& init)
      : actor_(init.Attr<std::string>("actor")),
        timeout_(init.Attr<int64_t>("timeout_ms")),
        shapes_(init.Attr<std::vector<PartialTensorShape>>("output_shapes")) {
    for (int i = 0; i < init.num_inputs(); ++i) {
      if (!Crosses(init.input_type(i))) init.Fail(Refused("input ", i, init.input_type(i)));
    }
    for (int i = 0; i < init.num_outputs(); ++i) {
      if (!Crosses(init.output_type(i))) init.Fail(Refused("output ", i, init.output_type(i)));
    }
  }
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    auto who = FindNamedActor(*ctx.device(), actor_);
    if (!who.ok()) return done(who.status());
    actor_call message{std::string(ctx.node().name), ctx.step()->step_id, {}};
    for (int i = 0; i < ctx.num_inputs(); ++i) message.tensors.push_back(ctx.input(i));
    StartCall(
        ctx, *std::move(who), std::chrono::milliseconds(timeout_), std::move(message),
        [this, &ctx](std::vector<Tensor>&& tensors) { return Take(ctx, std::move(tensors)); }, std::move(done));
  }

 private:
  static absl::Status Refused(std::string_view what, int i, DType type) {
    return InvalidArgument(what, i, " has the type ", Name(type), ", which no message to an actor carries");
  }
  absl::Status Take(KernelContext& ctx, std::vector<Tensor>&& tensors) const {
    const auto wrong = [this](auto... what) { return InvalidArgument("actor '", actor_, "' answered with ", what...); };
    if (tensors.size() != static_cast<size_t>(ctx.num_outputs()))
      return wrong(tensors.size(), " tensors for ", ctx.num_outputs(), " outputs");
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Tensor& t = tensors[i];
      const DType type = ctx.output_type(static_cast<int>(i));
      if (!t.valid()) return wrong("no tensor for output ", i);
      if (t.dtype() != type) return wrong(Name(t.dtype()), " for output ", i, ", which is ", Name(type));
      if (i < shapes_.size() && !shapes_[i].IsCompatibleWith(t.shape()))
        return wrong("shape ", t.shape().DebugString(), " for output ", i, ", which has ", shapes_[i].DebugString());
    }
    // Without a limit there is nothing to be charged for, and nothing is copied.
    if (ctx.allocator()->stats().bytes_limit > 0) {
      for (size_t i = 0; i < tensors.size(); ++i) {
        if (ChargeTo(*ctx.device(), &tensors[i])) continue;
        return ResourceExhausted("no memory for output ", i, " of type ", Name(tensors[i].dtype()), " and shape ",
                                 tensors[i].shape().DebugString(), ", the answer of actor '", actor_,
                                 "', from allocator ", ctx.allocator()->name());
      }
    }
    for (size_t i = 0; i < tensors.size(); ++i) ctx.set_output(static_cast<int>(i), std::move(tensors[i]));
    return absl::OkStatus();
  }

  const std::string actor_;
  const int64_t timeout_;
  const std::vector<PartialTensorShape> shapes_;
};

absl::Status CallActorShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const auto shapes, c.Attr<std::vector<PartialTensorShape>>("output_shapes"));
  if (!shapes.empty() && shapes.size() != static_cast<size_t>(c.num_outputs()))
    return InvalidArgument("output_shapes has ", shapes.size(), " shapes for ", c.num_outputs(), " outputs");
  for (int i = 0; i < c.num_outputs(); ++i)
    c.set_output(i, shapes.empty() ? PartialTensorShape() : shapes[static_cast<size_t>(i)]);
  return absl::OkStatus();
}

absl::Status CallActorGradient(GradientContext& g) {
  const auto actor = g.Attr<std::string>("gradient_actor");
  if (actor.empty())
    return InvalidArgument("actor '", g.Attr<std::string>("actor"),
                           "' has no gradient: CallActorOptions.gradient_actor names who computes it");
  std::vector<NodeOut> values;
  for (int i = 0; i < g.num_inputs(); ++i) values.push_back(g.Input(i));
  for (int i = 0; i < g.num_outputs(); ++i) values.push_back(g.Output(i));
  for (int i = 0; i < g.num_outputs(); ++i) values.push_back(g.Grad(i));
  std::vector<int> wanted;
  std::vector<DType> types;
  std::vector<PartialTensorShape> shapes;
  for (int i = 0; i < g.num_inputs(); ++i) {
    if (!HasGradient(g.input_type(i))) continue;
    wanted.push_back(i);
    types.push_back(g.input_type(i));
    shapes.push_back(g.InputShape(i));
  }
  if (wanted.empty()) return absl::OkStatus();
  const NodeOut call = g.Op(
      "CallActor", std::vector<GradArg>{GradArg(values)},
      {{"actor", actor}, {"Tout", types}, {"output_shapes", shapes}, {"timeout_ms", g.Attr<int64_t>("timeout_ms")}});
  if (!g.status().ok()) return g.status();
  for (size_t i = 0; i < wanted.size(); ++i) g.Set(wanted[i], NodeOut{call.node, static_cast<int>(i)});
  return g.status();
}

TROUPE_OP("CallActor")
    .Input("inputs: Tin")
    .Output("outputs: Tout")
    .Attr("actor: string")
    .Attr("gradient_actor: string = ''")
    .Attr("timeout_ms: int >= 1 = 10000")
    .Attr("output_shapes: list(shape) = []")
    .Attr("Tin: list(type) >= 0")
    .Attr("Tout: list(type) >= 0")
    .Stateful()
    .Shape(CallActorShape)
    .Gradient(CallActorGradient)
    .Doc("Calls the actor of the program's that has this name, and waits without a thread for its answer.");
TROUPE_KERNEL("CallActor").Device("CPU").Class<CallActorKernel>();

}  // namespace

OutputList CallActor(const ScopeAt& at, const std::string& name, const std::vector<Input>& inputs,
                     const std::vector<DType>& types, const CallActorOptions& options) {
  AttrMap attrs;
  attrs.Set("actor", name);
  attrs.Set("gradient_actor", options.gradient_actor);
  attrs.Set("timeout_ms", options.timeout_ms);
  attrs.Set("output_shapes", options.shapes);
  attrs.Set("Tout", types);
  std::vector<DType> given;
  OutputList values;
  for (const Input& input : inputs) {
    values.push_back(AsOutput(at, input));
    given.push_back(BaseType(values.back().dtype()));
  }
  attrs.Set("Tin", given);
  const Operation call = EmitLists(at, "CallActor", {values}, std::move(attrs));
  return OutputsOf(call, "outputs");
}

void AddCallMessageTypes(caf::actor_system_config* config) { config->add_message_types<caf::id_block::troupe_calls>(); }

// In place of an answer that cannot cross its step gets the reason; of one that it cannot write CAF
// sends an empty message.
caf::error inspect(caf::serializer& f, actor_answer& x) {
  if (absl::Status crosses = CheckCross(x.tensors); !crosses.ok()) {
    actor_answer reason{std::move(crosses), {}};
    return inspect(f, reason);
  }
  wire::StatusFields status = wire::FieldsOf(x.status);
  return f(status, x.tensors);
}
caf::error inspect(caf::deserializer& f, actor_answer& x) {
  wire::StatusFields status;
  if (caf::error e = f(status, x.tensors)) return e;
  x.status = wire::StatusOf(status);
  return caf::none;
}

}  // namespace troupe
