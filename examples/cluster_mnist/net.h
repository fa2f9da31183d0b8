// The nets of this example, and which images a worker learns from in which step.
#ifndef TROUPE_EXAMPLES_CLUSTER_MNIST_NET_H_
#define TROUPE_EXAMPLES_CLUSTER_MNIST_NET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "examples/mnist/data.h"
#include "troupe/train/epoch_order.h"
#include "troupe/troupe.h"

namespace cluster_mnist {

struct Inputs {
  troupe::Output images, labels;  // as in examples/mnist
  troupe::Output noise;           // int64 [2], from which dropout draws
  troupe::Output keep;            // float32, the probability of keeping a unit
};

// That are fed.
Inputs FedInputs(const troupe::Scope& on);

// Which images a worker learns from, and where they are.
struct Source {
  std::string data, digits;  // the folder of MNIST's files; without it, the file of the small digits
  int64_t batch = 0, seed = 1;
  int workers = 1, worker = 0;
};
// That the device of `on` reads by itself for a step, an int64 scalar: by an op of this program.
// `keep` is fed.
Inputs ReadInputs(const troupe::Scope& on, const troupe::Output& step, const troupe::Output& keep,
                  const Source& source);
// Read once by a process.
absl::StatusOr<std::shared_ptr<const mnist::Digits>> DigitsOf(const std::string& data, const std::string& digits);

struct Net : Inputs {
  troupe::Output loss, accuracy;  // scalars
  double train_keep = 1.0;
  double first_rate = 0.003;
  bool falling_rate = false;
  double LearningRate(int64_t step) const;
};

// "small" or "e8". INVALID_ARGUMENT for another one. `seed`: of the first values.
absl::StatusOr<Net> BuildNet(const troupe::Scope& on, const std::string& name, int64_t seed, const Inputs& inputs);

// The images of a step are divided into parts, and those of a part are a function of step, part and
// seed: a worker that begins anew, or computes a part for another one, needs no place in the data.
// In an epoch each image is used once.
class Share {
 public:
  Share(const mnist::DataSet* data, int64_t batch, int parts, int64_t seed)
      : data_(data), batch_(batch), parts_(parts), order_(data->size(), seed) {}
  void Take(int64_t step, int part, troupe::Tensor* images, troupe::Tensor* labels);

 private:
  const mnist::DataSet* const data_;
  const int64_t batch_, parts_;
  troupe::train::EpochOrder order_;
};

}  // namespace cluster_mnist

#endif  // TROUPE_EXAMPLES_CLUSTER_MNIST_NET_H_
