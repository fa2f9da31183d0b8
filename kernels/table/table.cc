#include "kernels/table/table.h"

#include <algorithm>
#include <cstring>

#include "absl/hash/hash.h"
#include "kernels/common/elements.h"

namespace troupe::table {

using array::ElementAt;

namespace {

bool IsDense(const TableSpec& spec) { return spec.kind == "MutableDenseHashTable"; }

}  // namespace

TensorShape Joined(const TensorShape& rows, const TensorShape& each) {
  TensorShape shape = rows;
  for (const int64_t d : each.dims()) shape.AddDim(d);
  return shape;
}

void CopyRow(DType type, void* dst, const void* src, int64_t n) {
  if (IsPlainBytes(type)) {
    if (n > 0) std::memcpy(dst, src, static_cast<size_t>(n) * SizeOf(type));
  } else {
    std::copy_n(static_cast<const std::string*>(src), n, static_cast<std::string*>(dst));
  }
}

absl::Status TableSpec::Check() const {
  for (const DType t : {key_type, value_type}) {
    if (t != DType::kString && (t == DType::kInvalid || IsRef(t) || !IsPlainBytes(t)))
      return InvalidArgument("a ", kind, " cannot hold elements of type ", Name(t));
  }
  if (kind == "MutableHashTableOfTensors" && value_shape.rank() != 1)
    return InvalidArgument("the values of a ", kind, " must be vectors, but have shape ", value_shape.DebugString());
  if (!IsDense(*this)) return absl::OkStatus();
  if (key_type == DType::kString && key_shape.num_elements() != 1)
    return InvalidArgument("a ", kind, " of strings needs a string for each key");
  if (!empty_key.valid() || empty_key.dtype() != key_type || empty_key.shape() != key_shape)
    return InvalidArgument("the empty key of ", What(), " is no key of it");
  if (!deleted_key.valid()) return absl::OkStatus();
  if (deleted_key.dtype() != key_type || deleted_key.shape() != key_shape)
    return InvalidArgument("the deleted key of ", What(), " must have the shape of the empty one, ",
                           key_shape.DebugString(), ", but has ", deleted_key.shape().DebugString());
  const int64_t n = key_shape.num_elements();
  const bool equal = key_type == DType::kString ? empty_key.data<std::string>()[0] == deleted_key.data<std::string>()[0]
                                                : std::memcmp(empty_key.raw(), deleted_key.raw(),
                                                              static_cast<size_t>(n) * SizeOf(key_type)) == 0;
  if (equal) return InvalidArgument("the empty and the deleted key of ", What(), " are equal");
  return absl::OkStatus();
}

absl::Status TableSpec::CheckShared(const TableSpec& other) const {
  const auto differs = [&](std::string_view what, const auto& has, const auto& asked) {
    return InvalidArgument("shared table '", name, "' has ", what, " ", has, ", but the node asks for ", asked);
  };
  if (kind != other.kind) return differs("type", kind, other.kind);
  if (key_type != other.key_type) return differs("keys of", Name(key_type), Name(other.key_type));
  if (value_type != other.value_type) return differs("values of", Name(value_type), Name(other.value_type));
  if (value_shape != other.value_shape)
    return differs("values of shape", value_shape.DebugString(), other.value_shape.DebugString());
  return absl::OkStatus();
}

absl::StatusOr<TensorShape> TableSpec::CheckKeys(const Tensor& keys) const {
  if (keys.dtype() != key_type)
    return InvalidArgument("the keys of ", What(), " are of type ", Name(key_type), ", not ", Name(keys.dtype()));
  const int rank = keys.rank() - key_shape.rank();
  TensorShape rows;
  for (int d = 0; d < rank; ++d) rows.AddDim(keys.dim(d));
  if (rank >= 0 && Joined(rows, key_shape) == keys.shape()) return rows;
  return InvalidArgument("a key of ", What(), " has shape ", key_shape.DebugString(), ", and the keys have ",
                         keys.shape().DebugString());
}

absl::Status TableSpec::CheckValues(const TensorShape& rows, const Tensor& values) const {
  if (values.dtype() != value_type)
    return InvalidArgument("the values of ", What(), " are of type ", Name(value_type), ", not ", Name(values.dtype()));
  const TensorShape want = Joined(rows, value_shape);
  if (values.shape() == want) return absl::OkStatus();
  return InvalidArgument("the values for ", What(), " must have shape ", want.DebugString(), ", but have ",
                         values.shape().DebugString());
}

Column::Column(DType type, TensorShape each) : type_(type), each_(std::move(each)), size_(each_.num_elements()) {}

const void* Column::Row(int64_t i) const { return ElementAt(type_, buffer_.raw(), i * size_); }

absl::Status Column::Reserve(int64_t rows) {
  const int64_t need = rows_ + rows, have = buffer_.valid() ? buffer_.dim(0) : 0;
  if (need <= have) return absl::OkStatus();
  TensorShape shape = each_;
  shape.InsertDim(0, std::max<int64_t>({need, 2 * have, 16}));
  TROUPE_ASSIGN_OR_RETURN(const TensorShape checked, TensorShape::Make(shape.dims()));
  Tensor larger(type_, checked);
  if (!larger.valid()) return ResourceExhausted("no memory for ", need, " entries of a table");
  if (rows_ > 0 && type_ == DType::kString) {
    std::move(buffer_.data<std::string>(), buffer_.data<std::string>() + rows_ * size_, larger.data<std::string>());
  } else if (rows_ > 0) {
    CopyRow(type_, larger.raw(), buffer_.raw(), rows_ * size_);
  }
  buffer_ = std::move(larger);
  return absl::OkStatus();
}

void Column::Append(const void* row) {
  CopyRow(type_, ElementAt(type_, buffer_.raw(), rows_ * size_), row, size_);
  ++rows_;
}

void Column::Set(int64_t i, const void* row) { CopyRow(type_, ElementAt(type_, buffer_.raw(), i * size_), row, size_); }

void Column::Remove(int64_t i) {
  --rows_;
  if (type_ != DType::kString) {
    if (i != rows_) Set(i, Row(rows_));
    return;
  }
  std::string *to = buffer_.data<std::string>() + i * size_, *from = buffer_.data<std::string>() + rows_ * size_;
  for (int64_t k = 0; k < size_; ++k) {
    if (i != rows_) to[k].swap(from[k]);
    from[k] = std::string();
  }
}

absl::StatusOr<Tensor> Column::All() const {
  TensorShape shape = each_;
  shape.InsertDim(0, rows_);
  Tensor all(type_, shape);
  if (!all.valid()) return ResourceExhausted("no memory for a copy of ", rows_, " entries of a table");
  if (rows_ > 0) CopyRow(type_, all.raw(), buffer_.raw(), rows_ * size_);
  return all;
}

TableMachine::TableMachine(TableSpec spec)
    : spec_(std::move(spec)),
      by_(spec_.key_type == DType::kString                                            ? By::kText
          : spec_.key_shape.rank() == 0 && SizeOf(spec_.key_type) <= sizeof(uint64_t) ? By::kNumber
                                                                                      : By::kBytes),
      key_size_(spec_.key_shape.num_elements()),
      value_size_(spec_.value_shape.num_elements()),
      keys_(spec_.key_type, spec_.key_shape),
      values_(spec_.value_type, spec_.value_shape) {}

uint64_t TableMachine::NumberOf(const void* key) const {
  uint64_t number = 0;
  std::memcpy(&number, key, SizeOf(spec_.key_type));
  return number;
}

std::string_view TableMachine::TextOf(const void* key) const {
  if (by_ == By::kText) return *static_cast<const std::string*>(key);
  return {static_cast<const char*>(key), static_cast<size_t>(key_size_) * SizeOf(spec_.key_type)};
}

size_t TableMachine::HashOfKey(const void* key) const {
  return by_ == By::kNumber ? absl::Hash<uint64_t>()(NumberOf(key)) : absl::Hash<std::string_view>()(TextOf(key));
}

int64_t TableMachine::RowOf(const void* key) const {
  const size_t hash = HashOfKey(key);
  if (by_ == By::kNumber) {
    const uint64_t number = NumberOf(key);
    return rows_.Find(hash, [&](int64_t row) { return NumberOf(keys_.Row(row)) == number; });
  }
  const std::string_view text = TextOf(key);
  return rows_.Find(hash, [&](int64_t row) { return TextOf(keys_.Row(row)) == text; });
}

void TableMachine::Append(const void* key, const void* value) {
  const int64_t row = keys_.rows();
  keys_.Append(key);
  try {
    values_.Append(value);
  } catch (...) {
    keys_.Remove(row);
    throw;
  }
  rows_.Insert(HashOfKey(key), row);
}

void TableMachine::Clear() {
  rows_.Clear();
  while (keys_.rows() > 0) {
    keys_.Remove(keys_.rows() - 1);
    values_.Remove(values_.rows() - 1);
  }
}

bool TableMachine::IsReserved(const void* key) const {
  for (const Tensor* reserved : {&spec_.empty_key, &spec_.deleted_key}) {
    if (reserved->valid() && TextOf(reserved->raw()) == TextOf(key)) return true;
  }
  return false;
}

absl::Status TableMachine::CheckReserved(const Tensor& keys) const {
  if (!spec_.empty_key.valid()) return absl::OkStatus();
  for (int64_t i = 0; i < keys.num_elements() / std::max<int64_t>(key_size_, 1); ++i) {
    if (IsReserved(ElementAt(spec_.key_type, keys.raw(), i * key_size_)))
      return InvalidArgument("key ", i, " is the empty or the deleted key of ", spec_.What(), ", which it never holds");
  }
  return absl::OkStatus();
}

void TableMachine::Handle(const StateRequestPtr& request, StateAnswers* answers) {
  answers->Reserve(1);
  absl::Status status = Do(static_cast<TableRequest*>(request.get()));
  answers->Add(request, std::move(status));
}

absl::Status TableMachine::Do(TableRequest* r) {
  const auto refused = [&](std::string_view what) {
    return Unimplemented(spec_.What(), " is filled by its initializer; it takes no ", what);
  };
  switch (r->kind) {
    case TableRequest::Kind::kFind:
      return Find(r);
    case TableRequest::Kind::kInsert:
      if (!spec_.is_mutable()) return refused("insertions");
      return Insert(r->keys, r->values, /*is_import=*/false);
    case TableRequest::Kind::kRemove:
      if (!spec_.is_mutable()) return refused("removals");
      return Remove(r->keys);
    case TableRequest::Kind::kSize:
      r->size = keys_.rows();
      return absl::OkStatus();
    case TableRequest::Kind::kExport:
      return Export(r);
    case TableRequest::Kind::kImport:
      if (spec_.is_mutable()) return Insert(r->keys, r->values, /*is_import=*/true);
      return Initialize(r->keys, r->values);
    case TableRequest::Kind::kInitialize:
      if (spec_.is_mutable())
        return InvalidArgument(spec_.What(), " has no initializer: it takes insertions and imports");
      return Initialize(r->keys, r->values);
  }
  return absl::OkStatus();
}

absl::Status TableMachine::Find(TableRequest* r) const {
  if (!spec_.is_mutable() && !initialized_) return FailedPrecondition(spec_.What(), " is not initialized");
  TROUPE_RETURN_IF_ERROR(CheckReserved(r->keys));
  const int64_t n = r->keys.num_elements() / std::max<int64_t>(key_size_, 1);
  const int64_t step = r->values.num_elements() == value_size_ ? 0 : value_size_;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = RowOf(ElementAt(spec_.key_type, r->keys.raw(), i * key_size_));
    CopyRow(spec_.value_type, ElementAt(spec_.value_type, r->found.raw(), i * value_size_),
            row >= 0 ? values_.Row(row) : ElementAt(spec_.value_type, r->values.raw(), i * step), value_size_);
  }
  return absl::OkStatus();
}

