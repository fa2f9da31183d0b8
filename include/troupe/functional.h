// Map, Fold and Scan: a function applied to the rows of tensors along dimension 0, as a loop.
//
//   Output squares = Map(scope, x, [](const Scope&, const Output& row) { return row * row; });
//   Output sum = Fold(scope, x, 0.0f, [](const Scope&, const Output& sum, const Output& row) { return sum + row; });
//   Output sums = Scan(scope, x, 0.0f, [](const Scope&, const Output& sum, const Output& row) { return sum + row; });
//
// Each takes several tensors of equal first dimension at once, and several accumulators. The rows
// live in TensorArrays; iterations of a Map that do not depend on each other may run side by side.
// Gradients flow through all of it. The function's results may have any types; those of Fold and
// Scan keep the types and shapes of the initial accumulators. Map of no rows needs results of
// statically known shape.
//
// Errors are the scope's: no tensors, scalars, first dimensions that are known to differ, and the
// errors of While.
//
// Source of the semantics: tf.map_fn, tf.foldl and tf.foldr (`reverse`), tf.scan; the loops are
// those of section 4.4 of TensorFlow's white paper.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_FUNCTIONAL_H_
#define TROUPE_FUNCTIONAL_H_

#include <functional>

#include "troupe/export.h"
#include "troupe/scope.h"

namespace TROUPE_EXPORT troupe {

struct LoopOptions {
  int64_t parallel_iterations = 10;
  bool back_prop = true;
  bool reverse = false;  // Fold and Scan: from the last row to the first; results stay in the rows' order
};

using MapFn = std::function<OutputList(const Scope&, const OutputList& row)>;
using FoldFn = std::function<OutputList(const Scope&, const OutputList& accumulators, const OutputList& row)>;

// The function's results for every row, packed. Named "map" unless WithOpName says otherwise; so
// "fold" and "scan".
OutputList Map(const ScopeAt& at, const OutputList& elems, const MapFn& fn, const LoopOptions& options = {});
// The accumulators after the last row. Without initial ones, the first row (the last one in
// reverse) is where they begin.
OutputList Fold(const ScopeAt& at, const OutputList& elems, const InputList& initial, const FoldFn& fn,
                const LoopOptions& options = {});
// The accumulators after every row, packed.
OutputList Scan(const ScopeAt& at, const OutputList& elems, const InputList& initial, const FoldFn& fn,
                const LoopOptions& options = {});

// With one tensor and one accumulator.
using MapOneFn = std::function<Output(const Scope&, const Output& row)>;
using FoldOneFn = std::function<Output(const Scope&, const Output& accumulator, const Output& row)>;
Output Map(const ScopeAt& at, const Output& elems, const MapOneFn& fn, const LoopOptions& options = {});
Output Fold(const ScopeAt& at, const Output& elems, const Input& initial, const FoldOneFn& fn,
            const LoopOptions& options = {});
Output Scan(const ScopeAt& at, const Output& elems, const Input& initial, const FoldOneFn& fn,
            const LoopOptions& options = {});

}  // namespace troupe

#endif  // TROUPE_FUNCTIONAL_H_
