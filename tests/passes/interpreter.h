// Runs graphs of "Test..." ops on int32 tensors, one token after the other: slow, but simple enough
// to be believed. Passes must not change what it finds.
//
// It follows the white paper, section 4.4: tokens carry a frame and an iteration, dead ones travel,
// Send and Recv meet by their names and tag.
#ifndef TROUPE_TESTS_PASSES_INTERPRETER_H_
#define TROUPE_TESTS_PASSES_INTERPRETER_H_

#include <map>
#include <string>
#include <vector>

#include "troupe/graph.h"

namespace troupe {

struct Interpretation {
  // By index of _Retval: the value as text, "dead", or absent when it never came.
  std::map<int64_t, std::string> retvals;
  std::vector<std::string> printed;  // what TestPrint nodes saw, sorted: their side effects
  int messages = 0;                  // that crossed
  int unclaimed = 0;                 // sent, but never received
  std::vector<std::string> stuck;    // Recvs that wait for ever
};

// Runs the parts together. `args` by index of _Arg. A test failure for ops it does not know.
Interpretation Interpret(const std::vector<const Graph*>& parts, const std::vector<Tensor>& args);

// One node's outputs.
std::vector<Tensor> ComputeTestOp(const Node& node, const std::vector<Tensor>& inputs);

}  // namespace troupe

#endif  // TROUPE_TESTS_PASSES_INTERPRETER_H_
