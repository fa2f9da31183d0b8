// ReverseSequence: the first seq_lengths[b] elements of dimension `seq_dim` in reverse order, for
// every entry b of dimension `batch_dim`.
#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"

namespace troupe::array {
namespace {

absl::Status CheckDims(int64_t seq, int64_t batch, int rank) {
  if (batch == seq) return InvalidArgument("batch_dim == seq_dim == ", seq);
  if (seq < 0 || seq >= rank) return InvalidArgument("seq_dim must be < input rank (", seq, " vs. ", rank, ")");
  if (batch < 0 || batch >= rank) return InvalidArgument("batch_dim must be < input rank (", batch, " vs. ", rank, ")");
  return absl::OkStatus();
}

absl::Status ReverseSequenceShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const int64_t seq, c.Attr<int64_t>("seq_dim"));
  TROUPE_ASSIGN_OR_RETURN(const int64_t batch, c.Attr<int64_t>("batch_dim"));
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape lengths, c.WithRank(1, 1));
  PartialTensorShape out = c.input(0);
  if (out.known_rank()) {
    TROUPE_RETURN_IF_ERROR(CheckDims(seq, batch, out.rank()));
    const int b = static_cast<int>(batch);
    TROUPE_ASSIGN_OR_RETURN(const int64_t size, MergeDims(out.dim(b), lengths.dim(0)));
    out.set_dim(b, size);
  }
  c.set_output(0, out);
  return absl::OkStatus();
}

absl::Status ReverseSequenceGradient(GradientContext& g) {
  g.Set(0, g.Op("ReverseSequence", {g.Grad(0), g.Input(1)},
                {{"seq_dim", g.Attr<int64_t>("seq_dim")}, {"batch_dim", g.Attr<int64_t>("batch_dim")}}));
  return g.status();
}

class ReverseSequenceKernel {
 public:
  explicit ReverseSequenceKernel(KernelInit& init)
      : seq_(init.Attr<int64_t>("seq_dim")), batch_(init.Attr<int64_t>("batch_dim")) {}
  absl::Status Compute(KernelContext& ctx) {
    const Tensor &in = ctx.input(0), &lengths = ctx.input(1);
    TROUPE_RETURN_IF_ERROR(CheckDims(seq_, batch_, in.rank()));
    const int seq = static_cast<int>(seq_), batch = static_cast<int>(batch_);
    if (lengths.rank() != 1 || lengths.num_elements() != in.dim(batch)) {
      return InvalidArgument("seq_lengths must be a vector of ", in.dim(batch), " lengths, got shape ",
                             lengths.shape().DebugString());
    }
    for (int64_t b = 0; b < in.dim(batch); ++b) {
      const int64_t n = IntAt(lengths, b);
      if (n < 0 || n > in.dim(seq))
        return InvalidArgument("seq_lengths(", b, ") = ", n, " is not in [0, ", in.dim(seq), "]");
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, in.shape()));
    const Strides strides = DenseStrides(in.shape().dims());
    const int64_t step = strides[static_cast<size_t>(seq)], entry = strides[static_cast<size_t>(batch)];
    for (int64_t b = 0; b < in.dim(batch); ++b) {
      const int64_t n = IntAt(lengths, b);
      StridedCopy turned, rest;
      for (int k = 0; k < in.rank(); ++k) {
        if (k == batch) continue;
        const int64_t s = strides[static_cast<size_t>(k)];
        turned.Add(k == seq ? n : in.dim(k), s, k == seq ? -s : s);
        rest.Add(k == seq ? in.dim(k) - n : in.dim(k), s, s);
      }
      turned.dst_offset = b * entry;
      turned.src_offset = b * entry + (n - 1) * step;
      rest.dst_offset = rest.src_offset = b * entry + n * step;
      turned.Run(ctx.threads(), in.dtype(), out->raw(), in.raw());
      rest.Run(ctx.threads(), in.dtype(), out->raw(), in.raw());
    }
    return absl::OkStatus();
  }

 private:
  int64_t seq_, batch_;
};

TROUPE_OP("ReverseSequence")
    .Input("input: T")
    .Input("seq_lengths: Tlen")
    .Output("output: T")
    .Attr("seq_dim: int")
    .Attr("batch_dim: int = 0")
    .Attr("T: type")
    .Attr("Tlen: {int32, int64} = DT_INT64")
    .Shape(ReverseSequenceShape)
    .Gradient(ReverseSequenceGradient)
    .Doc(
        "`input` with, for every entry b of dimension `batch_dim`, the first seq_lengths[b] elements of dimension "
        "`seq_dim` in reverse order.");
TROUPE_KERNEL("ReverseSequence")
    .Device("CPU")
    .Types("T", MovableTypes())
    .HostMemory("seq_lengths")
    .Class<ReverseSequenceKernel>();

}  // namespace
}  // namespace troupe::array
