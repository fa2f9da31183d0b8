// The eight networks of the experiments.
//
//   E1  softmax regression, sum of -t log y, gradient descent 0.003
//   E2  784-200-100-60-30-10, sigmoid, -t log softmax(y), Adam 0.003
//   E3  E2 with ReLU and biases of 0.1
//   E4  E3 with the loss computed from the logits
//   E5  E4 with a falling learning rate, 0.0001 + 0.0029 exp(-step / 2000)
//   E6  E5 with dropout 0.75 after each hidden layer
//   E7  5x5x4, 5x5x8 /2, 4x4x12 /2 convolutions, 200, 10; trained as E5
//   E8  6x6x6, 5x5x12 /2, 4x4x24 /2 convolutions, 200 with dropout 0.75, 10; trained as E5
//
// Source: "TensorFlow Internals", chapter 3. Where it does not say the loss or the optimizer of E2
// to E4, they are those of the programs that it is adapted from (M. Goerner, "TensorFlow and deep
// learning, without a PhD").
#ifndef TROUPE_EXAMPLES_MNIST_MODEL_H_
#define TROUPE_EXAMPLES_MNIST_MODEL_H_

#include <string>

#include "troupe/troupe.h"

namespace mnist {

struct Model {
  troupe::Output images;         // feed: float32 [n,28,28,1]
  troupe::Output labels;         // feed: float32 [n,10]
  troupe::Output learning_rate;  // feed: float32
  troupe::Output keep;           // feed: float32, the probability of keeping a unit
  troupe::Output loss;           // scalar
  troupe::Output accuracy;       // scalar in [0, 1]
  troupe::Operation train;
  troupe::Operation init;
  bool falling_rate = false;
  double first_rate = 0.003;
  double train_keep = 1.0;
  int64_t steps = 10000;  // of the experiment as it is described

  double LearningRate(int64_t step) const;
};

// INVALID_ARGUMENT for an unknown experiment. `global_step` (optional) grows by one in each step.
absl::StatusOr<Model> BuildModel(const troupe::Scope& root, const std::string& experiment, int64_t seed,
                                 const troupe::Variable& global_step = {});

}  // namespace mnist

#endif  // TROUPE_EXAMPLES_MNIST_MODEL_H_
