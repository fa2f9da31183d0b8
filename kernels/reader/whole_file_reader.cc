// WholeFileReader, WholeFileReaderV2: each file is one record.
#include "kernels/reader/reader.h"
#include "troupe/resource_state.h"
#include "troupe/shape_inference.h"

namespace troupe::reader {
namespace {

constexpr char kKind[] = "WholeFileReader";
const ResourceKind saved(kKind, MakeSavedReader);

struct WholeFile : ReaderKind {
  explicit WholeFile(KernelInit& init) : ReaderKind(init, kKind) {}
};

const state::OpForms op(kKind, "WholeFileReaderV2", state::OpForms::kMakes, [](OpBuilder& op, std::string_view handle) {
  op.Output(StrCat("reader_handle: ", handle))
      .Attr("container: string = ''")
      .Attr("shared_name: string = ''")
      .Shape(shape_fn::Scalar)
      .NotDifferentiable("its value is a handle")
      .Doc("A reader of whole files: the key of a record is the name of the file, the value all that is in it.");
});
const state::KernelForms<state::HandleOf<WholeFile>> kernel(kKind, "WholeFileReaderV2");

}  // namespace
}  // namespace troupe::reader
