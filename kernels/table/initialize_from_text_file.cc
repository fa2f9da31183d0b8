// InitializeTableFromTextFile, InitializeTableFromTextFileV2: a table from the lines of a file.
//
// A thread for files reads the lines; then the table is asked, and the node ends with its answer.
#include <charconv>
#include <limits>

#include "kernels/io/blocking.h"
#include "kernels/io/cursor.h"
#include "kernels/table/table.h"
#include "troupe/shape_inference.h"

namespace troupe::table {
namespace {

constexpr int64_t kLineNumber = -1, kWholeLine = -2;

// Where the keys or the values of a table stand in a line.
class Place {
 public:
  Place(int64_t index, std::string_view what, DType type) : index_(index), what_(what), type_(type) {}

  absl::Status Check() const {
    if (index_ == kLineNumber && type_ != DType::kInt64)
      return InvalidArgument("the number of a line is an int64, but the ", what_, "s of the table are ", Name(type_));
    if (index_ == kWholeLine && type_ != DType::kString && type_ != DType::kInt64)
      return InvalidArgument("a whole line is a string or an int64, but the ", what_, "s of the table are ",
                             Name(type_));
    return absl::OkStatus();
  }
  // Whether the line has it; then it is appended.
  absl::Status Take(std::string_view line, absl::Span<const std::string_view> pieces, int64_t number,
                    Column* to) const {
    if (index_ == kLineNumber) return Append(&number, to);
    if (index_ == kWholeLine) return Parse(line, to);
    if (static_cast<size_t>(index_) >= pieces.size())
      return InvalidArgument("it has ", pieces.size(), " columns, and the ", what_, " stands in column ", index_);
    return Parse(pieces[static_cast<size_t>(index_)], to);
  }

 private:
  static absl::Status Append(const void* element, Column* to) {
    TROUPE_RETURN_IF_ERROR(to->Reserve(1));
    to->Append(element);
    return absl::OkStatus();
  }
  template <class T>
  absl::Status Number(std::string_view text, Column* to) const {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      return InvalidArgument("the ", what_, " '", CEscape(text), "' is no ", Name(type_));
    return Append(&value, to);
  }
  absl::Status Parse(std::string_view text, Column* to) const {
    switch (type_) {
      case DType::kString: {
        const std::string copy(text);
        return Append(&copy, to);
      }
      case DType::kInt32:
        return Number<int32_t>(text, to);
      case DType::kInt64:
        return Number<int64_t>(text, to);
      case DType::kFloat:
        return Number<float>(text, to);
      case DType::kDouble:
        return Number<double>(text, to);
      default:
        return InvalidArgument("a file has no ", what_, "s of type ", Name(type_));
    }
  }

  const int64_t index_;
  const std::string_view what_;
  const DType type_;
};

struct TextFile {
  std::string path;
  int64_t key_index, value_index, vocab_size, offset;
  char delimiter;

  absl::Status Read(const TableSpec& spec, TableRequest* to) const {
    const Place key(key_index, "key", spec.key_type), value(value_index, "value", spec.value_type);
    TROUPE_RETURN_IF_ERROR(key.Check());
    TROUPE_RETURN_IF_ERROR(value.Check());
    TROUPE_ASSIGN_OR_RETURN(const auto lines, io::OpenLines(path, files::Compression::kNone));
    Column keys(spec.key_type, TensorShape()), values(spec.value_type, TensorShape());
    int64_t number = 0;
    std::vector<std::string_view> pieces;
    std::string_view line;
    for (; vocab_size < 0 || number < vocab_size; ++number) {
      TROUPE_ASSIGN_OR_RETURN(const bool more, lines->Next(&line));
      if (!more) break;
      absl::Status status = line.empty() ? InvalidArgument("it is empty") : absl::OkStatus();
      if (key_index >= 0 || value_index >= 0) Split(line, &pieces);
      if (status.ok()) status = key.Take(line, pieces, number + offset, &keys);
      if (status.ok()) status = value.Take(line, pieces, number + offset, &values);
      if (!status.ok()) return Annotate(status, StrCat(path, ": line ", number + 1));
    }
    if (number == 0) return OutOfRange(path, ": there are no lines for ", spec.What());
    if (number < vocab_size)
      return InvalidArgument(path, ": it has ", number, " lines, but vocab_size says ", vocab_size);
    TROUPE_ASSIGN_OR_RETURN(to->keys, keys.All());
    TROUPE_ASSIGN_OR_RETURN(to->values, values.All());
    return absl::OkStatus();
  }

 private:
  void Split(std::string_view line, std::vector<std::string_view>* pieces) const {
    pieces->clear();
    for (;;) {
      const size_t end = line.find(delimiter);
      pieces->push_back(line.substr(0, end));
      if (end == std::string_view::npos) return;
      line.remove_prefix(end + 1);
    }
  }
};

class FromTextFileKernel {
 public:
  explicit FromTextFileKernel(KernelInit& init) {
    file_.key_index = init.Attr<int64_t>("key_index");
    file_.value_index = init.Attr<int64_t>("value_index");
    file_.vocab_size = init.Attr<int64_t>("vocab_size");
    file_.offset = init.Attr<int64_t>("offset");
    const auto delimiter = init.Attr<std::string>("delimiter");
    if (delimiter.size() != 1)
      init.Fail(InvalidArgument("delimiter must be one character, not '", CEscape(delimiter), "'"));
    file_.delimiter = delimiter.empty() ? '\t' : delimiter[0];
  }
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    auto request = std::make_shared<TableRequest>();
    request->kind = TableRequest::Kind::kInitialize;
    io::RunBlocking(
        ctx, [this, &ctx, request] { return Read(ctx, request.get()); },
        [this, &ctx, request, done](const absl::Status& read) {
          if (!read.ok()) return done(read);
          const absl::StatusOr<Table*> table = ctx.resource<Table>(0);
          (*table)->Ask(request);
          request->WhenAnswered([request = request.get(), done] { done(request->status()); });
        });
  }

 private:
  absl::Status Read(const KernelContext& ctx, TableRequest* request) const {
    TROUPE_ASSIGN_OR_RETURN(const Table* const table, ctx.resource<Table>(0));
    TextFile file = file_;
    TROUPE_ASSIGN_OR_RETURN(file.path, io::StringInput(ctx, 1, "filename"));
    return file.Read(table->spec(), request);
  }
  TextFile file_;
};

const state::OpForms op(
    "InitializeTableFromTextFile", "InitializeTableFromTextFileV2", state::OpForms::kUses,
    [](OpBuilder& op, std::string_view handle) {
      op.Input(StrCat("table_handle: ", handle))
          .Input("filename: string")
          .Attr("key_index: int >= -2")
          .Attr("value_index: int >= -2")
          .Attr("vocab_size: int >= -1 = -1")
          .Attr("delimiter: string = '\t'")
          .Attr("offset: int = 0")
          .Shape([](InferenceContext& c) { return c.WithRank(1, 0).status(); })
          .NotDifferentiable("it has no outputs")
          .Doc(
              "Fills a HashTableV2 from the lines of a file. `key_index` and `value_index` say what "
              "of a line they are: a column, counted from 0, between `delimiter`s; -1 the number "
              "of the line plus `offset`, counted from 0; -2 the whole line. `vocab_size` lines "
              "are read, by default all.");
    });
const state::KernelForms<FromTextFileKernel> kernel("InitializeTableFromTextFile", "InitializeTableFromTextFileV2");

}  // namespace
}  // namespace troupe::table
