// Graphs in text form that a session runs, on one device or on several.
#ifndef TROUPE_TESTS_PASSES_SESSION_GRAPHS_H_
#define TROUPE_TESTS_PASSES_SESSION_GRAPHS_H_

#include <string>
#include <vector>

#include "troupe/session.h"

namespace troupe::test {

// A way to run a graph: how many devices there are and which passes choose.
struct Mode {
  std::string what;
  int devices = 1;
  bool use_cost_model = false;
  bool optimize = true;  // fold, merge, fuse
};

// One device with and without the optimizing passes, several devices, several with the cost model.
std::vector<Mode> AllModes();

absl::StatusOr<std::unique_ptr<Session>> SessionFor(const std::string& graph, const Mode& mode);

// A float32 scalar with all its bits, in hexadecimal; other tensors as they are printed.
std::string Bits(const Tensor& t);

// Runs target "init" and then `steps` steps with x:0 fed with the step's number, if the graph has
// an x. The values as Bits, a line a step; or the error. Bounded: a step that takes half a minute
// is an error.
std::string RunSteps(const std::string& graph, const Names& fetches, const Names& targets, int steps, const Mode& mode);

}  // namespace troupe::test

#endif  // TROUPE_TESTS_PASSES_SESSION_GRAPHS_H_
