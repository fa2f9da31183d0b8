// Partitioned variables: each is cut into variable parts, which may live on several devices, and is
// one tensor in checkpoints.
//
// Variable part i is the variable "<name>/part_<i>": a run of indices along one dimension, of
// lengths that differ by at most one, the longer ones first, as TensorFlow cuts them. A Saver of
// all variables keeps the parts as slices of one tensor "<name>", and so an optimizer's slots of
// them; it reads them back into other numbers of parts, or from one that was never cut.
//
// Source of the semantics: tf.get_variable's partitioner, tf.fixed_size_partitioner and
// tf.variable_axis_size_partitioner; names and slices of checkpoints are TensorFlow's. Below "part"
// is a variable part; the parts of a step are something else.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_PARTITIONED_H_
#define TROUPE_TRAIN_PARTITIONED_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/train/embedding.h"
#include "troupe/train/initializers.h"
#include "troupe/variable.h"

namespace troupe {
namespace TROUPE_EXPORT train {

// Which dimension of a shape is cut, and into how many parts.
struct Cut {
  int axis = 0;
  int64_t parts = 1;
};
using Partitioner = std::function<Cut(const TensorShape& shape, DType dtype)>;

// `parts` parts, or as many as the dimension has indices when these are fewer.
Partitioner FixedParts(int64_t parts, int axis = 0);
// Parts of at most `bytes` bytes, but of one index at least; with `most` > 0 at most so many.
Partitioner PartsOfBytes(int64_t bytes, int axis = 0, int64_t most = 0);

class PartitionedVariable {
 public:
  PartitionedVariable() = default;
  // `name` and what else the options say hold for each part. The initial value is that of the whole
  // tensor, however it is cut. `device(i)`, where given, is that of part i. The scope's error for a
  // cut that does not fit the shape.
  PartitionedVariable(const ScopeAt& at, const init::Initializer& initializer, const TensorShape& shape, DType dtype,
                      const Partitioner& partitioner, const VariableOptions& options = {},
                      const std::function<std::string(int)>& device = {});

  const std::string& name() const { return name_; }
  const TensorShape& shape() const { return shape_; }
  int axis() const { return axis_; }
  const std::vector<Variable>& parts() const { return parts_; }
  // The whole tensor, put together.
  Output Value(const ScopeAt& at) const;
  // Rows of it; the scope's error unless it is cut along axis 0.
  Output Lookup(const ScopeAt& at, const Output& ids) const;

 private:
  std::string name_;
  TensorShape shape_;
  int axis_ = 0;
  std::vector<Variable> parts_;
};

// What a part is in checkpoints: the name of the whole, and which slice of it, as "4 2 0,2:0,2".
struct PartOfWhole {
  std::string name, shape_and_slice;
};
// Nothing for a variable that is no part of another, nor a slot of such a part.
std::optional<PartOfWhole> WholeOf(const Variable& variable);

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_PARTITIONED_H_
