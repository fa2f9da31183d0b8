#include "tools/troupe/peak_memory.h"

#include <algorithm>
#include <vector>

#include "tools/troupe/value_text.h"

namespace troupe::tool {
namespace {

// The devices of the session may share an allocator, and then report the same.
int64_t InUse(const Session& session, bool peak) {
  int64_t most = 0;
  for (const DeviceStatus& d : session.runtime()->devices())
    most = std::max(most, peak ? d.memory.peak_bytes_in_use : d.memory.bytes_in_use);
  return most;
}

}  // namespace

PeakMeter::PeakMeter(const Session& session) : session_(session) {
  session.runtime()->ResetPeakMemory();
  before_ = InUse(session, /*peak=*/false);
}

int64_t PeakMeter::Bytes() const { return InUse(session_, /*peak=*/true) - before_; }

absl::Status PredictPeak(const Graph& graph, const RunFlags& flags, const Feeds& feeds, PeakMemory* memory) {
  std::vector<std::string> names;
  StepMemoryOptions options;
  for (const auto& [name, value] : feeds) {
    names.push_back(name);
    options.feed_shapes.emplace_back(value.shape());
  }
  TROUPE_ASSIGN_OR_RETURN(memory->predicted, PredictStepMemory(graph, names, flags.fetches, flags.targets, options));
  return absl::OkStatus();
}

std::string JsonOf(const PeakMemory& memory) {
  const StepMemory& p = memory.predicted;
  std::string text =
      StrCat("{\"predicted_bytes\": ", p.peak_bytes, ", \"measured_bytes\": ", memory.measured_bytes,
             ", \"peak_node\": ", JsonString(p.peak_node), ", \"tensors_of_unknown_size\": ", p.num_unknown,
             ", \"tensors_of_assumed_size\": ", p.num_assumed, ", \"has_loops\": ", p.has_loops ? "true" : "false",
             ", \"holders\": [");
  for (size_t i = 0; i < p.holders.size(); ++i) {
    StrAppend(&text, i > 0 ? ", " : "", "{\"what\": ", JsonString(p.holders[i].what),
              ", \"bytes\": ", p.holders[i].bytes, "}");
  }
  return text + "]}";
}

std::string TextOf(const PeakMemory& memory) {
  const StepMemory& p = memory.predicted;
  std::string text = StrCat("a step's tensors take at most ", p.peak_bytes, " bytes by their shapes, ",
                            memory.measured_bytes, " measured\n");
  if (!p.peak_node.empty()) StrAppend(&text, "  most when node '", p.peak_node, "' runs; the largest are then:\n");
  for (const StepMemory::Holder& h : p.holders) StrAppend(&text, "  ", h.bytes, " of ", h.what, "\n");
  if (p.num_unknown > 0) StrAppend(&text, "  not counted: ", p.num_unknown, " tensors whose size is not known\n");
  if (p.num_assumed > 0) StrAppend(&text, "  unknown dimensions of ", p.num_assumed, " tensors count as 1\n");
  if (p.has_loops) text += "  of each loop one iteration is counted\n";
  return text;
}

}  // namespace troupe::tool