absl::Status TableMachine::Insert(const Tensor& keys, const Tensor& values, bool is_import) {
  const int64_t n = keys.num_elements() / std::max<int64_t>(key_size_, 1);
  // An export of TensorFlow's dense table has the places that are empty, too.
  if (!is_import) TROUPE_RETURN_IF_ERROR(CheckReserved(keys));
  // First all that may fail, so that nobody sees a part of it.
  TROUPE_RETURN_IF_ERROR(keys_.Reserve(n));
  TROUPE_RETURN_IF_ERROR(values_.Reserve(n));
  rows_.Reserve(static_cast<size_t>(n));
  if (is_import) Clear();
  for (int64_t i = 0; i < n; ++i) {
    const void* const key = ElementAt(spec_.key_type, keys.raw(), i * key_size_);
    const void* const value = ElementAt(spec_.value_type, values.raw(), i * value_size_);
    if (is_import && IsReserved(key)) continue;
    const int64_t row = RowOf(key);
    if (row >= 0) {
      values_.Set(row, value);
      continue;
    }
    Append(key, value);
  }
  return absl::OkStatus();
}

absl::Status TableMachine::Remove(const Tensor& keys) {
  TROUPE_RETURN_IF_ERROR(CheckReserved(keys));
  for (int64_t i = 0; i < keys.num_elements() / std::max<int64_t>(key_size_, 1); ++i) {
    const void* const key = ElementAt(spec_.key_type, keys.raw(), i * key_size_);
    const int64_t row = RowOf(key);
    if (row < 0) continue;
    rows_.Erase(HashOfKey(key), row);
    const int64_t last = keys_.rows() - 1;
    if (row != last) rows_.Renumber(HashOfKey(keys_.Row(last)), last, row);
    keys_.Remove(row);
    values_.Remove(row);
  }
  return absl::OkStatus();
}

