// The model of this folder: words as vectors, layers of LSTM cells, and for each place how likely
// every word is to come next.
//
// Thread rule: as for Scope: one thread at a time.
#ifndef TROUPE_EXAMPLES_LANGUAGE_MODEL_MODEL_H_
#define TROUPE_EXAMPLES_LANGUAGE_MODEL_MODEL_H_

#include <cstdint>

#include "troupe/troupe.h"

namespace language_model {

struct ModelOptions {
  int64_t symbols = 0;  // that are told apart
  int64_t units = 200, layers = 2;
  // Symbols of a step's input, [batch, time]; -1: each step may have others. With `unrolled`, for
  // which the time must be known, the time steps are nodes one after the other, and no loop.
  int64_t batch = -1, time = -1;
  bool unrolled = false;
  double learning_rate = 0.002, dropout = 0.0, temperature = 0.8;
  int64_t seed = 0;  // 0: each session draws other numbers
};

struct Model {
  troupe::Output x, y;               // symbols [batch, time], and those that follow
  troupe::Output training;           // whether units are dropped
  troupe::OutputList before, after;  // the state: c and h of each layer
  troupe::Output loss;               // the mean over all symbols, in nats
  troupe::Output next;               // [batch, symbols]: how likely each is to follow the last one of x
  troupe::Operation train, init;
};

Model Build(const troupe::Scope& root, const ModelOptions& options);

}  // namespace language_model

#endif  // TROUPE_EXAMPLES_LANGUAGE_MODEL_MODEL_H_
