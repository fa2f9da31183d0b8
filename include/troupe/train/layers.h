// Layers: functions that build common pieces of a model together with their variables.
//
//   Output h = layers::Dense(root.WithOpName("fc1"), x, 100, {.activation = "Relu"});   // variables fc1/kernel and fc1/bias
//
// A layer is a function from outputs to an output. Its variables are registered in the graph's
// collections, where optimizers and initializers find them. Sizes that a layer needs for its
// variables (the last dimension of x) must be known statically; otherwise the scope has an error.
// Variables have the names, shapes and layouts of TensorFlow's layers. Recurrent layers are in
// troupe/train/recurrent.h.
//
// Source of the semantics: tf.layers of TensorFlow 1, and tf.keras.layers where that has none. x is
// of floating type, and the result has its type; Embedding takes integers.
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

// The gradient of Conv2D as a layer: x [batch, height, width, channels] grows by the strides to
// [batch, height', width', filters]. Kernel [window[0], window[1], filters, channels]. Dilations
// must be 1.
Output Conv2DTranspose(const ScopeAt& at, const Output& x, int64_t filters, std::array<int64_t, 2> window,
                       const ConvOptions& options = {});

// The strides must be equal, and so must the dilations.
struct SeparableConvOptions : ConvOptions {
  int64_t depth_multiplier = 1;
  init::Initializer pointwise_initializer = init::GlorotUniform();  // kernel_initializer is that of depthwise_kernel
};
// A convolution of each channel by itself: [batch, height', width', channels * depth_multiplier];
// depthwise_kernel [window[0], window[1], channels, depth_multiplier].
Output DepthwiseConv2D(const ScopeAt& at, const Output& x, std::array<int64_t, 2> window,
                       const SeparableConvOptions& options = {});
// The same, and then a mixture of its channels for each pixel: pointwise_kernel
// [1, 1, channels * depth_multiplier, filters].
Output SeparableConv2D(const ScopeAt& at, const Output& x, int64_t filters, std::array<int64_t, 2> window,
                       const SeparableConvOptions& options = {});

// The greatest value, and the mean, in each window of x [batch, height, width, channels].
Output MaxPool2D(const ScopeAt& at, const Output& x, std::array<int64_t, 2> window, std::array<int64_t, 2> strides,
                 std::string_view padding = "VALID");
Output AvgPool2D(const ScopeAt& at, const Output& x, std::array<int64_t, 2> window, std::array<int64_t, 2> strides,
                 std::string_view padding = "VALID");
// [batch, height, width, channels] -> [batch, channels].
Output GlobalAvgPool2D(const ScopeAt& at, const Output& x);

struct NormOptions {
  bool center = true, scale = true;  // with variables beta and gamma
  double epsilon = 1e-3;
  init::Initializer beta_initializer = init::Zeros();
  init::Initializer gamma_initializer = init::Ones();
  bool trainable = true;
  bool use_resource = true;
  std::vector<std::string> collections = {kGlobalVariables};
};
struct BatchNormOptions : NormOptions {
  double momentum = 0.99;  // what moving_mean and moving_variance keep in an update
  init::Initializer moving_mean_initializer = init::Zeros();
  init::Initializer moving_variance_initializer = init::Ones();
};
// x [..., channels], of rank 2 or more, with mean 0 and variance 1 in each channel, times gamma
// plus beta. Where `training` (a bool literal or scalar) holds, mean and variance are the batch's
// own, and the updates of the variables moving_mean and moving_variance are in the collection
// "update_ops"; otherwise they are these variables. As in TensorFlow, updates run only when they
// are asked for:
//
//   Operation step = adam.Minimize(root.WithControlDependencies(layers::UpdateOps(root)), loss);
Output BatchNorm(const ScopeAt& at, const Output& x, const Input& training, const BatchNormOptions& options = {});
inline constexpr char kUpdateOps[] = "update_ops";
// The operations of that collection.
std::vector<Operation> UpdateOps(const ScopeAt& at);

// x [..., n] with mean 0 and variance 1 in each row of n, times gamma plus beta.
Output LayerNorm(const ScopeAt& at, const Output& x, const NormOptions& options = {});

struct EmbeddingOptions {
  init::Initializer initializer = init::RandomUniform();
  bool trainable = true;
  bool use_resource = true;
  std::vector<std::string> collections = {kGlobalVariables};
};
// Rows of a table of `rows` vectors, the variable embeddings [rows, width]: ids of any shape ->
// [..., width].
Output Embedding(const ScopeAt& at, const Output& ids, int64_t rows, int64_t width,
                 const EmbeddingOptions& options = {});

struct AttentionOptions {
  // Bool, of a shape that broadcasts to [..., queries, keys]: where it is false, the query does not
  // see the key. Invalid: it sees all.
  Output mask = {};
  bool causal = false;  // query i sees no key behind key i
  double scale = 0;     // of the products of queries and keys; 0: 1 / sqrt(n)
};
// softmax(query * transpose(key) * scale) * value, for query [..., queries, n], key [..., keys, n]
// and value [..., keys, m] -> [..., queries, m].
Output DotProductAttention(const ScopeAt& at, const Output& query, const Output& key, const Output& value,
                           const AttentionOptions& options = {});

struct MultiHeadOptions : LayerOptions {
  Output mask = {};  // broadcasts to [batch, heads, queries, keys]
  bool causal = false;
  int64_t width = 0;  // of the result; 0: that of x
};
// `heads` attentions of `head_size` side by side (Vaswani et al., 2017): x [batch, queries, n]
// looks at source [batch, keys, m] (x itself for self-attention) -> [batch, queries, width]. Dense
// layers named query, key, value and output.
Output MultiHeadAttention(const ScopeAt& at, const Output& x, const Output& source, int64_t heads, int64_t head_size,
                          const MultiHeadOptions& options = {});

// Sets elements to zero with probability `rate` and scales the others by 1 / (1 - rate), when
// `training` (a bool literal or scalar) holds. Numbers are drawn only then.
Output Dropout(const ScopeAt& at, const Output& x, double rate, const Input& training = true, int64_t seed = 0);

// x [batch, ...] -> [batch, n].
Output Flatten(const ScopeAt& at, const Output& x);

}  // namespace layers
}  // namespace troupe

#endif  // TROUPE_TRAIN_LAYERS_H_
