// Where a training step's time goes: the median of each node over a number of steps, summed by op.
#ifndef TROUPE_EXAMPLES_MNIST_PROFILE_H_
#define TROUPE_EXAMPLES_MNIST_PROFILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "troupe/troupe.h"

namespace troupe::proto {
class RunMetadata;
}

namespace mnist {

class StepProfile {
 public:
  // Adds what one step's metadata says.
  void Add(const troupe::proto::RunMetadata& metadata);
  // Adds how long the caller saw a step without statistics take, and how long making its batch
  // took.
  void AddStep(int64_t batch_nanos, int64_t step_nanos);
  // A table on stdout: ops by the time they take, then the slowest nodes.
  void Print() const;

 private:
  std::map<std::string, std::vector<int64_t>> nanos_;  // by timeline label, "name = Op"
  std::vector<int64_t> batches_, steps_;
};

}  // namespace mnist

#endif  // TROUPE_EXAMPLES_MNIST_PROFILE_H_
