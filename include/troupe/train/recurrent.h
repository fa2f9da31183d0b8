// Recurrent layers: a cell, and its steps over the time of a sequence.
//
//   layers::RnnResult r = layers::Lstm(root.WithOpName("lstm"), words, 650);  // words [batch, time, n]
//   Output outputs = r.outputs;  // [batch, time, 650]
//   OutputList state = r.state;  // c and h [batch, 650] after the last step
//
// Layers are stacked by calling the next one with the outputs. What a step needs of the inputs
// alone is computed for all time steps in one product; a step multiplies the state only. Steps are
// iterations of a While, so that a graph has as many nodes for long sequences as for short ones;
// with `unrolled` they are nodes of their own, one after the other.
//
// Variables have the names and layouts of TensorFlow 1's cells (BasicLSTMCell, GRUCell), so its
// checkpoints fit.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_RECURRENT_H_
#define TROUPE_TRAIN_RECURRENT_H_

#include "troupe/export.h"
#include "troupe/train/layers.h"

namespace troupe {
namespace TROUPE_EXPORT layers {

// One step: from an input and a state to the next state. The state is a list of tensors [batch, n];
// the last of them is the output, too.
class RnnCell {
 public:
  virtual ~RnnCell();
  // The sizes n of the state.
  virtual std::vector<int64_t> StateSizes() const = 0;
  // What the steps need of the inputs x [rows, width], for many rows at once: [rows, m].
  virtual Output Project(const ScopeAt& at, const Output& x) const = 0;
  // The state after a step with what Project gave for its inputs, [batch, m].
  virtual OutputList Step(const ScopeAt& at, const Output& projected, const OutputList& state) const = 0;
};

struct LstmOptions : LayerOptions {
  double forget_bias = 1;  // is added to the bias of the forget gate
};
// Hochreiter and Schmidhuber (1997), with forget gates. State: c and h. kernel [width + units,
// 4 * units] and bias: input gate, new values, forget gate, output gate. The activation is that of
// the new values and of c, Tanh where it is empty.
class LstmCell : public RnnCell {
 public:
  LstmCell(const ScopeAt& at, int64_t width, int64_t units, DType dtype = DType::kFloat,
           const LstmOptions& options = {});
  std::vector<int64_t> StateSizes() const override { return {units_, units_}; }
  Output Project(const ScopeAt& at, const Output& x) const override;
  OutputList Step(const ScopeAt& at, const Output& projected, const OutputList& state) const override;

 private:
  const int64_t units_;
  const std::string activation_;
  Output of_input_, of_state_, bias_;
};

// Cho et al. (2014): gates/kernel [width + units, 2 * units] and gates/bias of the reset and update
// gates, candidate/kernel [width + units, units] and candidate/bias. State: h. The bias of the
// gates begins with ones, whatever the options say.
class GruCell : public RnnCell {
 public:
  GruCell(const ScopeAt& at, int64_t width, int64_t units, DType dtype = DType::kFloat,
          const LayerOptions& options = {});
  std::vector<int64_t> StateSizes() const override { return {units_}; }
  Output Project(const ScopeAt& at, const Output& x) const override;
  OutputList Step(const ScopeAt& at, const Output& projected, const OutputList& state) const override;

 private:
  const int64_t units_;
  const std::string activation_;
  Output of_input_, gates_of_state_, candidate_of_state_, bias_;
};

struct RnnOptions {
  // Integers [batch]: behind its length a sequence has outputs of zeros, and its state stays.
  Output sequence_lengths = {};
  OutputList initial_state = {};  // else zeros
  bool time_major = false;        // inputs and outputs are [time, batch, n]
  bool reverse = false;           // from the last time step (of each sequence) to the first
  bool unrolled = false;          // the time must be known then
  int64_t parallel_iterations = 32;
};
struct RnnResult {
  Output outputs;    // [batch, time, units]
  OutputList state;  // after the last step
};
// x [batch, time, width], of which the width is known.
RnnResult Rnn(const ScopeAt& at, const RnnCell& cell, const Output& x, const RnnOptions& options = {});
// A cell of `units` and its steps. Two of them, one with `reverse`, make a bidirectional layer.
RnnResult Lstm(const ScopeAt& at, const Output& x, int64_t units, const LstmOptions& cell = {},
               const RnnOptions& options = {});
RnnResult Gru(const ScopeAt& at, const Output& x, int64_t units, const LayerOptions& cell = {},
              const RnnOptions& options = {});

}  // namespace layers
}  // namespace troupe

#endif  // TROUPE_TRAIN_RECURRENT_H_
