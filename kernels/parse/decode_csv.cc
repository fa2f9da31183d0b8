// DecodeCSV: lines of comma-separated values as a tensor for each column (RFC 4180).
#include <algorithm>

#include "kernels/common/op_file.h"
#include "kernels/parse/text_numbers.h"

namespace troupe::parse {
namespace {

TROUPE_OP("DecodeCSV")
    .Input("records: string")
    .Input("record_defaults: OUT_TYPE")
    .Output("output: OUT_TYPE")
    .Attr("OUT_TYPE: list({float, double, int32, int64, string}) >= 1")
    .Attr("field_delim: string = ','")
    .Attr("use_quote_delim: bool = true")
    .Attr("na_value: string = ''")
    .Attr("select_cols: list(int) = []")
    .Shape([](InferenceContext& c) -> absl::Status {
      for (int i = 1; i < c.num_inputs(); ++i) {
        const PartialTensorShape& s = c.input(i);
        if (!s.known_rank()) continue;
        if (s.rank() > 1)
          return InvalidArgument("record_defaults must have rank 0 or 1, but one has ", s.DebugString());
        if (s.rank() == 1 && s.dim(0) > 1) {
          return InvalidArgument("record_defaults must have at most one element each, but one has ", s.dim(0));
        }
      }
      for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.input(0));
      return absl::OkStatus();
    })
    .NotDifferentiable("its input is text")
    .Doc(
        "The columns of lines of comma-separated values. A default without an element says that its column must be "
        "there; `select_cols` are the columns that are kept, in ascending order (all when it is empty).");

class DecodeCsvKernel {
 public:
  explicit DecodeCsvKernel(KernelInit& init)
      : types_(init.Attr<std::vector<DType>>("OUT_TYPE")),
        quotes_(init.Attr<bool>("use_quote_delim")),
        missing_(init.Attr<std::string>("na_value")),
        columns_(init.Attr<std::vector<int64_t>>("select_cols")) {
    const auto delimiter = init.Attr<std::string>("field_delim");
    if (delimiter.size() != 1) {
      init.Fail(InvalidArgument("field_delim must be one character"));
      return;
    }
    delimiter_ = delimiter[0];
    if (!columns_.empty() && columns_.size() != types_.size()) {
      init.Fail(InvalidArgument("select_cols names ", columns_.size(), " columns for ", types_.size(), " outputs"));
      return;
    }
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i] < 0 || (i > 0 && columns_[i] <= columns_[i - 1])) {
        init.Fail(InvalidArgument("select_cols must be ascending numbers from 0 on"));
        return;
      }
    }
  }

  absl::Status Compute(KernelContext& ctx) {
    const size_t n = types_.size();
    for (size_t f = 0; f < n; ++f) {
      const Tensor& value = ctx.input(static_cast<int>(f) + 1);
      if (value.num_elements() > 1) {
        return InvalidArgument("there must be at most one default per field, but for field ", f, " there are ",
                               value.num_elements());
      }
    }
    std::vector<Tensor*> outputs(n);
    for (size_t f = 0; f < n; ++f) {
      TROUPE_ASSIGN_OR_RETURN(outputs[f], ctx.AllocateOutput(static_cast<int>(f), ctx.input(0).shape()));
    }
    std::vector<std::string> fields;
    const auto lines = ctx.input(0).flat<std::string>();
    for (size_t line = 0; line < lines.size(); ++line) {
      if (line % 256 == 0 && ctx.cancelled()) return Cancelled("the step was told to end");
      TROUPE_RETURN_IF_ERROR(Fields(lines[line], line, &fields));
      if (fields.size() != n) return InvalidArgument("record ", line, " has ", fields.size(), " fields instead of ", n);
      for (size_t f = 0; f < n; ++f) {
        if (types_[f] != DType::kString && (fields[f].empty() || fields[f] == missing_)) {
          TROUPE_RETURN_IF_ERROR(Default(ctx, f, line, outputs[f]));
          continue;
        }
        bool good = true;
        switch (types_[f]) {
          case DType::kInt32:
            good = TextToNumber(fields[f], outputs[f]->data<int32_t>() + line);
            break;
          case DType::kInt64:
            good = TextToNumber(fields[f], outputs[f]->data<int64_t>() + line);
            break;
          case DType::kFloat:
            good = TextToNumber(fields[f], outputs[f]->data<float>() + line);
            break;
          case DType::kDouble:
            good = TextToNumber(fields[f], outputs[f]->data<double>() + line);
            break;
          default:
            if (fields[f].empty() || fields[f] == missing_) {
              TROUPE_RETURN_IF_ERROR(Default(ctx, f, line, outputs[f]));
            } else {
              outputs[f]->data<std::string>()[line] = std::move(fields[f]);
            }
        }
        if (!good) {
          return InvalidArgument("field ", f, " in record ", line, " is not a valid ", Name(types_[f]), ": '",
                                 CEscape(fields[f].substr(0, 60)), "'");
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Default(KernelContext& ctx, size_t f, size_t line, Tensor* to) {
    const Tensor& value = ctx.input(static_cast<int>(f) + 1);
    if (value.num_elements() != 1) return InvalidArgument("field ", f, " is required but missing in record ", line);
    const int64_t i = static_cast<int64_t>(line);
    array::CopyElements(ctx.threads(), value.dtype(), array::ElementAt(value.dtype(), to->raw(), i), value.raw(), 1);
    return absl::OkStatus();
  }

  bool Wants(int64_t column, size_t got) const {
    return columns_.empty() || (got < columns_.size() && columns_[got] == column);
  }

  absl::Status Fields(const std::string& text, size_t line, std::vector<std::string>* fields) const {
    fields->clear();
    const size_t size = text.size();
    const auto bad = [&](size_t at, std::string_view why) {
      return InvalidArgument("record ", line, ", byte ", at, ": ", why);
    };
    int64_t column = 0;
    size_t at = 0;
    while (at < size) {
      if (text[at] == '\n' || text[at] == '\r') {
        ++at;
        continue;
      }
      const bool keep = Wants(column, fields->size());
      std::string field;
      if (!quotes_ || text[at] != '"') {
        const size_t begin = at;
        for (; at < size && text[at] != delimiter_; ++at) {
          if ((quotes_ && text[at] == '"') || text[at] == '\n' || text[at] == '\r') {
            return bad(at, "unquoted fields cannot have quotes or line ends inside");
          }
        }
        if (keep) field.assign(text, begin, at - begin);
        ++at;
      } else {
        ++at;
        while (at + 1 < size && (text[at] != '"' || text[at + 1] != delimiter_)) {
          if (text[at] == '"') {
            if (text[at + 1] != '"') return bad(at, "a quote inside a string has to be escaped by another quote");
            ++at;
          }
          if (keep) field += text[at];
          ++at;
        }
        if (at >= size || text[at] != '"') {
          return bad(at, "a quoted field has to end with a quote followed by the delimiter or the end");
        }
        at += 2;
      }
      ++column;
      if (!keep) continue;
      fields->push_back(std::move(field));
      if (fields->size() == columns_.size()) return absl::OkStatus();
    }
    // Behind a delimiter at the end is one more field, an empty one.
    if (size > 0 && text[size - 1] == delimiter_ && Wants(column, fields->size())) fields->emplace_back();
    return absl::OkStatus();
  }

  const std::vector<DType> types_;
  const bool quotes_;
  const std::string missing_;
  const std::vector<int64_t> columns_;
  char delimiter_ = ',';
};
TROUPE_KERNEL("DecodeCSV").Device("CPU").Class<DecodeCsvKernel>();

}  // namespace
}  // namespace troupe::parse
