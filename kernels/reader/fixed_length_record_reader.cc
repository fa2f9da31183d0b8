// FixedLengthRecordReader, FixedLengthRecordReaderV2: records of one length.
// Only the newer form has the attr `encoding`.
#include "kernels/reader/reader.h"
#include "troupe/resource_state.h"
#include "troupe/shape_inference.h"

namespace troupe::reader {
namespace {

constexpr char kKind[] = "FixedLengthRecordReader";
const ResourceKind saved(kKind, MakeSavedReader);

struct FixedLength : ReaderKind {
  explicit FixedLength(KernelInit& init) : ReaderKind(init, kKind) {}
};

const state::OpForms op(kKind, "FixedLengthRecordReaderV2", state::OpForms::kMakes,
                        [](OpBuilder& op, std::string_view handle) {
                          op.Output(StrCat("reader_handle: ", handle))
                              .Attr("header_bytes: int = 0")
                              .Attr("record_bytes: int")
                              .Attr("footer_bytes: int = 0")
                              .Attr("hop_bytes: int = 0")
                              .Attr("container: string = ''")
                              .Attr("shared_name: string = ''");
                          if (handle == "resource") {
                            op.Attr("encoding: string = ''");
                          } else {
                            op.Deprecated(26, "Use FixedLengthRecordReaderV2.");
                          }
                          op.Shape(shape_fn::Scalar)
                              .NotDifferentiable("its value is a handle")
                              .Doc(
                                  "A reader of records of `record_bytes`. The first begins behind `header_bytes`, each "
                                  "next one `hop_bytes` later (0: `record_bytes`); what is left before the last "
                                  "`footer_bytes` is no record. The key is \"file:number\", counted from 0. "
                                  "`encoding` is '', 'ZLIB' or 'GZIP'.");
                        });
const state::KernelForms<state::HandleOf<FixedLength>> kernel(kKind, "FixedLengthRecordReaderV2");

}  // namespace
}  // namespace troupe::reader
