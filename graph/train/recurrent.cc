#include "troupe/train/recurrent.h"

#include <algorithm>

#include "graph/train/layer_parts.h"
#include "troupe/control_flow.h"

namespace troupe::layers {
namespace {

using train::Build;

std::string ActivationOf(const LayerOptions& o) { return o.activation.empty() ? "Tanh" : o.activation; }

bool GoodSizes(const ScopeAt& at, int64_t width, int64_t units) {
  if (width > 0 && units > 0) return at.ok();
  at.Fail(InvalidArgument("a recurrent cell needs inputs and units, not ", width, " and ", units));
  return false;
}

// `value` cut along `axis` into pieces of these sizes.
OutputList Cut(const Scope& s, const Output& value, std::vector<int64_t> sizes, int32_t axis) {
  const auto n = static_cast<int64_t>(sizes.size());
  const Operation cut = EmitOp(s, "SplitV", {value, Literal(sizes), axis}, {{"num_split", n}});
  return OutputsOf(cut, 0, static_cast<int>(n));
}

// The steps of a cell, in a loop or one after the other.
class Steps {
 public:
  Steps(const ScopeAt& at, const Scope& s, const RnnCell& cell, const RnnOptions& options)
      : at_(at), s_(s), cell_(cell), options_(options) {}

  RnnResult Run(const Output& x) {
    const PartialTensorShape given = s_.ShapeOf(x);
    Output by_time = x;
    if (!options_.time_major) by_time = Build(s_, "Transpose", {x, Ints(s_, {1, 0, 2})});
    known_time_ = given.dim(options_.time_major ? 0 : 1);
    known_batch_ = given.dim(options_.time_major ? 1 : 0);
    time_ = DimOf(s_, by_time, 0);
    batch_ = DimOf(s_, by_time, 1);
    // All time steps are the rows of one matrix.
    const Output rows = Build(s_, "Reshape", {by_time, Ints(s_, {-1, static_cast<int32_t>(given.dim(2))})});
    const Output projected = cell_.Project(s_, rows);
    if (!s_.ok()) return {};
    if (!projected.valid() || cell_.StateSizes().empty()) {
      at_.Fail(InvalidArgument("a recurrent cell has ", projected.valid() ? "no state" : "made nothing of its inputs"));
      return {};
    }
    const int64_t width = s_.ShapeOf(projected).rank() == 2 ? s_.ShapeOf(projected).dim(1) : -1;
    if (width < 0) {
      at_.Fail(InvalidArgument("what a recurrent cell makes of its inputs must be [rows, m] with a known m, but is ",
                               s_.ShapeOf(projected).DebugString()));
      return {};
    }
    const Output steps =
        Build(s_, "Reshape", {projected, Concat(s_, {time_, batch_, Ints(s_, {static_cast<int32_t>(width)})}, 0)});
    if (steps.valid()) s_.SetShape(steps, {known_time_, known_batch_, width});
    const OutputList start = Start(BaseType(x.dtype()));
    if (!s_.ok()) return {};
    RnnResult result = options_.unrolled ? Unrolled(steps, start) : Loop(steps, width, start);
    if (!options_.time_major && s_.ok()) result.outputs = Build(s_, "Transpose", {result.outputs, Ints(s_, {1, 0, 2})});
    return result;
  }

 private:
  OutputList Start(DType dtype) {
    const std::vector<int64_t> sizes = cell_.StateSizes();
    if (!options_.initial_state.empty()) {
      if (options_.initial_state.size() == sizes.size()) return options_.initial_state;
      at_.Fail(InvalidArgument("the state of this recurrent cell is a list of ", sizes.size(), " tensors, but ",
                               options_.initial_state.size(), " were given to begin with"));
      return {};
    }
    OutputList zeros;
    for (const int64_t n : sizes) {
      const Output shape = Concat(s_, {batch_, Ints(s_, {static_cast<int32_t>(n)})}, 0);
      zeros.push_back(Build(s_, "Fill", {shape, Const(s_, 0, dtype)}));
      if (zeros.back().valid()) s_.SetShape(zeros.back(), {known_batch_, n});
    }
    return zeros;
  }

