#include "actors/wire/step_report.h"

#include <cstdio>

#include "troupe/status.h"

namespace troupe {

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, StepReport::Link& x) {
  return f(x.key, x.iteration, x.grant);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, StepReport::Chain& x) {
  return f(x.lines, x.gives);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, StepReport::Root& x) {
  return f(x.text, x.nanos, x.takes, x.chains, x.later, x.waits);
}
caf::error inspect(caf::serializer& f, StepReport& x) { return f(x.running, x.roots, x.holders); }
caf::error inspect(caf::deserializer& f, StepReport& x) { return f(x.running, x.roots, x.holders); }

std::string DurationText(int64_t nanos) {
  const int64_t ms = nanos / 1000000;
  if (ms < 1000) return StrCat(ms, " ms");
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ms) / 1000);
  return text;
}

}  // namespace troupe
