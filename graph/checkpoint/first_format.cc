#include "graph/checkpoint/first_format.h"

#include <algorithm>
#include <limits>

#include "graph/checkpoint/boxes.h"
#include "graph/checkpoint/parse_message.h"
#include "graph/checkpoint/prefix_claim.h"
#include "graph/checkpoint/slice_key.h"
#include "graph/files/temporary_name.h"
#include "troupe/import_export.h"
#include "troupe/proto/saved_tensor_slice.pb.h"

namespace troupe {
namespace {

// How many elements the lists of a value have.
int64_t ElementsOf(const proto::TensorProto& p, DType dtype) {
  if (!p.tensor_content().empty()) {
    return IsPlainBytes(dtype) ? static_cast<int64_t>(p.tensor_content().size() / SizeOf(dtype)) : -1;
  }
  switch (dtype) {
    case DType::kFloat:
      return p.float_val_size();
    case DType::kDouble:
      return p.double_val_size();
    case DType::kString:
      return p.string_val_size();
    case DType::kComplex64:
      return p.scomplex_val_size() / 2;
    case DType::kComplex128:
      return p.dcomplex_val_size() / 2;
    case DType::kInt64:
      return p.int64_val_size();
    case DType::kBool:
      return p.bool_val_size();
    case DType::kHalf:
    case DType::kBfloat16:
      return p.half_val_size();
    case DType::kUint32:
      return p.uint32_val_size();
    case DType::kUint64:
      return p.uint64_val_size();
    default:
      return p.int_val_size();
  }
}

// The values in lists: readers of the first format look at nothing else.
absl::Status Fill(const Tensor& t, proto::TensorProto* p) {
  p->set_dtype(static_cast<proto::DataType>(t.dtype()));
  const auto each = [&]<class T>(auto add) {
    for (const T& x : t.flat<T>()) add(x);
    return absl::OkStatus();
  };
  switch (t.dtype()) {
    case DType::kFloat:
      return each.template operator()<float>([&](float x) { p->add_float_val(x); });
    case DType::kDouble:
      return each.template operator()<double>([&](double x) { p->add_double_val(x); });
    case DType::kInt32:
      return each.template operator()<int32_t>([&](int32_t x) { p->add_int_val(x); });
    case DType::kUint8:
      return each.template operator()<uint8_t>([&](uint8_t x) { p->add_int_val(x); });
    case DType::kInt8:
      return each.template operator()<int8_t>([&](int8_t x) { p->add_int_val(x); });
    case DType::kInt16:
      return each.template operator()<int16_t>([&](int16_t x) { p->add_int_val(x); });
    case DType::kInt64:
      return each.template operator()<int64_t>([&](int64_t x) { p->add_int64_val(x); });
    case DType::kBool:
      return each.template operator()<bool>([&](bool x) { p->add_bool_val(x); });
    case DType::kString:
      return each.template operator()<std::string>([&](const std::string& x) { p->add_string_val(x); });
    case DType::kHalf: {
      const auto* bits = static_cast<const uint16_t*>(t.raw());
      for (int64_t i = 0; i < t.num_elements(); ++i) p->add_half_val(bits[i]);
      return absl::OkStatus();
    }
    case DType::kComplex64:
      return each.template operator()<std::complex<float>>([&](std::complex<float> x) {
        p->add_scomplex_val(x.real());
        p->add_scomplex_val(x.imag());
      });
    case DType::kComplex128:
      return each.template operator()<std::complex<double>>([&](std::complex<double> x) {
        p->add_dcomplex_val(x.real());
        p->add_dcomplex_val(x.imag());
      });
    default:
      return Unimplemented("checkpoints of the first format hold no ", Name(t.dtype()));
  }
}

}  // namespace

size_t ShardPattern(std::string_view prefix) {
  constexpr std::string_view kOf = "-of-";
  const size_t last = prefix.find_last_not_of("0123456789");
  if (last == std::string_view::npos || last + 1 == prefix.size()) return std::string_view::npos;
  std::string_view front = prefix.substr(0, last + 1);
  if (!front.ends_with(kOf)) return std::string_view::npos;
  front.remove_suffix(kOf.size());
  const size_t dash = front.find_last_not_of('?');
  if (dash == std::string_view::npos || dash + 1 == front.size() || front[dash] != '-') return std::string_view::npos;
  return dash;
}

absl::StatusOr<std::unique_ptr<CheckpointReader>> FirstFormatReader::Open(const std::vector<std::string>& paths) {
  std::unique_ptr<FirstFormatReader> r(new FirstFormatReader());
  for (const std::string& path : paths) TROUPE_RETURN_IF_ERROR(r->AddFile(path));
  for (const auto& [name, kept] : r->kept_) {
    Entry entry{name, kept.dtype, kept.shape, {}, kept.unknown_type};
    for (const auto& [slice, table] : kept.slices) {
      if (!slice.IsFull()) entry.slices.push_back(slice);
    }
    r->entries_.push_back(std::move(entry));
  }
  return r;
}

absl::Status FirstFormatReader::AddFile(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<files::TableReader> table, files::TableReader::Open(path));
  TROUPE_ASSIGN_OR_RETURN(const std::optional<std::string> value, table->Find(""));
  proto::SavedTensorSlices all;
  if (!value.has_value() || !ParseMessage(*value, &all))
    return DataLoss(path, ": it is no checkpoint: it has no list of names");
  for (const auto& tensor : all.meta().tensor()) {
    const auto bad = [&](std::string_view why) {
      return DataLoss(path, ": the entry of '", CEscape(tensor.name()), "' is damaged: ", why);
    };
    const int number = tensor.type();
    if (number <= 0 || number >= kRefOffset) return bad(StrCat("it has an impossible type: ", number));
    const DType dtype = IsValidDType(number) ? static_cast<DType>(number) : DType::kInvalid;
    const absl::StatusOr<PartialTensorShape> shape = ShapeFromProto(tensor.shape());
    if (!shape.ok() || !shape->IsFullyDefined()) return bad("its shape is not known");
    const auto [it, added] = kept_.try_emplace(tensor.name());
    Kept& kept = it->second;
    if (added) {
      kept.dtype = dtype;
      kept.unknown_type = dtype == DType::kInvalid ? number : 0;
      kept.shape = shape->AsTensorShape();
    } else if (static_cast<int>(kept.dtype) + kept.unknown_type != number || kept.shape != shape->AsTensorShape()) {
      return bad("it has another type or shape in another file");
    }
    for (const auto& p : tensor.slice()) {
      absl::StatusOr<TensorSlice> slice = SliceFromProto(p);
      if (!slice.ok() || !slice->Within(kept.shape).ok()) return bad("it has an impossible slice");
      kept.slices.emplace_back(*std::move(slice), table.get());
    }
  }
  tables_.push_back(std::move(table));
  return absl::OkStatus();
}

