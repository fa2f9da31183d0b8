// The two ways in which replicas come to the sum of their vectors, and how they gather what each of
// them has.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_GRAPH_TRAIN_EXCHANGE_H_
#define TROUPE_GRAPH_TRAIN_EXCHANGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/scope.h"

namespace troupe::train {

// Replicas 0, 1, ..., each of which builds in a scope on its device.
class Exchange {
 public:
  Exchange(const Scope& s, const std::vector<std::string>& devices);

  size_t size() const { return on_.size(); }
  const Scope& on(size_t replica) const { return on_[replica]; }

  // The sum, or the mean, of vectors of one length, at each replica. `elements`: their length,
  // where it is known; else -1. REQUIRES: two replicas at least.
  std::vector<Output> Ring(const std::vector<Output>& vectors, int64_t elements, bool mean) const;
  std::vector<Output> HalvingAndDoubling(const std::vector<Output>& vectors, int64_t elements, bool mean) const;
  // Those of all replicas behind each other along the first dimension, at each replica.
  std::vector<Output> Gather(const std::vector<Output>& values) const;

 private:
  // `vector` in pieces of about the same length, the longer ones first.
  std::vector<Output> Cut(size_t replica, const Output& vector, int64_t elements, int64_t pieces) const;
  Output Join(size_t replica, const std::vector<Output>& pieces) const;
  Output Add(size_t replica, const Output& a, const Output& b) const;
  Output Mean(size_t replica, const Output& sum, bool mean) const;
  Output Copy(size_t replica, const Output& value) const;

  std::vector<Scope> on_;
};

}  // namespace troupe::train

#endif  // TROUPE_GRAPH_TRAIN_EXCHANGE_H_
