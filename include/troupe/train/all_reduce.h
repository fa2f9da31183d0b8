// All-reduce: the sum, or the mean, of a value that each replica has computed, at each of them, and
// without a parameter server.
//
//   const std::vector<std::string> devices = {"/device:CPU:0", "/device:CPU:1"};
//   std::vector<Output> grads;  // grads[r] is computed on devices[r]; all have one shape
//   for (const std::string& d : devices) grads.push_back(ops::Const(root.WithDevice(d), {1.0f, 2.0f}));
//   std::vector<Output> means = train::AllReduce(root, grads, devices, {.mean = true});
//
// It is built of ordinary nodes that stand on the replicas' devices. What passes between two
// devices is an edge between them, so it is sent, cancelled, and fails as everything else of a
// step. The value is taken as one long vector, of n elements at each of N replicas:
//
// kRing. The vector is cut into N chunks. Chunk c starts at replica c and goes around the ring
// 0, 1, ... N-1, 0; each replica adds its own. The sum goes around once more. Each link carries
// 2 n (N-1)/N elements, in one direction; 2 (N-1) messages are behind each other.
//
// kTree. Recursive halving and doubling: in each round, replicas whose numbers differ in one bit
// exchange halves of what they have and add; then the sums go back the same way. A replica sends
// 2 n (N-1)/N elements, as in the ring, n of them over one link at most, and only 2 log2(N)
// messages are behind each other: better where the time of a message counts, and where all links
// are equally fast. (A binary tree would have as many rounds, but all n elements would pass each of
// its inner nodes several times.) The sum of each element is a balanced tree, so less is lost by
// rounding. Of N that is no power of two, as many replicas as are too many give their whole value
// to another one first, and are given the result: n elements more on that link, each way.
//
// Bits. The order of the sum of each element is part of the graph, so it is the same in each run
// and whoever is first; and each sum is computed once and handed on, so all replicas have equal
// bits. Another N, algorithm or size of buckets may give other last bits. Sums are of the value's
// type: those of half may overflow where the mean would not. The mean is the sum divided by N, of
// integers truncated towards zero; N must be a number of the type.
//
// Shapes. Values may have any shape, and any number of elements: fewer than replicas, one, none.
// Where a shape is known only when it runs, replicas compare theirs with their neighbour's first: a
// step with unequal ones is INVALID_ARGUMENT.
//
// Slices. Where the values are slices of a table (troupe/indexed_slices.h) at all replicas, so are
// the results: indices and values of all replicas behind each other, in their order; they go around
// the ring, with either algorithm. The values of a mean are divided each, which integers are not.
//
// Source of the algorithms: P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for
// clusters of workstations" (2009) for the ring; R. Thakur, R. Rabenseifner and W. Gropp,
// "Optimization of collective communication operations in MPICH" (2005) for halving and doubling.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_ALL_REDUCE_H_
#define TROUPE_TRAIN_ALL_REDUCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/scope.h"

namespace troupe {
namespace TROUPE_EXPORT train {

struct AllReduceOptions {
  enum Algorithm : uint8_t { kRing, kTree };
  Algorithm algorithm = kRing;
  bool mean = false;  // else the sum
  // Of several values: those whose shapes are known are put together, by type and in their order,
  // as long as a bucket has no more than so many bytes. 0: each value is sent by itself.
  int64_t bucket_bytes = int64_t{4} << 20;
  std::string name = "all_reduce";  // of the sub-scope
};

// Of one value: values[r] is that of replica r, which is computed on devices[r]; result r is there,
// too. "" is a device that is not asked for.
//
// Errors, of the scope: INVALID_ARGUMENT when there are no replicas, not as many devices as values,
// when the replicas' types or shapes differ, or a type has no sum; of a mean over several replicas,
// when the value is slices of integers, or its type has no N (int8 of 128 replicas).
std::vector<Output> AllReduce(const ScopeAt& at, const std::vector<Output>& values,
                              const std::vector<std::string>& devices, const AllReduceOptions& options = {});
// Of several values: values[r][i] is the i-th of replica r, and so are the results. One that is
// invalid at all replicas, as the gradient of a variable that no loss depends on, stays so.
std::vector<std::vector<Output>> AllReduceLists(const ScopeAt& at, const std::vector<std::vector<Output>>& values,
                                                const std::vector<std::string>& devices,
                                                const AllReduceOptions& options = {});

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_ALL_REDUCE_H_