absl::StatusOr<Tensor> FirstFormatReader::ReadPart(std::string_view name, DType dtype, const TensorSlice& slice,
                                                   const TensorShape& shape, const files::TableReader& table) const {
  const auto bad = [&](std::string_view why) {
    return DataLoss(table.path(), ": the values of '", CEscape(name), "' ", why);
  };
  TROUPE_ASSIGN_OR_RETURN(const std::optional<std::string> value, table.Find(SliceKey(name, slice)));
  if (!value.has_value()) return bad("are missing");
  proto::SavedTensorSlices all;
  if (!ParseMessage(*value, &all)) return bad("are damaged");
  proto::TensorProto* const data = all.mutable_data()->mutable_data();
  if (ElementsOf(*data, dtype) != shape.num_elements()) {
    return bad(StrCat("are ", ElementsOf(*data, dtype), ", not those of the shape ", shape.DebugString()));
  }
  data->set_dtype(static_cast<proto::DataType>(dtype));
  ShapeToProto(shape, data->mutable_tensor_shape());
  absl::StatusOr<Tensor> tensor = TensorFromProto(*data);
  if (!tensor.ok()) return bad(StrCat("are damaged: ", tensor.status().message()));
  return tensor;
}

absl::StatusOr<Tensor> FirstFormatReader::ReadSlice(std::string_view name, const TensorSlice& slice) const {
  const auto it = kept_.find(name);
  if (it == kept_.end()) return NotFound(tables_[0]->path(), ": there is no tensor '", CEscape(name), "'");
  const Kept& kept = it->second;
  if (kept.dtype == DType::kInvalid) return UnknownType(tables_[0]->path(), name, kept.unknown_type);
  absl::StatusOr<TensorSlice> want = slice.Within(kept.shape);
  if (!want.ok()) return Annotate(want.status(), StrCat(tables_[0]->path(), ": the tensor '", CEscape(name), "'"));
  std::vector<TensorSlice> boxes;
  // What is assembled cannot be larger than what the files could hold.
  uint64_t bytes = 0;
  for (const auto& table : tables_) bytes += table->file_size();
  if (static_cast<uint64_t>(want->shape().num_elements()) / 32 > bytes) {
    return DataLoss(tables_[0]->path(), ": the tensor '", CEscape(name), "' has more elements than the file can hold");
  }
  for (const auto& [s, table] : kept.slices) {
    TROUPE_ASSIGN_OR_RETURN(TensorSlice box, s.Within(kept.shape));
    boxes.push_back(std::move(box));
  }
  absl::StatusOr<Tensor> all =
      Assemble(allocator_, kept.dtype, *want, boxes, [&](size_t i, Allocator* to) -> absl::StatusOr<Tensor> {
        absl::StatusOr<Tensor> part =
            ReadPart(name, kept.dtype, kept.slices[i].first, boxes[i].shape(), *kept.slices[i].second);
        if (!part.ok() || to == Allocator::Cpu()) return part;
        Tensor own = part->Clone(to);
        if (!own.valid()) return NoMemoryToRead(name, part->bytes(), *to);
        return own;
      });
  if (absl::IsInvalidArgument(all.status())) {
    return DataLoss(tables_[0]->path(), ": the tensor '", CEscape(name), "': ", all.status().message());
  }
  return all;
}

