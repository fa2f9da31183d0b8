#include "troupe/functional.h"

#include "troupe/control_flow.h"
#include "troupe/emit.h"

namespace troupe {

namespace {

// One array; its flow is handed around by its users.
struct Array {
  Output handle, flow;
};

class RowLoop {
 public:
  RowLoop(const ScopeAt& at, const char* name, const OutputList& elems, const LoopOptions& options)
      : at_(at), scope_(at.Sub(name)), elems_(elems), options_(options) {
    while_.parallel_iterations = options.parallel_iterations;
    while_.back_prop = options.back_prop;
    if (!at_.ok() || !Check()) return;
    rows_ = NumRows();
    indices_ = Op("Range", {0, rows_, 1});
    for (const Output& e : elems_) {
      Array a = NewArray(e.dtype(), RowShape(e));
      a.flow = Op("TensorArrayScatterV3", {a.handle, indices_, e, a.flow});
      in_.push_back(a);
    }
  }

  OutputList RunMap(const MapFn& fn) {
    CheckTarget(fn != nullptr, "Map");
    if (!at_.ok()) return OutputList(elems_.size());
    return RunLoop({}, false, true,
                   [&](const Scope& s, const OutputList&, const OutputList& row) { return fn(s, row); });
  }

  OutputList RunFold(const InputList& initial, const FoldFn& fn, bool keep_all) {
    CheckTarget(fn != nullptr, keep_all ? "Scan" : "Fold");
    OutputList start;
    for (const Input& in : initial) start.push_back(AsOutput(Here(""), in));
    const bool from_row = start.empty();
    const size_t n = from_row ? elems_.size() : start.size();
    if (at_.ok() && from_row) {
      const Output first = options_.reverse ? Op("Sub", {rows_, 1}) : AsOutput(Here(""), 0);
      start = Row(scope_, first);
    }
    if (!at_.ok()) return OutputList(n);
    OutputList r = RunLoop(start, from_row, keep_all, fn);
    r.resize(n);
    return r;
  }

 private:
  ScopeAt Here(const char* name) const { return ScopeAt(scope_.WithOpName(name), at_.location()); }
  Output Op(const char* op, const std::vector<Input>& in, AttrMap attrs = {}) const {
    return EmitOp(Here(""), op, in, std::move(attrs)).output(0);
  }
  Output In(const Scope& s, const char* op, const std::vector<Input>& in, AttrMap attrs = {}) const {
    return EmitOp(ScopeAt(s, at_.location()), op, in, std::move(attrs)).output(0);
  }

  void CheckTarget(bool has, const char* what) const {
    if (!has) at_.Fail(InvalidArgument(what, ": there is no function for the rows"));
  }
  bool Check() const {
    if (elems_.empty()) at_.Fail(InvalidArgument("the list of tensors to go through row by row is empty"));
    int64_t rows = -1;
    for (const Output& e : elems_) {
      if (!e.valid()) at_.Fail(InvalidArgument("an empty Output was given"));
      if (!at_.ok()) return false;
      const PartialTensorShape s = scope_.ShapeOf(e);
      if (!s.known_rank()) continue;
      if (s.rank() == 0) at_.Fail(InvalidArgument("'", e.name(), "' is a scalar: it has no rows to go through"));
      if (!at_.ok()) return false;
      if (rows >= 0 && s.dim(0) >= 0 && s.dim(0) != rows) {
        at_.Fail(
            InvalidArgument("'", e.name(), "' has ", s.dim(0), " rows, but another tensor of the list has ", rows));
      }
      if (s.dim(0) >= 0) rows = s.dim(0);
    }
    return at_.ok();
  }

  Output NumRows() const {
    const PartialTensorShape s = scope_.ShapeOf(elems_[0]);
    if (s.known_rank() && s.dim(0) >= 0 && s.dim(0) <= INT32_MAX)
      return AsOutput(Here("rows"), static_cast<int32_t>(s.dim(0)));
    const Output shape = Op("Shape", {elems_[0]});
    return EmitOp(Here("rows"), "StridedSlice", {shape, {0}, {1}, {1}}, {{"shrink_axis_mask", 1}}).output(0);
  }

  PartialTensorShape RowShape(const Output& e) const {
    const PartialTensorShape s = scope_.ShapeOf(e);
    return s.known_rank() ? PartialTensorShape(s.dims().subspan(1)) : PartialTensorShape();
  }

  Array NewArray(DType dtype, const PartialTensorShape& element) const {
    const Operation a = EmitOp(Here("TensorArray"), "TensorArrayV3", {rows_},
                               {{"dtype", dtype},
                                {"element_shape", element},
                                {"clear_after_read", false},
                                {"identical_element_shapes", true}});
    return {a.output(0), a.output(1)};
  }

  OutputList Row(const Scope& s, const Output& i) const {
    OutputList row;
    for (size_t k = 0; k < in_.size(); ++k) {
      Output r = In(s, "TensorArrayReadV3", {in_[k].handle, i, in_[k].flow}, {{"dtype", BaseType(elems_[k].dtype())}});
      if (const PartialTensorShape shape = RowShape(elems_[k]); r.valid() && shape.known_rank()) s.SetShape(r, shape);
      row.push_back(std::move(r));
    }
    return row;
  }

