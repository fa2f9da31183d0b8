// A GraphDef made of bytes: each byte is a choice, so whatever libFuzzer changes gives another
// graph that is nearly valid. Ops, attrs, types, values and edges come from the registry's own
// lists and from small sets of values that are often wrong: negative, empty, huge, of another rank.
#ifndef TROUPE_TESTS_FUZZ_RANDOM_GRAPH_H_
#define TROUPE_TESTS_FUZZ_RANDOM_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "troupe/op_def.h"
#include "troupe/proto/graph.pb.h"

namespace troupe::fuzz {

// Choices read from bytes; zeros when they are used up.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ >= size_; }
  uint32_t Byte() { return at_ < size_ ? data_[at_++] : 0; }
  // In [0, n); n >= 1.
  uint32_t Pick(uint32_t n) { return n <= 256 ? Byte() % n : (Byte() << 8 | Byte()) % n; }
  bool Seldom() { return Byte() >= 240; }

 private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

struct RandomGraph {
  proto::GraphDef def;
  std::vector<std::string> outputs;  // every node's tensors, "name:k"
};

// At most `max_nodes` ops, besides the constants that they need.
RandomGraph MakeGraph(Bytes* bytes, int max_nodes);

}  // namespace troupe::fuzz

#endif  // TROUPE_TESTS_FUZZ_RANDOM_GRAPH_H_
