// The most memory that the tensors of a step take: for `troupe run --memory`.
//
// Thread rule: the main thread only.
#ifndef TROUPE_TOOLS_TROUPE_PEAK_MEMORY_H_
#define TROUPE_TOOLS_TROUPE_PEAK_MEMORY_H_

#include <string>

#include "tools/troupe/commands.h"
#include "troupe/graph.h"
#include "troupe/session.h"
#include "troupe/step_memory.h"

namespace troupe::tool {

struct PeakMemory {
  StepMemory predicted;
  int64_t measured_bytes = 0;  // beyond what was in use before the step
};

// Predicts the step of the flags' fetches and targets from the graph.
absl::Status PredictPeak(const Graph& graph, const RunFlags& flags, const Feeds& feeds, PeakMemory* memory);

// Measures a step from its making on.
class PeakMeter {
 public:
  explicit PeakMeter(const Session& session);
  int64_t Bytes() const;

 private:
  const Session& session_;
  int64_t before_;
};

std::string JsonOf(const PeakMemory& memory);
// Lines.
std::string TextOf(const PeakMemory& memory);

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_PEAK_MEMORY_H_
