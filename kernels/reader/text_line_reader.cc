// TextLineReader, TextLineReaderV2: each line is a record.
#include "kernels/reader/reader.h"
#include "troupe/resource_state.h"
#include "troupe/shape_inference.h"

namespace troupe::reader {
namespace {

constexpr char kKind[] = "TextLineReader";
const ResourceKind saved(kKind, MakeSavedReader);

struct TextLine : ReaderKind {
  explicit TextLine(KernelInit& init) : ReaderKind(init, kKind) {}
};

const state::OpForms op(kKind, "TextLineReaderV2", state::OpForms::kMakes, [](OpBuilder& op, std::string_view handle) {
  op.Output(StrCat("reader_handle: ", handle))
      .Attr("skip_header_lines: int = 0")
      .Attr("container: string = ''")
      .Attr("shared_name: string = ''")
      .Shape(shape_fn::Scalar)
      .NotDifferentiable("its value is a handle")
      .Doc(
          "A reader of lines. The key of a record is \"file:number\" with the line counted from 1. Lines end with "
          "\"\\n\" or \"\\r\\n\", which is no part of the value. The first `skip_header_lines` of each file are passed "
          "over.");
  if (handle != "resource") op.Deprecated(26, "Use TextLineReaderV2.");
});
const state::KernelForms<state::HandleOf<TextLine>> kernel(kKind, "TextLineReaderV2");

}  // namespace
}  // namespace troupe::reader
