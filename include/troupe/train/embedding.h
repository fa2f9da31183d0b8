// Rows of a table that is trained: embeddings of words, users, items.
//
// The gradient of a lookup consists of the rows that were read (troupe/indexed_slices.h), and so
// does the update that an optimizer makes of it: a step costs what its rows cost, however large the
// table is. A table may be parted among several variables, which may live on several devices.
//
// Source of the semantics: tf.nn.embedding_lookup and embedding_lookup_sparse (without max_norm);
// section 4.2 of "TensorFlow: A System for Large-Scale Machine Learning" (2016) for tables on
// several devices.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_EMBEDDING_H_
#define TROUPE_TRAIN_EMBEDDING_H_

#include <vector>

#include "troupe/export.h"
#include "troupe/variable.h"

namespace troupe {
namespace TROUPE_EXPORT train {

// Which part has row i of a table of n rows in k parts.
enum class Parting {
  kMod,  // part i mod k, as its row i / k
  kDiv,  // one run of rows after the other, the first n mod k parts one row longer than the rest
};

// table[ids], of shape `ids` + table[1:]. `ids`: int32 or int64, of any shape; one that is not in
// the table is INVALID_ARGUMENT in the step.
Output EmbeddingLookup(const ScopeAt& at, const Variable& table, const Output& ids);
// The same of a table in variable parts. The scope's error when there is no part, or when the
// parts' numbers of rows are not known (kDiv).
Output EmbeddingLookup(const ScopeAt& at, const std::vector<Variable>& parts, const Output& ids,
                       Parting parting = Parting::kMod);

// Lists of ids, one for each row, as a sparse matrix: id values[k] belongs to row indices[k, 0]. It
// is what ParseExample gives of a feature of any length.
struct SparseIds {
  Output indices;      // int64 [n, 2], by rows
  Output values;       // int32 or int64 [n]
  Output dense_shape;  // int64 [2]: the number of rows is dense_shape[0]
};
enum class Combiner {
  kSum,
  kMean,   // the sum divided by that of the weights
  kSqrtN,  // the sum divided by the root of the sum of the squared weights
};
// One vector for each row, [rows] + table[1:]: the rows of the table for its ids, times their
// `weights` [n] (1 where there are none), combined. A row without ids is zero.
Output EmbeddingLookupSparse(const ScopeAt& at, const std::vector<Variable>& parts, const SparseIds& ids,
                             const Output& weights = {}, Combiner combiner = Combiner::kMean,
                             Parting parting = Parting::kMod);

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_EMBEDDING_H_
