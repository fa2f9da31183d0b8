// Where workers leave their gradients of a variable beside it, at its parameter server, and the
// chief finds them (troupe/train/sync_replicas.h).
//
// There are two kinds. Each worker has a variable of its own, or two of them for a gradient that
// consists of slices. Or each part of a step has a place for whatever was left there last, under a
// number, which is nobody's: so it does not matter who computed the part.
//
// Thread rule: as for the scope, one thread at a time.
#ifndef TROUPE_GRAPH_TRAIN_GRADIENT_PLACES_H_
#define TROUPE_GRAPH_TRAIN_GRADIENT_PLACES_H_

#include <memory>
#include <string>
#include <vector>

#include "troupe/train/optimizer.h"

namespace troupe::train {

class GradientPlaces {
 public:
  // The gradients of a variable, by worker or part: dense ones, or indices and values of slices.
  struct Gradients {
    std::vector<Output> dense, indices, values;
  };
  explicit GradientPlaces(const Variable& variable) : variable_(variable) {}
  virtual ~GradientPlaces() = default;

  const Variable& variable() const { return variable_; }
  // What makes them, empty.
  virtual std::vector<Operation> initializers() const = 0;
  // Leaves a gradient in each place that `worker` may be told to use, by part. Of parts, under
  // `number`, an int64 scalar; else that is not looked at.
  virtual std::vector<Operation> Put(const Scope& s, const Output& grad, int worker, const Output& number) const = 0;
  // What is there; of parts, under these numbers, or the step is ABORTED.
  virtual Gradients Take(const Scope& here, const std::vector<Output>& numbers) const = 0;

 private:
  const Variable variable_;
};

// Of `parts` parts, or of `workers` workers where `parts` is 0; `name` is the training's. Null, and
// an error of the scope, when the gradient's shape is not known.
std::unique_ptr<GradientPlaces> MakeGradientPlaces(const Scope& top, const std::string& name, const GradAndVar& grad,
                                                   int workers, int parts);

}  // namespace troupe::train

#endif  // TROUPE_GRAPH_TRAIN_GRADIENT_PLACES_H_
