// Tensors of one type behind each other in one vector: small ones that go the same way to another
// task go as one, since a message costs more than their bytes.
//
// Thread rule: as for the scope, one thread at a time.
#ifndef TROUPE_GRAPH_TRAIN_JOINED_H_
#define TROUPE_GRAPH_TRAIN_JOINED_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "troupe/scope.h"

namespace troupe::train {

// Their elements, in this order; `tensors` have one type and these shapes, which are fully defined.
Output Joined(const Scope& here, const std::vector<Output>& tensors, const std::vector<PartialTensorShape>& shapes);
// The tensors of these shapes of which `joined` was made.
std::vector<Output> TakenApart(const Scope& here, const Output& joined, const std::vector<PartialTensorShape>& shapes);

// For tensors that go to or from the servers of variables: those of one type and one device in
// vectors of at most `most_bytes`, larger ones alone.
class JoinedByDevice {
 public:
  explicit JoinedByDevice(int64_t most_bytes) : most_bytes_(most_bytes) {}
  // `device`: of the server that has it, as it is asked for. `shape` is fully defined.
  void Add(const std::string& device, const Output& tensor, const PartialTensorShape& shape);
  // The tensors that were added, in that order, as they are at the other end. A vector is joined in
  // `from(i)` and taken apart in `to(i)`, where i is the number of its first tensor.
  std::vector<Output> Send(const std::function<Scope(size_t)>& from, const std::function<Scope(size_t)>& to) const;

 private:
  const int64_t most_bytes_;
  std::vector<Output> tensors_;
  std::vector<PartialTensorShape> shapes_;
  std::vector<std::vector<size_t>> vectors_;  // numbers of tensors
  struct Open {
    size_t vector;  // in vectors_
    int64_t bytes;
  };
  std::map<std::pair<std::string, DType>, Open> open_;
};

}  // namespace troupe::train

#endif  // TROUPE_GRAPH_TRAIN_JOINED_H_