absl::Status WriteFirstFormat(const std::string& path, const std::vector<FirstFormatTensor>& tensors,
                              const std::function<bool()>& cancelled) {
  const PrefixClaim claim(path);
  proto::SavedTensorSlices head;
  std::map<std::string, proto::SavedSliceMeta*> metas;
  std::map<std::string, const FirstFormatTensor*> by_key;
  for (const FirstFormatTensor& t : tensors) {
    if (!t.value.valid()) return InvalidArgument(path, ": the tensor '", CEscape(t.name), "' has no value");
    proto::SavedSliceMeta*& meta = metas[t.name];
    if (meta == nullptr) {
      meta = head.mutable_meta()->add_tensor();
      meta->set_name(t.name);
      ShapeToProto(t.full_shape, meta->mutable_shape());
      meta->set_type(static_cast<proto::DataType>(t.value.dtype()));
    }
    TROUPE_ASSIGN_OR_RETURN(const TensorSlice box, t.slice.Within(t.full_shape));
    if (box.shape() != t.value.shape() || static_cast<DType>(meta->type()) != t.value.dtype()) {
      return InvalidArgument(path, ": the slice '", t.slice.ToString(), "' of '", CEscape(t.name), "', ",
                             t.full_shape.DebugString(), ", is given as ", t.value.TypeAndShape());
    }
    SliceToProto(t.slice, meta->add_slice());
    if (!by_key.emplace(SliceKey(t.name, t.slice), &t).second) {
      return InvalidArgument(path, ": the tensor '", CEscape(t.name), "' is given twice");
    }
  }
  const std::string temporary = files::TemporaryName(path);
  const auto write = [&]() -> absl::Status {
    TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<files::WritableFile> file, files::OpenToWrite(temporary));
    files::TableWriter table(file.get());
    TROUPE_RETURN_IF_ERROR(table.Add("", head.SerializeAsString()));
    for (const auto& [key, t] : by_key) {
      proto::SavedTensorSlices one;
      one.mutable_data()->set_name(t->name);
      SliceToProto(t->slice, one.mutable_data()->mutable_slice());
      TROUPE_RETURN_IF_ERROR(Fill(t->value, one.mutable_data()->mutable_data()));
      if (one.ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int>::max())) {
        return InvalidArgument(path, ": the tensor '", CEscape(t->name), "' is larger than the format allows, 2 GiB");
      }
      TROUPE_RETURN_IF_ERROR(table.Add(key, one.SerializeAsString()));
    }
    TROUPE_RETURN_IF_ERROR(table.Finish());
    TROUPE_RETURN_IF_ERROR(file->Sync());
    TROUPE_RETURN_IF_ERROR(file->Close());
    TROUPE_RETURN_IF_ERROR(claim.IfNewest(cancelled, [&] { return files::Rename(temporary, path); }));
    return files::SyncDirectory(files::DirectoryOf(path));
  };
  const absl::Status written = write();
  if (!written.ok()) (void)files::Delete(temporary);
  return written;
}

}  // namespace troupe
