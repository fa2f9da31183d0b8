// Sparse gradients: the gradient of a table of which a step reads some rows.
//
// The gradient of a Gather, a ResourceGather or an EmbeddingLookup with respect to the table is a
// tensor as large as the table, of which most rows are zeros. It is built as slices: an
// UnsortedSegmentSum of `values` by `indices`, marked by an attr (troupe/slices_mark.h). To any op
// it is the dense tensor, which is computed where something uses it. Whoever can do with the slices
// (the optimizers, clipping) takes values and indices from it instead, and then the dense tensor is
// never made.
//
// Source of the semantics: tf.IndexedSlices; section 4.2 of "TensorFlow: A System for Large-Scale
// Machine Learning" (2016) says what it is for.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_INDEXED_SLICES_H_
#define TROUPE_INDEXED_SLICES_H_

#include <optional>

#include "troupe/export.h"
#include "troupe/scope.h"
#include "troupe/slices_mark.h"

namespace TROUPE_EXPORT troupe {

// The tensor of shape `dense_shape` whose row indices[i] (of dimension 0) is values[i]: the sum of
// them where a row is named more than once, zeros where it is not named.
struct IndexedSlices {
  Output values;       // [number of slices] + dense_shape[1:]
  Output indices;      // a vector, int32 or int64
  Output dense_shape;  // a vector, int64
};

// The slices that x was built of; nothing when x is another tensor.
std::optional<IndexedSlices> SlicesOf(const ScopeAt& at, const Output& x);
// The dense tensor, of which SlicesOf gives the slices again.
Output FromSlices(const ScopeAt& at, const IndexedSlices& slices);
// Slices of the same tensor in which no index comes twice: values of one row are summed.
IndexedSlices SumDuplicates(const ScopeAt& at, const IndexedSlices& slices);

}  // namespace troupe

#endif  // TROUPE_INDEXED_SLICES_H_
