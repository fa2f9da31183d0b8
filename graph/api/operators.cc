#include "troupe/operators.h"

#include "graph/api/scope_state.h"
#include "troupe/emit.h"

namespace troupe {

namespace {

using internal::ScopeState;

// The scope in which an operator of these operands builds. An operand that came from no builder (of
// an import, a bare NodeOut) stands for the root scope over its graph. Null when there is no scope:
// then the result is invalid, and the builder that takes it reports that.
std::shared_ptr<const ScopeState> PlaceFor(std::initializer_list<const OutputAt*> operands) {
  std::shared_ptr<const ScopeState> place;
  for (const OutputAt* o : operands) {
    auto s = o->out().scope_state();
    if (s == nullptr && o->out().valid()) s = internal::RootOver(*o->out().node()->graph());
    if (s == nullptr) continue;
    const auto& active = s->shared->active;
    ControlFlowContext* const here = active.empty() ? nullptr : active.back()->context;
    if (here == s->context) {
      place = s;
      break;
    }
    if (place != nullptr) continue;
    if (!active.empty()) {
      place = active.back();
    } else {
      // A value of a loop that is built: it cannot be used out here, and Emit says so.
      auto outside = std::make_shared<ScopeState>(*s);
      outside->context = nullptr;
      place = std::move(outside);
    }
  }
  if (place == nullptr || (place->control.empty() && place->colocate == nullptr)) return place;
  auto plain = std::make_shared<ScopeState>(*place);
  plain->control.clear();
  plain->colocate = nullptr;
  return plain;
}

Output Build(const char* name, const char* op, std::initializer_list<const OutputAt*> operands,
             const std::vector<Input>& inputs) {
  const auto place = PlaceFor(operands);
  if (place == nullptr) return Output(NodeOut{nullptr, internal::kBuiltNowhere});
  const SourceLocation& here = (*operands.begin())->location();
  return EmitOp(ScopeAt(Scope(place, name), place->pinned.known() ? place->pinned : here), op, inputs).output(0);
}

const char* Plus(DType t) { return t == DType::kString ? "Add" : "AddV2"; }
const char* Over(DType t) { return IsInteger(BaseType(t)) ? "TruncateDiv" : "RealDiv"; }

}  // namespace

#define TROUPE_OUTPUT_OPERATOR(symbol, name, op)                 \
  Output operator symbol(const OutputAt& a, const OutputAt& b) { \
    [[maybe_unused]] const DType t = a.out().dtype();            \
    return Build(name, op, {&a, &b}, {a.out(), b.out()});        \
  }                                                              \
  Output operator symbol(const OutputAt& a, const Literal& b) {  \
    [[maybe_unused]] const DType t = a.out().dtype();            \
    return Build(name, op, {&a}, {a.out(), b});                  \
  }                                                              \
  Output operator symbol(const Literal& a, const OutputAt& b) {  \
    [[maybe_unused]] const DType t = b.out().dtype();            \
    return Build(name, op, {&b}, {a, b.out()});                  \
  }
TROUPE_OUTPUT_OPERATOR(+, "add", Plus(t))
TROUPE_OUTPUT_OPERATOR(-, "sub", "Sub")
TROUPE_OUTPUT_OPERATOR(*, "mul", "Mul")
TROUPE_OUTPUT_OPERATOR(/, "truediv", Over(t))
TROUPE_OUTPUT_OPERATOR(<, "Less", "Less")
TROUPE_OUTPUT_OPERATOR(<=, "LessEqual", "LessEqual")
TROUPE_OUTPUT_OPERATOR(>, "Greater", "Greater")
TROUPE_OUTPUT_OPERATOR(>=, "GreaterEqual", "GreaterEqual")
#undef TROUPE_OUTPUT_OPERATOR

Output operator-(const OutputAt& a) { return Build("Neg", "Neg", {&a}, {a.out()}); }
Output operator!(const OutputAt& a) { return Build("LogicalNot", "LogicalNot", {&a}, {a.out()}); }

}  // namespace troupe
