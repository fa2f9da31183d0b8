// StringStrip, Substr and StringLength. Characters are bytes, or those of UTF-8 where attr `unit`
// says so.
#include <algorithm>

#include "kernels/common/broadcast.h"
#include "kernels/common/op_file.h"
#include "kernels/parse/text_numbers.h"

namespace troupe::parse {
namespace {

TROUPE_OP("StringStrip")
    .Input("input: string")
    .Output("output: string")
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("its output is text")
    .Doc("Each text without the blanks at its ends.");

absl::Status Strip(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, ctx.input(0).shape()));
  const auto texts = ctx.input(0).flat<std::string>();
  for (size_t i = 0; i < texts.size(); ++i) out->data<std::string>()[i] = std::string(WithoutBlanks(texts[i]));
  return absl::OkStatus();
}
TROUPE_KERNEL("StringStrip").Device("CPU").Function<Strip>();

// Whether a byte begins a character of UTF-8.
bool Begins(char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }

TROUPE_OP("StringLength")
    .Input("input: string")
    .Output("output: int32")
    .Attr("unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'")
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("its input is text")
    .Doc("The number of characters of each text.");

class StringLengthKernel {
 public:
  explicit StringLengthKernel(KernelInit& init) : utf8_(init.Attr<std::string>("unit") == "UTF8_CHAR") {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, ctx.input(0).shape()));
    const auto texts = ctx.input(0).flat<std::string>();
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto length = utf8_ ? std::count_if(texts[i].begin(), texts[i].end(), Begins)
                                : static_cast<std::ptrdiff_t>(texts[i].size());
      out->data<int32_t>()[i] = static_cast<int32_t>(length);
    }
    return absl::OkStatus();
  }

 private:
  const bool utf8_;
};
TROUPE_KERNEL("StringLength").Device("CPU").Class<StringLengthKernel>();

TROUPE_OP("Substr")
    .Input("input: string")
    .Input("pos: T")
    .Input("len: T")
    .Output("output: string")
    .Attr("T: {int32, int64}")
    .Attr("unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'")
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(c.input(1).MergeWith(c.input(2)).status());
      TROUPE_ASSIGN_OR_RETURN(PartialTensorShape out, BroadcastPartialShapes(c.input(0), c.input(1)));
      c.set_output(0, std::move(out));
      return absl::OkStatus();
    })
    .NotDifferentiable("its output is text")
    .Doc(
        "At most `len` characters of each text from character `pos` on, which counts from the end when it is negative. "
        "A negative `len` means all the rest of the bytes, and none of UTF8_CHAR. "
        "Texts, and positions and lengths, are broadcast against each other.");

class SubstrKernel {
 public:
  explicit SubstrKernel(KernelInit& init) : utf8_(init.Attr<std::string>("unit") == "UTF8_CHAR") {}
  absl::Status Compute(KernelContext& ctx) {
    const Tensor &texts = ctx.input(0), &pos = ctx.input(1), &len = ctx.input(2);
    if (!pos.SameShape(len)) {
      return InvalidArgument("pos and len must have one shape, but have ", pos.shape().DebugString(), " and ",
                             len.shape().DebugString());
    }
    TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, BroadcastShapes(texts.shape(), pos.shape()));
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
    const int64_t n = out->num_elements();
    for (int64_t i = 0; i < n; ++i) {
      const int64_t p = Index(shape, pos, i);
      const std::string& text = texts.data<std::string>()[Index(shape, texts, i)];
      const int64_t begin = array::IntAt(pos, p), length = array::IntAt(len, p);
      const int64_t size = utf8_ ? std::count_if(text.begin(), text.end(), Begins) : static_cast<int64_t>(text.size());
      if (begin < -size || begin > size) {
        return InvalidArgument("pos ", begin, " is out of range for the text of ", size, " characters at index ", i);
      }
      const int64_t from = begin < 0 ? begin + size : begin;
      const int64_t rest = size - from;
      const int64_t most = length < 0 ? (utf8_ ? 0 : rest) : std::min(length, rest);
      const size_t first = Byte(text, from);
      out->data<std::string>()[i] = text.substr(first, Byte(text, from + most) - first);
    }
    return absl::OkStatus();
  }

 private:
  // The element of `t` that is broadcast to element `i` of `shape`.
  static int64_t Index(const TensorShape& shape, const Tensor& t, int64_t i) {
    int64_t index = 0, stride = 1;
    for (int d = shape.rank() - 1, s = t.rank() - 1; s >= 0; --d, --s) {
      if (t.dim(s) != 1) index += i % shape.dim(d) * stride;
      i /= shape.dim(d);
      stride *= t.dim(s);
    }
    return index;
  }
  // Where character `index` begins.
  size_t Byte(const std::string& text, int64_t index) const {
    if (!utf8_) return static_cast<size_t>(index);
    size_t at = 0;
    for (;; ++at) {
      if (at == text.size()) return at;
      if (Begins(text[at]) && index-- == 0) return at;
    }
  }

  const bool utf8_;
};
TROUPE_KERNEL("Substr").Device("CPU").Class<SubstrKernel>();

}  // namespace
}  // namespace troupe::parse
