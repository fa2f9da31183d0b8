// Compositions: small graphs of many ops, loops, variables and gradients, with what TensorFlow
// makes of them.
//
// Ops that are right one by one may be wrong together: a pass moves a read before a write, a
// placement separates a variable from its slots, a gradient of a gradient forgets a loop. So whole
// graphs are compared, in every mode of a session. tools/compositions writes such cases, live or as
// a recording (cases/compositions). tests/cases/README.md tells their form.
#ifndef TROUPE_TESTS_DIFFERENTIAL_COMPOSITION_H_
#define TROUPE_TESTS_DIFFERENTIAL_COMPOSITION_H_

#include <istream>
#include <string>
#include <vector>

#include "troupe/proto/graph.pb.h"
#include "troupe/session.h"
#include "troupe/tensor.h"

namespace troupe::test {

struct Fetch {
  std::string name;
  double tolerance = 0;
  Tensor want;
};
struct Step {
  Names targets;
  std::vector<Fetch> fetches;
};
struct GradientsOf {
  std::string name;
  bool may_refuse = false;
  Names ys, xs;
  std::vector<bool> connected;
};
struct Composition {
  std::string name;
  int devices = 1;
  proto::GraphDef graph;
  std::vector<GradientsOf> gradients;
  Feeds feeds;
  std::vector<Step> steps;
};

// The next case; NOT_FOUND at the end, INVALID_ARGUMENT for what has another form.
absl::StatusOr<Composition> ReadComposition(std::istream& in);

struct Mode {
  std::string name;
  SessionOptions options;
  bool through_text = false;  // the graph is printed as text and read again
};
// Every way in which a graph is treated: passes on and off, threads, tokens as messages, placement,
// and once more as text.
const std::vector<Mode>& Modes();

// What differs from what TensorFlow did, one line each; empty when all is as it should be, and when
// the mode has too few devices.
std::vector<std::string> RunComposition(const Composition& composition, const Mode& mode);

}  // namespace troupe::test

#endif  // TROUPE_TESTS_DIFFERENTIAL_COMPOSITION_H_
