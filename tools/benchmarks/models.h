// Models whose training step is timed, built through the public interface as the programs of
// examples/ build theirs. tools/benchmarks/rivals/model_data.py lists their sizes once more, and
// the variables in the order in which they are made here.
//
//   word2vec       noise-contrastive estimation over 50,000 words, sparse gradients, Adagrad
//   lstm           the model of examples/language_model: 2 layers of 650 cells, unrolled, Adam
//   wide_and_deep  a table of weights by FTRL; embeddings and three layers by Adagrad
//   transformer    an encoder of six layers, Adam
//   resnet50, mobilenetv2: image_models.h
//
// Thread rule: one thread at a time.
#ifndef TROUPE_TOOLS_BENCHMARKS_MODELS_H_
#define TROUPE_TOOLS_BENCHMARKS_MODELS_H_

#include <string>
#include <utility>
#include <vector>

#include "troupe/troupe.h"

namespace troupe::bench {

struct Feed {
  Output to;
  TensorShape shape;
  // What it is made of (draw.h): numbers of words below this, of a feed of integers. A feed of
  // floats has numbers of [0, 1), or, with 2, zeros and ones.
  int64_t below = 0;
};

struct TrainingModel {
  std::vector<Feed> feeds;                        // other numbers in each batch
  std::vector<std::pair<Output, Tensor>> always;  // fed the same in each step
  Output loss;                                    // a scalar
  Operation train;
  int64_t batches = 8;  // different ones
};

// The scope's error for a name that is none of the above. `gradients`: of the networks of images,
// and of the Transformer, whose layers are the scopes layer0, layer1, ...
TrainingModel BuildModel(const Scope& root, const std::string& name, const GradientOptions& gradients = {});

}  // namespace troupe::bench

#endif  // TROUPE_TOOLS_BENCHMARKS_MODELS_H_