  // Goes through the rows with these accumulators. With `keep_all`, the results of every row,
  // packed; else the last accumulators. For a Map there are none.
  OutputList RunLoop(const OutputList& start, bool first_row_done, bool keep_all, const FoldFn& fn) {
    const bool down = options_.reverse;
    const bool accumulates = !start.empty();
    // A Map's results are known when its function was called: their arrays are made then, outside
    // of the loop that is being built.
    OutputList inits;
    Output begin = down ? Op("Sub", {rows_, first_row_done ? 2 : 1}) : AsOutput(Here("begin"), first_row_done ? 1 : 0);
    inits.push_back(begin);
    Output flow = AsOutput(Here("flow"), 0.0f);
    if (keep_all) {
      if (accumulates) {
        for (const Output& a : start) out_.push_back(NewArray(BaseType(a.dtype()), scope_.ShapeOf(a)));
        if (first_row_done) {
          const Output first = down ? Op("Sub", {rows_, 1}) : AsOutput(Here(""), 0);
          for (size_t k = 0; k < start.size(); ++k)
            flow = Op("TensorArrayWriteV3", {out_[k].handle, first, start[k], flow});
        }
      }
      inits.push_back(flow);
    }
    inits.insert(inits.end(), start.begin(), start.end());
    const size_t fixed = keep_all ? 2 : 1;
    std::vector<DType> types;
    std::vector<PartialTensorShape> shapes;
    const OutputList exits = While(
        Here("while"), inits,
        [&](const Scope& s, const OutputList& v) {
          return down ? In(s, "GreaterEqual", {v[0], 0}) : In(s, "Less", {v[0], rows_});
        },
        [&](const Scope& s, const OutputList& v) {
          const OutputList accumulators(v.begin() + fixed, v.end());
          const OutputList results = fn(s, accumulators, Row(s, v[0]));
          if (at_.ok() && results.empty()) at_.Fail(InvalidArgument("the function returned no value"));
          OutputList next{In(s.WithOpName("next"), down ? "Sub" : "AddV2", {v[0], 1})};
          if (keep_all) {
            Output f = v[1];
            for (size_t k = 0; k < results.size() && at_.ok(); ++k) {
              if (!results[k].valid()) {
                at_.Fail(InvalidArgument("result ", k, " of the function is an empty Output"));
                break;
              }
              types.push_back(BaseType(results[k].dtype()));
              shapes.push_back(scope_.ShapeOf(results[k]));
              if (!accumulates) out_.push_back(NewArray(types[k], shapes[k]));
              if (k < out_.size()) f = In(s, "TensorArrayWriteV3", {out_[k].handle, v[0], results[k], f});
            }
            next.push_back(f);
          }
          if (accumulates) next.insert(next.end(), results.begin(), results.end());
          return next;
        },
        while_);
    if (!at_.ok()) return OutputList(start.size());
    if (!keep_all) return OutputList(exits.begin() + fixed, exits.end());
    OutputList packed;
    for (size_t k = 0; k < out_.size(); ++k) {
      packed.push_back(Op("TensorArrayGatherV3", {out_[k].handle, indices_, exits[1]},
                          {{"dtype", types[k]}, {"element_shape", shapes[k]}}));
    }
    return packed;
  }

  const ScopeAt& at_;
  const Scope scope_;
  const OutputList& elems_;
  const LoopOptions& options_;
  WhileOptions while_;
  Output rows_, indices_;
  std::vector<Array> in_, out_;
};

FoldFn One(const FoldOneFn& fn) {
  if (fn == nullptr) return nullptr;
  return [&fn](const Scope& s, const OutputList& a, const OutputList& row) { return OutputList{fn(s, a[0], row[0])}; };
}

}  // namespace

OutputList Map(const ScopeAt& at, const OutputList& elems, const MapFn& fn, const LoopOptions& options) {
  return RowLoop(at, "map", elems, options).RunMap(fn);
}
OutputList Fold(const ScopeAt& at, const OutputList& elems, const InputList& initial, const FoldFn& fn,
                const LoopOptions& options) {
  return RowLoop(at, "fold", elems, options).RunFold(initial, fn, false);
}
OutputList Scan(const ScopeAt& at, const OutputList& elems, const InputList& initial, const FoldFn& fn,
                const LoopOptions& options) {
  return RowLoop(at, "scan", elems, options).RunFold(initial, fn, true);
}

Output Map(const ScopeAt& at, const Output& elems, const MapOneFn& fn, const LoopOptions& options) {
  MapFn one;
  if (fn != nullptr) one = [&fn](const Scope& s, const OutputList& row) { return OutputList{fn(s, row[0])}; };
  const OutputList r = Map(at, OutputList{elems}, one, options);
  return r.empty() ? Output() : r[0];
}
Output Fold(const ScopeAt& at, const Output& elems, const Input& initial, const FoldOneFn& fn,
            const LoopOptions& options) {
  return Fold(at, OutputList{elems}, InputList{initial}, One(fn), options)[0];
}
Output Scan(const ScopeAt& at, const Output& elems, const Input& initial, const FoldOneFn& fn,
            const LoopOptions& options) {
  return Scan(at, OutputList{elems}, InputList{initial}, One(fn), options)[0];
}

}  // namespace troupe