  // A step of the cell at time `t`, and its outputs.
  OutputList Step(const Scope& s, const Output& t, const Output& projected, const OutputList& state, Output* output) {
    OutputList next = cell_.Step(s, projected, state);
    if (s.ok() && next.size() != state.size()) {
      at_.Fail(InvalidArgument("a step of a recurrent cell gave a state of ", next.size(), " tensors for one of ",
                               state.size()));
    }
    const auto empty = std::find_if(next.begin(), next.end(), [](const Output& o) { return !o.valid(); });
    if (s.ok() && empty != next.end())
      at_.Fail(InvalidArgument("a step of a recurrent cell gave an empty Output as state ", empty - next.begin()));
    if (!s.ok()) return OutputList(state.size());
    *output = next.back();
    if (!options_.sequence_lengths.valid()) return next;
    const Output lengths = options_.sequence_lengths;
    const Output now = Build(s, "Cast", {t}, {{"DstT", BaseType(lengths.dtype())}});
    const Output lives = Build(s, "ExpandDims", {Build(s, "Less", {now, lengths}), 1});
    *output = Build(s, "SelectV2", {lives, *output, Build(s, "ZerosLike", {*output})});
    for (size_t i = 0; i < next.size(); ++i) next[i] = Build(s, "SelectV2", {lives, next[i], state[i]});
    return next;
  }

  RnnResult Unrolled(const Output& steps, OutputList state) {
    if (known_time_ < 0 || known_time_ > 100000) {
      at_.Fail(InvalidArgument("the number of time steps must be known where they are unrolled"));
      return {};
    }
    const OutputList rows =
        OutputsOf(EmitOp(s_, "Unpack", {steps}, {{"num", known_time_}}), 0, static_cast<int>(known_time_));
    OutputList outputs(rows.size());
    for (size_t i = 0; i < rows.size() && s_.ok(); ++i) {
      const size_t t = options_.reverse ? rows.size() - 1 - i : i;
      state = Step(s_, Const(s_, static_cast<int32_t>(t)), rows[t], state, &outputs[t]);
    }
    if (!s_.ok()) return {};
    if (rows.empty()) return {Empty(state), state};
    return {EmitLists(s_, "Pack", {InputList(outputs)}).output(0), state};
  }
  // Outputs of no time steps.
  Output Empty(const OutputList& state) {
    return Build(s_, "Slice", {Build(s_, "ExpandDims", {state.back(), 0}), Ints(s_, {0, 0, 0}), Ints(s_, {0, -1, -1})});
  }