absl::Status TableMachine::Initialize(const Tensor& keys, const Tensor& values) {
  const int64_t n = keys.num_elements();
  if (initialized_) {
    // TensorFlow, too, compares only how many there are.
    if (n == keys_.rows()) return absl::OkStatus();
    return FailedPrecondition(spec_.What(), " was initialized with ", keys_.rows(), " entries, and not with ", n);
  }
  TROUPE_RETURN_IF_ERROR(keys_.Reserve(n));
  TROUPE_RETURN_IF_ERROR(values_.Reserve(n));
  rows_.Reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const void* const key = ElementAt(spec_.key_type, keys.raw(), i);
    const void* const value = ElementAt(spec_.value_type, values.raw(), i);
    const int64_t row = RowOf(key);
    if (row < 0) {
      Append(key, value);
      continue;
    }
    const bool equal =
        spec_.value_type == DType::kString
            ? *static_cast<const std::string*>(values_.Row(row)) == *static_cast<const std::string*>(value)
            : std::memcmp(values_.Row(row), value, SizeOf(spec_.value_type)) == 0;
    if (equal) continue;
    Clear();
    return FailedPrecondition("key ", i, " of the initializer of ", spec_.What(),
                              " came before with a different value");
  }
  initialized_ = true;
  return absl::OkStatus();
}

