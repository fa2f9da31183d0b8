#include "troupe/lookup.h"

#include <vector>

#include "troupe/const.h"
#include "troupe/emit.h"
#include "troupe/graph.h"
#include "troupe/group.h"
#include "troupe/strings.h"

namespace troupe {
namespace {

Output Make(const ScopeAt& at, const char* op, DType key, DType value, const TableOptions& options, AttrMap more,
            const std::vector<Input>& inputs = {}) {
  more.Set("key_dtype", key);
  more.Set("value_dtype", value);
  if (!options.container.empty()) more.Set("container", options.container);
  if (!options.shared_name.empty()) more.Set("shared_name", options.shared_name);
  return EmitOp(at, op, inputs, std::move(more)).output(0);
}

// Puts the initializer of a table into the collection.
Operation Collected(const ScopeAt& at, Operation initializer) {
  if (at.ok()) at->graph()->collection(kTableInitializers).push_back(initializer.name());
  return initializer;
}

}  // namespace

LookupTable LookupTable::Hash(const ScopeAt& at, DType key, DType value, const TableOptions& options) {
  return LookupTable(Make(at, "HashTableV2", key, value, options, {}), key, value);
}

LookupTable LookupTable::Mutable(const ScopeAt& at, DType key, DType value, const TensorShape& value_shape,
                                 const TableOptions& options) {
  if (value_shape.rank() == 0) return LookupTable(Make(at, "MutableHashTableV2", key, value, options, {}), key, value);
  AttrMap attrs;
  attrs.Set("value_shape", PartialTensorShape(value_shape));
  return LookupTable(Make(at, "MutableHashTableOfTensorsV2", key, value, options, std::move(attrs)), key, value);
}

LookupTable LookupTable::MutableDense(const ScopeAt& at, const Input& empty_key, const Input& deleted_key, DType value,
                                      const TensorShape& value_shape, const TableOptions& options) {
  AttrMap attrs;
  attrs.Set("value_shape", PartialTensorShape(value_shape));
  const Output empty = AsOutput(at, empty_key), deleted = AsOutput(at, deleted_key, empty.dtype());
  const DType key = empty.dtype();
  return LookupTable(Make(at, "MutableDenseHashTableV2", key, value, options, std::move(attrs), {empty, deleted}), key,
                     value);
}

LookupTable LookupTable::Of(const Output& handle, DType key, DType value) { return LookupTable(handle, key, value); }

// Ops on a reference have names of their own.
std::string LookupTable::Op(std::string_view op) const { return StrCat(op, IsRef(handle_.dtype()) ? "" : "V2"); }

Operation LookupTable::Initialize(const ScopeAt& at, const Input& keys, const Input& values) const {
  return Collected(
      at, EmitOp(at, Op("InitializeTable"), {handle_, AsOutput(at, keys, key_), AsOutput(at, values, value_)}));
}

Operation LookupTable::InitializeFromTextFile(const ScopeAt& at, const Input& path,
                                              const TextFileOptions& options) const {
  AttrMap attrs;
  attrs.Set("key_index", options.key);
  attrs.Set("value_index", options.value);
  attrs.Set("vocab_size", options.vocab_size < 0 ? int64_t{-1} : options.vocab_size);
  attrs.Set("delimiter", options.delimiter);
  return Collected(at, EmitOp(at, Op("InitializeTableFromTextFile"), {handle_, path}, std::move(attrs)));
}

Output LookupTable::Find(const ScopeAt& at, const Input& keys, const Input& default_value) const {
  return EmitOp(at, Op("LookupTableFind"), {handle_, AsOutput(at, keys, key_), AsOutput(at, default_value, value_)})
      .output(0);
}

Operation LookupTable::Insert(const ScopeAt& at, const Input& keys, const Input& values) const {
  return EmitOp(at, Op("LookupTableInsert"), {handle_, AsOutput(at, keys, key_), AsOutput(at, values, value_)});
}

Operation LookupTable::Remove(const ScopeAt& at, const Input& keys) const {
  return EmitOp(at, "LookupTableRemoveV2", {handle_, AsOutput(at, keys, key_)});
}

Output LookupTable::Size(const ScopeAt& at) const { return EmitOp(at, Op("LookupTableSize"), {handle_}).output(0); }

std::pair<Output, Output> LookupTable::Export(const ScopeAt& at) const {
  AttrMap attrs;
  attrs.Set("Tkeys", key_);
  attrs.Set("Tvalues", value_);
  const Operation op = EmitOp(at, Op("LookupTableExport"), {handle_}, std::move(attrs));
  return {op.output(0), op.output(1)};
}

Operation LookupTable::Import(const ScopeAt& at, const Input& keys, const Input& values) const {
  return EmitOp(at, Op("LookupTableImport"), {handle_, AsOutput(at, keys, key_), AsOutput(at, values, value_)});
}

IndexTable IndexTable::FromTensor(const ScopeAt& at, const Input& vocabulary, const IndexOptions& options) {
  const Scope scope = at.Sub("index_table");
  IndexTable index;
  index.options_ = options;
  index.table_ = LookupTable::Hash(scope.WithOpName("table"), DType::kString, DType::kInt64, options.table);
  const Output words = AsOutput(scope, vocabulary);
  const Output size = EmitOp(scope, "Size", {words}, {{"out_type", DType::kInt64}}).output(0);
  const Output ids = EmitOp(scope, "Range", {Const(scope, int64_t{0}), size, Const(scope, int64_t{1})}).output(0);
  index.table_.Initialize(scope.WithOpName("initialize"), words, ids);
  return index;
}

IndexTable IndexTable::FromFile(const ScopeAt& at, const std::string& path, const IndexOptions& options,
                                const TextFileOptions& file) {
  const Scope scope = at.Sub("index_table");
  IndexTable index;
  index.options_ = options;
  index.table_ = LookupTable::Hash(scope.WithOpName("table"), DType::kString, DType::kInt64, options.table);
  index.table_.InitializeFromTextFile(scope.WithOpName("initialize"), Const(scope, path), file);
  return index;
}

Output IndexTable::Lookup(const ScopeAt& at, const Input& words) const {
  if (options_.num_oov_buckets <= 0) return table_.Find(at, words, Const(at, options_.default_value));
  const Scope scope = at.Sub("index_lookup");
  const Output text = AsOutput(scope, words);
  const Output missing = Const(scope, int64_t{-1}), ids = table_.Find(scope, text, missing);
  const Output bucket =
      EmitOp(scope, "StringToHashBucketFast", {text}, {{"num_buckets", options_.num_oov_buckets}}).output(0);
  const Output behind = EmitOp(scope, "AddV2", {bucket, table_.Size(scope)}).output(0);
  const Output known = EmitOp(scope, "NotEqual", {ids, missing}).output(0);
  return EmitOp(scope, "Select", {known, ids, behind}).output(0);
}

Output IndexTable::Size(const ScopeAt& at) const {
  const Output words = table_.Size(at);
  if (options_.num_oov_buckets <= 0) return words;
  return EmitOp(at, "AddV2", {words, Const(at, options_.num_oov_buckets)}).output(0);
}

WordTable WordTable::FromTensor(const ScopeAt& at, const Input& vocabulary, const std::string& default_value,
                                const TableOptions& options) {
  const Scope scope = at.Sub("word_table");
  WordTable table;
  table.default_value_ = default_value;
  table.table_ = LookupTable::Hash(scope.WithOpName("table"), DType::kInt64, DType::kString, options);
  const Output words = AsOutput(scope, vocabulary);
  const Output size = EmitOp(scope, "Size", {words}, {{"out_type", DType::kInt64}}).output(0);
  const Output ids = EmitOp(scope, "Range", {Const(scope, int64_t{0}), size, Const(scope, int64_t{1})}).output(0);
  table.table_.Initialize(scope.WithOpName("initialize"), ids, words);
  return table;
}

WordTable WordTable::FromFile(const ScopeAt& at, const std::string& path, const std::string& default_value,
                              const TextFileOptions& file, const TableOptions& options) {
  const Scope scope = at.Sub("word_table");
  WordTable table;
  table.default_value_ = default_value;
  table.table_ = LookupTable::Hash(scope.WithOpName("table"), DType::kInt64, DType::kString, options);
  table.table_.InitializeFromTextFile(scope.WithOpName("initialize"), Const(scope, path), file);
  return table;
}

Output WordTable::Lookup(const ScopeAt& at, const Input& ids) const {
  return table_.Find(at, ids, Const(at, default_value_));
}

Operation TablesInitializer(const ScopeAt& at) {
  std::vector<Operation> all;
  const auto& collections = at->graph()->collections();
  if (const auto it = collections.find(kTableInitializers); it != collections.end()) {
    for (const std::string& name : it->second) {
      Node* const node = at->graph()->Find(name);
      if (node == nullptr) {
        at.Fail(NotFound("the initializer '", name, "' of a table is not in the graph"));
        return Operation();
      }
      all.emplace_back(node);
    }
  }
  return Group(at, all);
}

}  // namespace troupe
