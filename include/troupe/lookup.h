// Lookup tables: values by keys; and the tables that turn words into ids and back.
//
//   IndexTable ids = IndexTable::FromFile(root, "vocabulary.txt", {.num_oov_buckets = 10});
//   Output id = ids.Lookup(root, words);      // int64; words that the file does not have: the buckets
//   LookupTable counts = LookupTable::Mutable(root, DType::kString, DType::kInt64);
//   Operation put = counts.Insert(root, words, numbers);
//
// Tables that are filled by an initializer stand in the collection "table_initializer":
// TablesInitializer runs all of these, once, before the first look-up. What is in a table belongs
// to Session::SnapshotState. An insertion of many keys is seen as a whole or not at all.
//
// Source of the semantics: tf.lookup and tf.contrib.lookup (HashTable, MutableHashTable,
// MutableDenseHashTable, index_table_from_tensor, index_table_from_file,
// index_to_string_table_from_tensor). Errors while the graph is built are the scope's; those of a
// step name table and node: FAILED_PRECONDITION before a table is initialized, INVALID_ARGUMENT for
// keys and values that do not fit it.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_LOOKUP_H_
#define TROUPE_LOOKUP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "troupe/export.h"
#include "troupe/scope.h"

namespace TROUPE_EXPORT troupe {

inline constexpr char kTableInitializers[] = "table_initializer";

struct TableOptions {
  std::string container = {};    // else the scope's
  std::string shared_name = {};  // else the node's name
};

// What of a line is a key or a value: a column counted from 0, or one of these.
inline constexpr int64_t kLineNumber = -1;  // counted from 0; int64
inline constexpr int64_t kWholeLine = -2;   // string or int64

struct TextFileOptions {
  int64_t key = kWholeLine, value = kLineNumber;
  std::string delimiter = "\t";  // of columns, one character
  int64_t vocab_size = -1;       // lines that are read; negative: all
};

class LookupTable {
 public:
  LookupTable() = default;
  // Filled once, by Initialize or InitializeFromTextFile.
  static LookupTable Hash(const ScopeAt& at, DType key, DType value, const TableOptions& options = {});
  // Empty at first. Values have the shape `value_shape`: a scalar's or a vector's.
  static LookupTable Mutable(const ScopeAt& at, DType key, DType value, const TensorShape& value_shape = {},
                             const TableOptions& options = {});
  // Keys have the shape of `empty_key`; it and `deleted_key` are never in the table.
  static LookupTable MutableDense(const ScopeAt& at, const Input& empty_key, const Input& deleted_key, DType value,
                                  const TensorShape& value_shape = {}, const TableOptions& options = {});
  // The table of a handle, a resource or a reference: of an imported graph, say.
  static LookupTable Of(const Output& handle, DType key, DType value);

  // Each adds itself to the collection. `keys` and `values`: vectors of equal length, of the
  // table's types. `path`: a string scalar.
  Operation Initialize(const ScopeAt& at, const Input& keys, const Input& values) const;
  Operation InitializeFromTextFile(const ScopeAt& at, const Input& path, const TextFileOptions& options = {}) const;

  // The values of `keys`, which may have any shape: one value for each key, of the table's value
  // type and shape. `default_value`: for keys that are not there, one for all or one for each.
  Output Find(const ScopeAt& at, const Input& keys, const Input& default_value) const;
  // `values`: one for each key. A key that is there gets the new value.
  Operation Insert(const ScopeAt& at, const Input& keys, const Input& values) const;
  Operation Remove(const ScopeAt& at, const Input& keys) const;  // of a resource; those not there do not matter
  Output Size(const ScopeAt& at) const;                          // an int64 scalar: the keys in the table
  std::pair<Output, Output> Export(const ScopeAt& at) const;     // keys and values, a row for each
  // These and nothing else.
  Operation Import(const ScopeAt& at, const Input& keys, const Input& values) const;

  const Output& handle() const { return handle_; }
  DType key_type() const { return key_; }
  DType value_type() const { return value_; }

 private:
  LookupTable(Output handle, DType key, DType value) : handle_(std::move(handle)), key_(key), value_(value) {}
  std::string Op(std::string_view op) const;

  Output handle_;
  DType key_ = DType::kInvalid, value_ = DType::kInvalid;
};

struct IndexOptions {
  // Words that the vocabulary does not have get one of so many ids behind it, by
  // StringToHashBucketFast; without buckets they get `default_value`.
  int64_t num_oov_buckets = 0;
  int64_t default_value = -1;
  TableOptions table = {};
};

// Ids of words: the places of the words in a vocabulary.
class IndexTable {
 public:
  IndexTable() = default;
  // `vocabulary`: a vector of strings.
  static IndexTable FromTensor(const ScopeAt& at, const Input& vocabulary, const IndexOptions& options = {});
  // A word a line, or what of a line `file.key` says.
  static IndexTable FromFile(const ScopeAt& at, const std::string& path, const IndexOptions& options = {},
                             const TextFileOptions& file = {});
  // int64, of the shape of `words`.
  Output Lookup(const ScopeAt& at, const Input& words) const;
  // Of the vocabulary and the buckets: an int64 scalar.
  Output Size(const ScopeAt& at) const;
  const LookupTable& table() const { return table_; }

 private:
  LookupTable table_;
  IndexOptions options_;
};

// Words by their ids.
class WordTable {
 public:
  WordTable() = default;
  static WordTable FromTensor(const ScopeAt& at, const Input& vocabulary, const std::string& default_value = "UNK",
                              const TableOptions& options = {});
  static WordTable FromFile(const ScopeAt& at, const std::string& path, const std::string& default_value = "UNK",
                            const TextFileOptions& file = {.key = kLineNumber, .value = kWholeLine},
                            const TableOptions& options = {});
  // Strings, of the shape of `ids` (int64).
  Output Lookup(const ScopeAt& at, const Input& ids) const;
  const LookupTable& table() const { return table_; }

 private:
  LookupTable table_;
  std::string default_value_;
};

// Runs the initializers of all tables of the graph so far.
Operation TablesInitializer(const ScopeAt& at);

}  // namespace troupe

#endif  // TROUPE_LOOKUP_H_
