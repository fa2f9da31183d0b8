// StringSplit and StringSplitV2: the pieces of texts, as a sparse matrix with a row for each text.
#include <algorithm>
#include <array>

#include "kernels/common/op_file.h"
#include "kernels/parse/text_numbers.h"

namespace troupe::parse {
namespace {

absl::Status SplitShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(0, 1).status());
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 0).status());
  c.set_output(0, PartialTensorShape{-1, 2});
  c.set_output(1, PartialTensorShape{-1});
  c.set_output(2, PartialTensorShape{2});
  return absl::OkStatus();
}

TROUPE_OP("StringSplit")
    .Input("input: string")
    .Input("delimiter: string")
    .Output("indices: int64")
    .Output("values: string")
    .Output("shape: int64")
    .Attr("skip_empty: bool = true")
    .Shape(SplitShape)
    .NotDifferentiable("its output is text")
    .Doc(
        "Each text split at every character of `delimiter`; into single bytes when that is empty. skip_empty: pieces "
        "without a character are left out.");

TROUPE_OP("StringSplitV2")
    .Input("input: string")
    .Input("sep: string")
    .Output("indices: int64")
    .Output("values: string")
    .Output("shape: int64")
    .Attr("maxsplit: int = -1")
    .Shape(SplitShape)
    .NotDifferentiable("its output is text")
    .Doc(
        "Each text split at `sep`, at runs of blanks when `sep` is empty; at most `maxsplit` times when that is not "
        "negative.");

using Pieces = std::vector<std::string_view>;

void SplitAtAny(std::string_view text, std::string_view delimiters, bool skip_empty, Pieces* pieces) {
  const auto add = [&](std::string_view piece) {
    if (!skip_empty || !piece.empty()) pieces->push_back(piece);
  };
  if (delimiters.empty()) {
    for (size_t i = 0; i < text.size(); ++i) pieces->push_back(text.substr(i, 1));
    return;
  }
  if (text.empty()) return;
  size_t begin = 0;
  for (;;) {
    const size_t end = text.find_first_of(delimiters, begin);
    if (end == std::string_view::npos) break;
    add(text.substr(begin, end - begin));
    begin = end + 1;
  }
  add(text.substr(begin));
}

// What is left behind the last split is a piece, too, also an empty one.
void SplitAtBlanks(std::string_view text, int64_t most, Pieces* pieces) {
  const auto skip = [&] {
    while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  };
  skip();
  for (int64_t splits = 1; !text.empty(); ++splits) {
    size_t end = 0;
    while (end < text.size() && !IsBlank(text[end])) ++end;
    pieces->push_back(text.substr(0, end));
    text.remove_prefix(end);
    skip();
    if (splits == most) return pieces->push_back(text);
  }
}

void SplitAt(std::string_view text, std::string_view separator, int64_t most, Pieces* pieces) {
  if (most == 0) return pieces->push_back(text);
  if (separator.empty()) return SplitAtBlanks(text, most, pieces);
  for (int64_t splits = 0; most < 0 || splits < most; ++splits) {
    const size_t end = text.find(separator);
    if (end == std::string_view::npos) break;
    pieces->push_back(text.substr(0, end));
    text.remove_prefix(end + separator.size());
  }
  pieces->push_back(text);
}

// split(text, pieces) for every text of input 0, and the outputs.
template <class F>
absl::Status SplitAll(KernelContext& ctx, const F& split) {
  if (ctx.input(0).rank() != 1) {
    return InvalidArgument("input must be a vector, but has shape ", ctx.input(0).shape().DebugString());
  }
  const auto texts = ctx.input(0).flat<std::string>();
  Pieces pieces;
  std::vector<size_t> ends;
  size_t widest = 0;
  for (const std::string& text : texts) {
    const size_t before = pieces.size();
    split(text, &pieces);
    ends.push_back(pieces.size());
    widest = std::max(widest, pieces.size() - before);
  }
  const auto n = static_cast<int64_t>(pieces.size());
  TROUPE_ASSIGN_OR_RETURN(Tensor * indices, ctx.AllocateOutput(0, TensorShape({n, 2})));
  TROUPE_ASSIGN_OR_RETURN(Tensor * values, ctx.AllocateOutput(1, TensorShape({n})));
  TROUPE_ASSIGN_OR_RETURN(Tensor * shape, ctx.AllocateOutput(2, TensorShape({2})));
  int64_t* at = indices->data<int64_t>();
  size_t i = 0;
  for (size_t row = 0; row < ends.size(); ++row) {
    for (size_t first = i; i < ends[row]; ++i) {
      *at++ = static_cast<int64_t>(row);
      *at++ = static_cast<int64_t>(i - first);
      values->data<std::string>()[i] = std::string(pieces[i]);
    }
  }
  shape->data<int64_t>()[0] = static_cast<int64_t>(texts.size());
  shape->data<int64_t>()[1] = static_cast<int64_t>(widest);
  return absl::OkStatus();
}

absl::StatusOr<std::string> Separator(const KernelContext& ctx, std::string_view what) {
  if (ctx.input(1).rank() != 0) {
    return InvalidArgument(what, " must be a scalar, but has shape ", ctx.input(1).shape().DebugString());
  }
  return ctx.input(1).scalar<std::string>();
}

class StringSplitKernel {
 public:
  explicit StringSplitKernel(KernelInit& init) : skip_empty_(init.Attr<bool>("skip_empty")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const std::string delimiters, Separator(ctx, "delimiter"));
    return SplitAll(ctx,
                    [&](std::string_view text, Pieces* pieces) { SplitAtAny(text, delimiters, skip_empty_, pieces); });
  }

 private:
  const bool skip_empty_;
};
TROUPE_KERNEL("StringSplit").Device("CPU").Class<StringSplitKernel>();

class StringSplitV2Kernel {
 public:
  explicit StringSplitV2Kernel(KernelInit& init) : most_(init.Attr<int64_t>("maxsplit")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const std::string separator, Separator(ctx, "sep"));
    return SplitAll(ctx, [&](std::string_view text, Pieces* pieces) { SplitAt(text, separator, most_, pieces); });
  }

 private:
  const int64_t most_;
};
TROUPE_KERNEL("StringSplitV2").Device("CPU").Class<StringSplitV2Kernel>();

}  // namespace
}  // namespace troupe::parse
