// Layers: functions that build common pieces of a model together with their variables.
//
//   Output h = layers::Dense(root.WithOpName("fc1"), x, 100, {.activation = "Relu"});   // variables fc1/kernel and fc1/bias
//
// A layer is a function from outputs to an output. Its variables are registered in the graph's
// collections, where optimizers and initializers find them. Sizes that a layer needs for its
// variables (the last dimension of x) must be known statically; otherwise the scope has an error.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_LAYERS_H_
#define TROUPE_TRAIN_LAYERS_H_

#include <array>
#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/train/initializers.h"
#include "troupe/variable.h"

namespace troupe {
namespace TROUPE_EXPORT layers {

struct LayerOptions {
  std::string activation;  // an op of one input ("Relu", "Tanh", ...); none when empty
  bool use_bias = true;
  init::Initializer kernel_initializer = init::GlorotUniform();
  init::Initializer bias_initializer = init::Zeros();
  bool trainable = true;
  bool use_resource = true;
  // Collections of the variables besides "trainable_variables".
  std::vector<std::string> collections = {kGlobalVariables};
};

// x [..., n] -> [..., units]: activation(x * kernel + bias), kernel [n, units].
Output Dense(const ScopeAt& at, const Output& x, int64_t units, const LayerOptions& options = {});

struct ConvOptions : LayerOptions {
  std::array<int64_t, 2> strides = {1, 1};
  std::array<int64_t, 2> dilations = {1, 1};
  std::string padding = "VALID";  // or "SAME"
};
// x [batch, height, width, channels] -> [batch, height', width', filters], kernel [window[0],
// window[1], channels, filters].
Output Conv2D(const ScopeAt& at, const Output& x, int64_t filters, std::array<int64_t, 2> window,
              const ConvOptions& options = {});

// The greatest value in each window of x [batch, height, width, channels].
Output MaxPool2D(const ScopeAt& at, const Output& x, std::array<int64_t, 2> window, std::array<int64_t, 2> strides,
                 std::string_view padding = "VALID");

// Sets elements to zero with probability `rate` and scales the others by 1 / (1 - rate), when
// `training` (a bool literal or scalar) holds.
Output Dropout(const ScopeAt& at, const Output& x, double rate, const Input& training = true, int64_t seed = 0);

// x [batch, ...] -> [batch, n].
Output Flatten(const ScopeAt& at, const Output& x);

}  // namespace layers
}  // namespace troupe

#endif  // TROUPE_TRAIN_LAYERS_H_