absl::Status TableMachine::Export(TableRequest* r) const {
  if (!spec_.is_mutable() && !initialized_) return Aborted(spec_.What(), " is not initialized");
  TROUPE_ASSIGN_OR_RETURN(r->keys, keys_.All());
  TROUPE_ASSIGN_OR_RETURN(r->found, values_.All());
  return absl::OkStatus();
}

void TableMachine::Visit(const std::function<void(const Tensor&)>& visit) const {
  for (const Column* c : {&keys_, &values_}) {
    if (c->buffer().valid()) visit(c->buffer());
  }
}

absl::StatusOr<ResourceState> TableMachine::Save() const {
  ResourceState state;
  state.kind = spec_.kind;
  state::PutTypes(&state, "types", {spec_.key_type, spec_.value_type});
  state::PutShape(&state, "value_shape", spec_.value_shape);
  state::PutNumber(&state, "initialized", initialized_ ? 1 : 0);
  if (spec_.empty_key.valid()) state.tensors.emplace_back("empty_key", spec_.empty_key);
  if (spec_.deleted_key.valid()) state.tensors.emplace_back("deleted_key", spec_.deleted_key);
  TROUPE_ASSIGN_OR_RETURN(Tensor keys, keys_.All());
  TROUPE_ASSIGN_OR_RETURN(Tensor values, values_.All());
  state.tensors.emplace_back("keys", std::move(keys));
  state.tensors.emplace_back("values", std::move(values));
  return state;
}

absl::StatusOr<std::shared_ptr<Table>> Table::Make(TableSpec spec) {
  TROUPE_RETURN_IF_ERROR(spec.Check());
  return std::shared_ptr<Table>(new Table(std::make_shared<TableMachine>(std::move(spec))));
}

