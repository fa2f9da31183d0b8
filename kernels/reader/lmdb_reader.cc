// LMDBReader: the pairs of LMDB files. TensorFlow has it with a reference as its handle only.
#include "kernels/reader/reader.h"
#include "troupe/resource_state.h"
#include "troupe/shape_inference.h"

namespace troupe::reader {
namespace {

constexpr char kKind[] = "LMDBReader";
const ResourceKind saved(kKind, MakeSavedReader);

struct Lmdb : ReaderKind {
  explicit Lmdb(KernelInit& init) : ReaderKind(init, kKind) {}
};

const state::OpForms op(kKind, "", state::OpForms::kMakes, [](OpBuilder& op, std::string_view handle) {
  op.Output(StrCat("reader_handle: ", handle))
      .Attr("container: string = ''")
      .Attr("shared_name: string = ''")
      .Shape(shape_fn::Scalar)
      .NotDifferentiable("its value is a handle")
      .Doc(
          "A reader of LMDB files, or of the file data.mdb of folders: keys and values, in the order of the keys. A "
          "writer may not change a file while it is read. Several values of a key are UNIMPLEMENTED.");
});
const state::KernelForms<state::HandleOf<Lmdb>> kernel(kKind, "");

}  // namespace
}  // namespace troupe::reader
