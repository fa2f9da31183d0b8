// A lookup table: values by keys, in memory. What all kinds of tables do.
//
// The rules are TensorFlow's. A HashTable is filled once, by an initializer, and never changes; the
// mutable kinds take insertions and removals at any time. MutableHashTableOfTensors has a tensor of
// `value_shape` for each key; MutableDenseHashTable may have tensors for keys, too, and two keys
// that it never holds.
//
// A request is one letter to the table's actor, and is answered at once. So an insertion of many
// keys is seen as a whole or not at all, and so is what a look-up of many keys finds.
//
// Of a HashTable: UNIMPLEMENTED for insertions and removals; before its initializer has run,
// FAILED_PRECONDITION for a look-up and ABORTED for an export; FAILED_PRECONDITION for an
// initializer with two values of one key, and for a second one with another number of keys.
//
// Keys are compared by their bytes: a float32 -0 is another key than 0.
//
// Thread rule: as for StateMachine; a TableSpec does not change.
#ifndef TROUPE_KERNELS_TABLE_TABLE_H_
#define TROUPE_KERNELS_TABLE_TABLE_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kernels/state/state_kind.h"

namespace troupe::table {

struct TableSpec {
  std::string kind;  // the op: "MutableHashTable"
  std::string name;
  DType key_type = DType::kInvalid, value_type = DType::kInvalid;
  TensorShape key_shape, value_shape;  // of one key and its value
  Tensor empty_key, deleted_key;       // of a MutableDenseHashTable; the second may be missing

  std::string What() const { return StrCat(kind, " '", name, "'"); }
  bool is_mutable() const { return kind != "HashTable"; }
  absl::Status Check() const;
  // INVALID_ARGUMENT unless a node that asks for `other` may share a table of this.
  absl::Status CheckShared(const TableSpec& other) const;
  // INVALID_ARGUMENT unless these are keys; their shape without that of a key.
  absl::StatusOr<TensorShape> CheckKeys(const Tensor& keys) const;
  // INVALID_ARGUMENT unless these are values for keys of the shape `rows`.
  absl::Status CheckValues(const TensorShape& rows, const Tensor& values) const;
};

// `rows` and behind them the dimensions of `each`.
TensorShape Joined(const TensorShape& rows, const TensorShape& each);

// Elements of one type in rows of equal size, which grow at the end.
class Column {
 public:
  Column(DType type, TensorShape each);
  int64_t rows() const { return rows_; }
  const void* Row(int64_t i) const;
  // Makes room, so that Append of as many rows does not fail.
  absl::Status Reserve(int64_t rows);
  void Append(const void* row);
  void Set(int64_t i, const void* row);
  // The last row takes the place of row i.
  void Remove(int64_t i);
  // A copy of all rows. RESOURCE_EXHAUSTED when memory is.
  absl::StatusOr<Tensor> All() const;
  // The buffer, which has more rows than are used.
  const Tensor& buffer() const { return buffer_; }

 private:
  const DType type_;
  const TensorShape each_;
  const int64_t size_;  // elements of a row
  Tensor buffer_;
  int64_t rows_ = 0;
};

// dst[0, n) = src[0, n), on this thread.
void CopyRow(DType type, void* dst, const void* src, int64_t n);

struct TableRequest : StateRequest {
  enum class Kind : uint8_t { kFind, kInsert, kRemove, kSize, kExport, kImport, kInitialize };
  Kind kind = Kind::kFind;
  Tensor keys;
  Tensor values;     // what is put in; of kFind the values for keys that are not there: one, or one for each key
  Tensor found;      // of kFind, for the machine to fill; of kExport the values
  int64_t size = 0;  // of kSize
};
using TableRequestPtr = std::shared_ptr<TableRequest>;

class TableMachine : public StateMachine {
 public:
  explicit TableMachine(TableSpec spec);
  const TableSpec& spec() const { return spec_; }

 protected:
  void Handle(const StateRequestPtr& request, StateAnswers* answers) override;
  // All are answered at once, so nobody waits.
  void Withdraw(const StateRequestPtr&, StateAnswers*) override {}
  void AbortWaiting(const absl::Status&, StateAnswers*) override {}
  absl::StatusOr<ResourceState> Save() const override;
  void Visit(const std::function<void(const Tensor&)>& visit) const override;
  std::string What() const override { return spec_.What(); }
  std::string HowMuch() const override { return StrCat(keys_.rows(), " entries"); }

 private:
  friend absl::StatusOr<std::shared_ptr<Resource>> MakeSavedTable(const std::string&, const ResourceState&);
  absl::Status Do(TableRequest* r);
  absl::Status Find(TableRequest* r) const;
  absl::Status Insert(const Tensor& keys, const Tensor& values, bool is_import);
  absl::Status Remove(const Tensor& keys);
  absl::Status Initialize(const Tensor& keys, const Tensor& values);
  absl::Status Export(TableRequest* r) const;
  void Clear();
  // Whether the key is the empty or the deleted one of a dense table.
  bool IsReserved(const void* key) const;
  absl::Status CheckReserved(const Tensor& keys) const;

  // Keys of a string each are looked up as they are, small ones as numbers, others by their bytes.
  enum class By : uint8_t { kNumber, kText, kBytes };
  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  uint64_t NumberOf(const void* key) const;
  std::string_view TextOf(const void* key) const;
  int64_t RowOf(const void* key) const;  // -1: it is not there
  void SetRow(const void* key, int64_t row);
  void Forget(const void* key);

  const TableSpec spec_;
  const By by_;
  const int64_t key_size_, value_size_;  // elements
  bool initialized_ = false;
  Column keys_, values_;
  absl::flat_hash_map<uint64_t, int64_t> by_number_;
  absl::flat_hash_map<std::string, int64_t, TextHash, std::equal_to<>> by_text_;
};

// A table in its container. Saved as its spec, keys and values.
class Table : public StateResource {
 public:
  static absl::StatusOr<std::shared_ptr<Table>> Make(TableSpec spec);
  const TableSpec& spec() const { return spec_; }
  absl::Status TakePlaceOf(const Resource& other) override;

 private:
  explicit Table(std::shared_ptr<TableMachine> machine) : StateResource(machine), spec_(machine->spec()) {}
  const TableSpec& spec_;
};

// A ResourceMaker for every kind.
absl::StatusOr<std::shared_ptr<Resource>> MakeSavedTable(const std::string& name, const ResourceState& state);

// The node of a kind of table: types and shape come from the attrs that the op has, the keys of a
// dense table from the inputs.
class TableKind : public state::StateKind {
 public:
  // `kind`: the op without "V2".
  TableKind(KernelInit& init, std::string kind);
  absl::StatusOr<std::shared_ptr<StateResource>> Make(const KernelContext& ctx, const std::string& name) const override;
  absl::Status CheckShared(const StateResource& there) const override;

 private:
  TableSpec spec_;
};

}  // namespace troupe::table

#endif  // TROUPE_KERNELS_TABLE_TABLE_H_
