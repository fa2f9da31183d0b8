// The statistics of a step: what each of its parts measured, and what other processes measured, in
// one clock.
//
// Thread rule: pure functions. All throw std::bad_alloc.
#ifndef TROUPE_ACTORS_TRACE_STEP_STATISTICS_H_
#define TROUPE_ACTORS_TRACE_STEP_STATISTICS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "actors/executor/compiled_part.h"
#include "actors/trace/clock_bounds.h"
#include "actors/wire/part_messages.h"
#include "troupe/proto/config.pb.h"

namespace troupe {

// Adds the runs of a part's nodes, and why they ran when they did. `begin`: of the step, here.
void AddPartStatistics(const CompiledPart& part, const std::vector<node_run>& runs, int64_t begin,
                       proto::RunMetadata* metadata);

// What AddPartStatistics made in another process. False when it is no such thing, or has times that
// no clock tells.
bool ReadStatistics(const std::string& bytes, proto::RunMetadata* metadata);

// What another process measured of a step, in the clock of that process.
struct OtherStatistics {
  std::string task;
  proto::RunMetadata metadata;
  ClockBounds clock;
};
// Adds them all, in the clock of this process. Tensors that passed between processes bound their
// clocks further.
void AddAligned(std::vector<OtherStatistics> others, proto::RunMetadata* metadata);

}  // namespace troupe

#endif  // TROUPE_ACTORS_TRACE_STEP_STATISTICS_H_