absl::Status Table::TakePlaceOf(const Resource& other) {
  const auto* const before = dynamic_cast<const Table*>(&other);
  if (before == nullptr) return Resource::TakePlaceOf(other);
  return before->spec().CheckShared(spec_);
}

absl::StatusOr<std::shared_ptr<Resource>> MakeSavedTable(const std::string& name, const ResourceState& state) {
  TableSpec spec;
  spec.kind = state.kind;
  spec.name = name;
  TROUPE_ASSIGN_OR_RETURN(const std::vector<DType> types, state::TakeTypes(state, "types"));
  if (types.size() != 2) return InvalidArgument("a saved ", state.kind, " has ", types.size(), " types");
  spec.key_type = types[0], spec.value_type = types[1];
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape shape, state::TakeShape(state, "value_shape"));
  if (!shape.IsFullyDefined()) return InvalidArgument("a saved ", state.kind, " has values of unknown shape");
  TROUPE_ASSIGN_OR_RETURN(spec.value_shape, TensorShape::Make(shape.dims()));
  if (IsDense(spec)) {
    const Tensor *empty = state.Find("empty_key"), *deleted = state.Find("deleted_key");
    if (empty == nullptr) return InvalidArgument("a saved ", state.kind, " has no 'empty_key'");
    spec.empty_key = *empty;
    spec.key_shape = empty->shape();
    if (deleted != nullptr) spec.deleted_key = *deleted;
  }
  TROUPE_ASSIGN_OR_RETURN(const int64_t initialized, state::TakeNumber(state, "initialized", 0));
  const Tensor *keys = state.Find("keys"), *values = state.Find("values");
  if (keys == nullptr || values == nullptr)
    return InvalidArgument("a saved ", state.kind, " has no 'keys' and 'values'");
  TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<Table> table, Table::Make(std::move(spec)));
  TROUPE_ASSIGN_OR_RETURN(const TensorShape rows, table->spec().CheckKeys(*keys));
  TROUPE_RETURN_IF_ERROR(table->spec().CheckValues(rows, *values));
  auto& m = static_cast<TableMachine&>(*table->machine());
  TROUPE_RETURN_IF_ERROR(m.Insert(*keys, *values, /*is_import=*/true));
  m.initialized_ = initialized != 0;
  return table;
}

TableKind::TableKind(KernelInit& init, std::string kind) {
  spec_.kind = std::move(kind);
  spec_.name = init.ResourceKey(/*per_session=*/false).second;
  spec_.key_type = init.Attr<DType>("key_dtype");
  spec_.value_type = init.Attr<DType>("value_dtype");
  if (init.node().attrs().Has("value_shape")) {
    const auto shape = init.Attr<PartialTensorShape>("value_shape");
    if (shape.IsFullyDefined()) {
      spec_.value_shape = TensorShape::Make(shape.dims()).value_or(TensorShape());
    } else {
      init.Fail(InvalidArgument("the value_shape of a ", spec_.kind, " must be known, and is ", shape.DebugString()));
    }
  }
  if (IsDense(spec_)) {
    const auto buckets = init.Attr<int64_t>("initial_num_buckets");
    if (buckets < 1 || (buckets & (buckets - 1)) != 0)
      init.Fail(InvalidArgument("initial_num_buckets must be a power of 2, not ", buckets));
    const auto load = init.Attr<float>("max_load_factor");
    if (!(load > 0 && load < 1)) init.Fail(InvalidArgument("max_load_factor must be between 0 and 1, not ", load));
  } else {
    init.Fail(spec_.Check());
  }
}

absl::StatusOr<std::shared_ptr<StateResource>> TableKind::Make(const KernelContext& ctx, const std::string&) const {
  TableSpec spec = spec_;
  if (IsDense(spec)) {
    spec.empty_key = ctx.input(0);
    spec.key_shape = spec.empty_key.shape();
    if (ctx.num_inputs() > 1) spec.deleted_key = ctx.input(1);
  }
  return Table::Make(std::move(spec));
}

absl::Status TableKind::CheckShared(const StateResource& there) const {
  const auto* const table = dynamic_cast<const Table*>(&there);
  if (table != nullptr) return table->spec().CheckShared(spec_);
  return InvalidArgument("'", spec_.name, "' is ", there.DebugString(), ", but the node asks for a ", spec_.kind);
}

}  // namespace troupe::table
