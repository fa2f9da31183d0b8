// Which iteration of the loops around an edge a value belongs to, in a message between parts.
//
// Thread rule: a plain value.
#ifndef TROUPE_ACTORS_WIRE_ITERATION_PATH_H_
#define TROUPE_ACTORS_WIRE_ITERATION_PATH_H_

#include <cstdint>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "actors/wire/wire.h"

namespace troupe {

// One iteration, exactly: its number in each loop around it, the outermost loop first; none outside
// of loops. Which loops these are is not said: an edge lies in the same ones in every part.
struct IterationPath {
  absl::InlinedVector<int64_t, 2> numbers;

  friend bool operator==(const IterationPath& a, const IterationPath& b) { return a.numbers == b.numbers; }
  friend bool operator<(const IterationPath& a, const IterationPath& b) { return a.numbers < b.numbers; }
  template <class H>
  friend H AbslHashValue(H h, const IterationPath& p) {
    return H::combine(std::move(h), p.numbers);
  }
};

caf::error inspect(caf::serializer& f, IterationPath& x);
caf::error inspect(caf::deserializer& f, IterationPath& x);

}  // namespace troupe

#endif  // TROUPE_ACTORS_WIRE_ITERATION_PATH_H_
