// TFRecordReader, TFRecordReaderV2: the records of record files.
#include "kernels/reader/reader.h"
#include "troupe/resource_state.h"
#include "troupe/shape_inference.h"

namespace troupe::reader {
namespace {

constexpr char kKind[] = "TFRecordReader";
const ResourceKind saved(kKind, MakeSavedReader);

struct TfRecord : ReaderKind {
  explicit TfRecord(KernelInit& init) : ReaderKind(init, kKind) {}
};

const state::OpForms op(kKind, "TFRecordReaderV2", state::OpForms::kMakes, [](OpBuilder& op, std::string_view handle) {
  op.Output(StrCat("reader_handle: ", handle))
      .Attr("container: string = ''")
      .Attr("shared_name: string = ''")
      .Attr("compression_type: string = ''")
      .Shape(shape_fn::Scalar)
      .NotDifferentiable("its value is a handle")
      .Doc(
          "A reader of record files. The key of a record is \"file:offset\", with the plain byte where it begins. "
          "`compression_type` is '', 'ZLIB' or 'GZIP'.");
  if (handle != "resource") op.Deprecated(26, "Use TFRecordReaderV2.");
});
const state::KernelForms<state::HandleOf<TfRecord>> kernel(kKind, "TFRecordReaderV2");

}  // namespace
}  // namespace troupe::reader