  RnnResult Loop(const Output& steps, int64_t width, const OutputList& start) {
    const Output time = Build(s_, "Reshape", {time_, Const(s_, Literal(Tensor(DType::kInt32, {0})))});
    const DType dtype = BaseType(start.back().dtype());
    const PartialTensorShape of_row = {known_batch_, width}, of_output = {known_batch_, cell_.StateSizes().back()};
    const auto array = [&](DType type, const PartialTensorShape& element) {
      return EmitOp(s_, "TensorArrayV3", {time},
                    {{"dtype", type},
                     {"element_shape", element},
                     {"clear_after_read", false},
                     {"identical_element_shapes", true}});
    };
    const Operation in = array(BaseType(steps.dtype()), of_row), out = array(dtype, of_output);
    const Output all = Build(s_, "Range", {0, time, 1});
    const Output filled = Build(s_, "TensorArrayScatterV3", {in.output(0), all, steps, in.output(1)});
    const bool down = options_.reverse;
    OutputList variables = {down ? Build(s_, "Sub", {time, 1}) : Const(s_, 0), out.output(1)};
    variables.insert(variables.end(), start.begin(), start.end());
    WhileOptions loop;
    loop.parallel_iterations = options_.parallel_iterations;
    const OutputList end = While(
        s_, variables,
        [&](const Scope& s, const OutputList& v) {
          return down ? Build(s, "GreaterEqual", {v[0], 0}) : Build(s, "Less", {v[0], time});
        },
        [&](const Scope& s, const OutputList& v) -> OutputList {
          const Output row =
              Build(s, "TensorArrayReadV3", {in.output(0), v[0], filled}, {{"dtype", BaseType(steps.dtype())}});
          if (row.valid()) s.SetShape(row, of_row);
          Output output;
          const OutputList state = Step(s, v[0], row, OutputList(v.begin() + 2, v.end()), &output);
          OutputList next = {Build(s, down ? "Sub" : "AddV2", {v[0], 1}),
                             Build(s, "TensorArrayWriteV3", {out.output(0), v[0], output, v[1]})};
          next.insert(next.end(), state.begin(), state.end());
          return next;
        },
        loop);
    if (!s_.ok()) return {};
    RnnResult result;
    result.outputs = Build(s_, "TensorArrayGatherV3", {out.output(0), all, end[1]},
                           {{"dtype", dtype}, {"element_shape", of_output}});
    if (result.outputs.valid()) s_.SetShape(result.outputs, {known_time_, known_batch_, of_output.dim(1)});
    result.state.assign(end.begin() + 2, end.end());
    return result;
  }

