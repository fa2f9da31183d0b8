// The answer of one part to the question what its step waits for.
//
// A part knows its roots: nodes that run, or wait for something from outside of the part (a tensor,
// a feed, a grant). All other waiting nodes wait for these. How a chain continues in another part
// is known only when all parts have answered (actors/watch/stall_report.h). So a part reports, for
// each root, the nodes that lead from it to where a value would leave the part.
//
// Thread rule: plain values.
#ifndef TROUPE_ACTORS_WIRE_STEP_REPORT_H_
#define TROUPE_ACTORS_WIRE_STEP_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "actors/wire/iteration_path.h"
#include "troupe/runtime.h"

namespace troupe {

struct StepReport {
  // A tensor or a grant that passes between two parts.
  struct Link {
    std::string key;  // of the edge; empty: nothing
    IterationPath iteration;
    bool grant = false;  // the leave to send the value, not the value
    friend bool operator==(const Link&, const Link&) = default;
  };
  // Nodes of which each waits for the one before it, and the first for the root.
  struct Chain {
    std::vector<std::string> lines;
    Link gives;  // what its last node would hand to another part
  };
  struct Root {
    std::string text;   // one line: node, op, device, iteration, what it does, for how long
    int64_t nanos = 0;  // how long; 0: not known
    Link takes;         // what it waits for from another part
    std::vector<Chain> chains;
    std::vector<std::string> later;  // keys of values that are sent in iterations which cannot begin before this
    std::string waits = {};          // the name of a node whose kernel waits (KernelWait); else empty
  };
  bool running = false;               // false: the part has no step, or is done with its share
  std::vector<Root> roots;            // the oldest first
  std::vector<MemoryHolder> holders;  // the ten nodes that hold most of the device's memory
};

caf::error inspect(caf::serializer& f, StepReport& x);
caf::error inspect(caf::deserializer& f, StepReport& x);

// "340 ms", "3.2 s".
std::string DurationText(int64_t nanos);

}  // namespace troupe

#endif  // TROUPE_ACTORS_WIRE_STEP_REPORT_H_
