// IdentityReader, IdentityReaderV2: the names themselves are the records.
#include "kernels/reader/reader.h"
#include "troupe/resource_state.h"
#include "troupe/shape_inference.h"

namespace troupe::reader {
namespace {

constexpr char kKind[] = "IdentityReader";
const ResourceKind saved(kKind, MakeSavedReader);

struct Identity : ReaderKind {
  explicit Identity(KernelInit& init) : ReaderKind(init, kKind) {}
};

const state::OpForms op(kKind, "IdentityReaderV2", state::OpForms::kMakes, [](OpBuilder& op, std::string_view handle) {
  op.Output(StrCat("reader_handle: ", handle))
      .Attr("container: string = ''")
      .Attr("shared_name: string = ''")
      .Shape(shape_fn::Scalar)
      .NotDifferentiable("its value is a handle")
      .Doc("A reader whose records are the names of its works: key and value are both the name.");
  if (handle != "resource") op.Deprecated(26, "Use IdentityReaderV2.");
});
const state::KernelForms<state::HandleOf<Identity>> kernel(kKind, "IdentityReaderV2");

}  // namespace
}  // namespace troupe::reader