  const ScopeAt& at_;
  const Scope& s_;
  const RnnCell& cell_;
  const RnnOptions& options_;
  int64_t known_time_ = -1, known_batch_ = -1;
  Output time_, batch_;  // vectors of one number
};

}  // namespace

RnnCell::~RnnCell() = default;

LstmCell::LstmCell(const ScopeAt& at, int64_t width, int64_t units, DType dtype, const LstmOptions& options)
    : units_(units), activation_(ActivationOf(options)) {
  if (!GoodSizes(at, width, units)) return;
  const Scope s = at.Sub("lstm_cell");
  const Variable kernel =
      MakeVariable(s, "kernel", options.kernel_initializer, {width + units, 4 * units}, dtype, options);
  const OutputList parts = Cut(s, kernel, {width, units}, 0);
  if (!s.ok()) return;
  of_input_ = parts[0];
  of_state_ = parts[1];
  if (options.use_bias) bias_ = MakeVariable(s, "bias", options.bias_initializer, {4 * units}, dtype, options);
  if (options.forget_bias == 0) return;
  // Added here, once, and not in every step.
  const Output one = Const(s, options.forget_bias, dtype);
  const Output zeros = Build(s, "Fill", {Ints(s, {static_cast<int32_t>(2 * units)}), Const(s, 0, dtype)});
  const Output forget = Concat(s,
                               {zeros, Build(s, "Fill", {Ints(s, {static_cast<int32_t>(units)}), one}),
                                Build(s, "Fill", {Ints(s, {static_cast<int32_t>(units)}), Const(s, 0, dtype)})},
                               0);
  bias_ = bias_.valid() ? Build(s, "AddV2", {bias_, forget}) : forget;
}

Output LstmCell::Project(const ScopeAt& at, const Output& x) const {
  const Output product = Build(at, "MatMul", {x, of_input_});
  return bias_.valid() ? Build(at, "BiasAdd", {product, bias_}) : product;
}

OutputList LstmCell::Step(const ScopeAt& at, const Output& projected, const OutputList& state) const {
  const Scope& s = at.scope();
  const Output sums = Build(s, "AddV2", {Build(s, "MatMul", {state[1], of_state_}), projected});
  const Operation gates = EmitOp(s, "Split", {1, sums}, {{"num_split", int64_t{4}}});
  const Output fresh =
      Build(s, "Mul", {Build(s, "Sigmoid", {gates.output(0)}), Build(s, activation_, {gates.output(1)})});
  const Output kept = Build(s, "Mul", {state[0], Build(s, "Sigmoid", {gates.output(2)})});
  const Output c = Build(s, "AddV2", {kept, fresh});
  return {c, Build(s, "Mul", {Build(s, activation_, {c}), Build(s, "Sigmoid", {gates.output(3)})})};
}

GruCell::GruCell(const ScopeAt& at, int64_t width, int64_t units, DType dtype, const LayerOptions& options)
    : units_(units), activation_(ActivationOf(options)) {
  if (!GoodSizes(at, width, units)) return;
  const Scope s = at.Sub("gru_cell"), gates = s.NewSubScope("gates"), candidate = s.NewSubScope("candidate");
  const Variable of_gates =
      MakeVariable(gates, "kernel", options.kernel_initializer, {width + units, 2 * units}, dtype, options);
  const Variable of_candidate =
      MakeVariable(candidate, "kernel", options.kernel_initializer, {width + units, units}, dtype, options);
  const OutputList g = Cut(s, of_gates, {width, units}, 0), c = Cut(s, of_candidate, {width, units}, 0);
  if (!s.ok()) return;
  of_input_ = Concat(s, {g[0], c[0]}, 1);
  gates_of_state_ = g[1];
  candidate_of_state_ = c[1];
  if (!options.use_bias) return;
  bias_ = Concat(s,
                 {MakeVariable(gates, "bias", init::Ones(), {2 * units}, dtype, options),
                  MakeVariable(candidate, "bias", options.bias_initializer, {units}, dtype, options)},
                 0);
}

Output GruCell::Project(const ScopeAt& at, const Output& x) const {
  const Output product = Build(at, "MatMul", {x, of_input_});
  return bias_.valid() ? Build(at, "BiasAdd", {product, bias_}) : product;
}

OutputList GruCell::Step(const ScopeAt& at, const Output& projected, const OutputList& state) const {
  const Scope& s = at.scope();
  const Output& h = state[0];
  const OutputList of_x = Cut(s, projected, {2 * units_, units_}, 1);
  if (!s.ok()) return {};
  const Output sums = Build(s, "AddV2", {Build(s, "MatMul", {h, gates_of_state_}), of_x[0]});
  const Operation gates = EmitOp(s, "Split", {1, Build(s, "Sigmoid", {sums})}, {{"num_split", int64_t{2}}});
  const Output reset = Build(s, "Mul", {gates.output(0), h});
  const Output candidate =
      Build(s, activation_, {Build(s, "AddV2", {Build(s, "MatMul", {reset, candidate_of_state_}), of_x[1]})});
  // u * h + (1 - u) * candidate
  return {Build(s, "AddV2", {candidate, Build(s, "Mul", {gates.output(1), Build(s, "Sub", {h, candidate})})})};
}

RnnResult Rnn(const ScopeAt& at, const RnnCell& cell, const Output& x, const RnnOptions& options) {
  if (LastDim(at, x, 3, "a recurrent layer") < 0) return {};
  const Scope s = at.Sub("rnn");
  return Steps(at, s, cell, options).Run(x);
}

RnnResult Lstm(const ScopeAt& at, const Output& x, int64_t units, const LstmOptions& cell, const RnnOptions& options) {
  const int64_t width = LastDim(at, x, 3, "Lstm");
  if (width < 0) return {};
  const Scope s = at.Sub("rnn");
  return Steps(at, s, LstmCell(s.WithOpName("basic_lstm_cell"), width, units, BaseType(x.dtype()), cell), options)
      .Run(x);
}

RnnResult Gru(const ScopeAt& at, const Output& x, int64_t units, const LayerOptions& cell, const RnnOptions& options) {
  const int64_t width = LastDim(at, x, 3, "Gru");
  if (width < 0) return {};
  const Scope s = at.Sub("rnn");
  return Steps(at, s, GruCell(s.WithOpName("gru_cell"), width, units, BaseType(x.dtype()), cell), options).Run(x);
}

}  // namespace troupe::layers
