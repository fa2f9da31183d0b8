// Lookup tables: what TensorFlow's do (recorded from TensorFlow 2.21), a std::map as oracle, words
// and ids, and that no reader sees half an update.
#include "kernels/table/table.h"

#include <atomic>
#include <map>
#include <random>
#include <thread>

#include <boost/test/unit_test.hpp>

#include "actors/runtime/runtime_impl.h"
#include "actors/state/state_actors.h"
#include "tests/actors/graphs.h"
#include "troupe/files.h"
#include "troupe/lookup.h"
#include "troupe/resource_state.h"
#include "troupe/train/monitored_session.h"

namespace troupe::table {
namespace table_test {

BOOST_AUTO_TEST_SUITE(tables)

// What a step fetches, "OK" for a step without fetches, or the error's code.
std::string Run(const std::unique_ptr<Session>& session, const std::vector<Output>& fetches,
                const std::vector<Operation>& targets = {}, const Feeds& feeds = {}) {
  Names names, target_names;
  for (const Output& o : fetches) names.push_back(o.name());
  for (const Operation& op : targets) target_names.push_back(op.name());
  std::vector<Tensor> out;
  const absl::Status s = session->Run(feeds, names, target_names, &out);
  if (!s.ok()) return absl::StatusCodeToString(s.code());
  std::string text;
  for (const Tensor& t : out) StrAppend(&text, text.empty() ? "" : " | ", t.DebugString(50));
  return text.empty() ? "OK" : text;
}

Output Ints(const Scope& scope, const std::vector<int64_t>& values) {
  return Const(scope, Literal(Tensor::Vector<int64_t>(values)));
}
Output Words(const Scope& scope, const std::vector<std::string>& values) {
  return Const(scope, Literal(Tensor::Vector<std::string>(values)));
}

// A graph that grows while its session runs.
struct Growing {
  Scope root = Scope::NewRootScope();
  std::unique_ptr<Session> session = Session::Create({}).value();
  std::string Run(const std::vector<Output>& fetches, const std::vector<Operation>& targets = {}) {
    if (!root.ok()) return absl::StatusCodeToString(root.status().code());
    TROUPE_REQUIRE_OK(session->Extend(*root.graph()));
    return tables::Run(session, fetches, targets);
  }
  std::string Do(const Operation& op) { return Run({}, {op}); }
};

BOOST_FIXTURE_TEST_CASE(a_hash_table_does_what_tensorflows_does, Growing) {
  const LookupTable t = LookupTable::Hash(root.WithOpName("t"), DType::kString, DType::kInt64);
  const Output find = t.Find(root, Const(root, {{"a", "b"}, {"zz", "a"}}), Const(root, int64_t{-1}));
  BOOST_TEST(find.shape().DebugString() == "[2,2]");
  const auto [keys, values] = t.Export(root);
  BOOST_TEST(Run({find}) == "FAILED_PRECONDITION");
  BOOST_TEST(Run({t.Size(root)}) == "int64 [] [0]");
  BOOST_TEST(Run({keys}) == "ABORTED");
  const auto init = [&](const std::vector<std::string>& k, const std::vector<int64_t>& v) {
    return Do(t.Initialize(root, Words(root, k), Ints(root, v)));
  };
  BOOST_TEST(init({"a", "a"}, {1, 2}) == "FAILED_PRECONDITION");
  BOOST_TEST(Run({t.Size(root)}) == "int64 [] [0]");
  BOOST_TEST(init({"a", "b", "a"}, {1, 2, 1}) == "OK");
  BOOST_TEST(Run({t.Size(root)}) == "int64 [] [2]");
  BOOST_TEST(init({"a", "b"}, {1, 2}) == "OK");
  BOOST_TEST(init({"a", "b", "c"}, {1, 2, 3}) == "FAILED_PRECONDITION");
  BOOST_TEST(init({"a", "b"}, {7, 8}) == "OK");
  BOOST_TEST(Run({find}) == "int64 [2,2] [1 2 -1 1]");
  BOOST_TEST(Run({keys, values}) == "string [2] [\"a\" \"b\"] | int64 [2] [1 2]");
  BOOST_TEST(Do(t.Insert(root, Words(root, {"q"}), Ints(root, {1}))) == "UNIMPLEMENTED");
  BOOST_TEST(Do(t.Remove(root, Words(root, {"a"}))) == "UNIMPLEMENTED");
  BOOST_TEST(Do(t.Import(root, Words(root, {"q"}), Ints(root, {1}))) == "FAILED_PRECONDITION");
  BOOST_TEST(Run({t.Find(root, Words(root, {"zz", "a"}), Ints(root, {-1, -2}))}) == "int64 [2] [-1 1]");
  BOOST_TEST(Run({t.Find(root, Const(root, Literal(Tensor(DType::kString, {0, 3}))), Const(root, int64_t{-1}))}) ==
             "int64 [0,3] []");
  // Keys and values of other types.
  BOOST_TEST(
      Run({EmitOp(root, "LookupTableFindV2", {t.handle(), Ints(root, {1}), Const(root, int64_t{-1})}).output(0)}) ==
      "INVALID_ARGUMENT");
  BOOST_TEST(Run({EmitOp(root, "LookupTableFindV2", {t.handle(), Words(root, {"a"}), Const(root, -1.0f)}).output(0)}) ==
             "INVALID_ARGUMENT");
}

BOOST_FIXTURE_TEST_CASE(a_mutable_table_does_what_tensorflows_does, Growing) {
  const LookupTable t = LookupTable::Mutable(root.WithOpName("t"), DType::kString, DType::kInt64);
  const auto find = [&](const Output& k, const Output& d) { return Run({t.Find(root, k, d)}); };
  const Output none = Const(root, int64_t{-1});
  BOOST_TEST(find(Words(root, {"a"}), none) == "int64 [1] [-1]");
  BOOST_TEST(Do(t.Insert(root, Words(root, {"a", "b", "a"}), Ints(root, {1, 2, 3}))) == "OK");
  BOOST_TEST(find(Words(root, {"a", "c"}), none) == "int64 [2] [3 -1]");
  BOOST_TEST(find(Words(root, {"a", "c"}), Ints(root, {-1, -2})) == "int64 [2] [3 -2]");
  BOOST_TEST(find(Const(root, "a"), none) == "int64 [] [3]");
  BOOST_TEST(find(Const(root, {{"a", "c"}, {"b", "b"}}), none) == "int64 [2,2] [3 -1 2 2]");
  BOOST_TEST(find(Words(root, {"a", "c", "d"}), Ints(root, {-1, -2})) == "INVALID_ARGUMENT");
  BOOST_TEST(Do(t.Insert(root, Const(root, "z"), Const(root, int64_t{5}))) == "OK");
  BOOST_TEST(Do(t.Remove(root, Words(root, {"a", "nope"}))) == "OK");
  BOOST_TEST(Run({t.Size(root)}) == "int64 [] [2]");
  const auto [keys, values] = t.Export(root);
  BOOST_TEST(Run({keys, values}) == "string [2] [\"z\" \"b\"] | int64 [2] [5 2]");
  BOOST_TEST(Do(t.Import(root, Words(root, {"q"}), Ints(root, {9}))) == "OK");
  BOOST_TEST(Run({keys, values}) == "string [1] [\"q\"] | int64 [1] [9]");
  BOOST_TEST(Do(t.Initialize(root, Words(root, {"q"}), Ints(root, {9}))) == "INVALID_ARGUMENT");
}

BOOST_FIXTURE_TEST_CASE(a_table_of_tensors_does_what_tensorflows_does, Growing) {
  const LookupTable t = LookupTable::Mutable(root.WithOpName("t"), DType::kInt64, DType::kFloat, TensorShape({2}));
  const auto find = [&](const Output& k, const Output& d) { return Run({t.Find(root, k, d)}); };
  BOOST_TEST(Do(t.Insert(root, Ints(root, {1, 2}), Const(root, {{1.f, 2.f}, {3.f, 4.f}}))) == "OK");
  BOOST_TEST(find(Ints(root, {2, 7}), Const(root, {0.f, 9.f})) == "float32 [2,2] [3 4 0 9]");
  BOOST_TEST(find(Const(root, Literal(Tensor::Of<int64_t>({2, 7}, TensorShape({1, 2})))), Const(root, {0.f, 9.f})) ==
             "float32 [1,2,2] [3 4 0 9]");
  BOOST_TEST(find(Ints(root, {2, 7}), Const(root, {{0.f, 9.f}, {8.f, 8.f}})) == "float32 [2,2] [3 4 8 8]");
  BOOST_TEST(find(Ints(root, {2, 7}), Const(root, 1.f)) == "INVALID_ARGUMENT");
  BOOST_TEST(Do(t.Insert(root, Ints(root, {1}), Const(root, {{1.f, 2.f, 3.f}}))) == "INVALID_ARGUMENT");
  const auto matrix = LookupTable::Mutable(root, DType::kInt64, DType::kFloat, TensorShape({2, 3}));
  BOOST_TEST(Run({matrix.Size(root)}) == "INVALID_ARGUMENT");
}

BOOST_FIXTURE_TEST_CASE(a_dense_table_does_what_tensorflows_does, Growing) {
  const auto dense = [&](const Output& empty, const Output& deleted, const TensorShape& shape = {}) {
    return LookupTable::MutableDense(root, empty, deleted, DType::kInt64, shape);
  };
  const Output zero = Const(root, int64_t{0}), minus = Const(root, int64_t{-1}), five = Const(root, int64_t{-5});
  const LookupTable t = dense(zero, minus);
  BOOST_TEST(Run({t.Find(root, Ints(root, {1}), five)}) == "int64 [1] [-5]");
  const Output eight = Ints(root, {1, 2, 3, 4, 5, 6, 7, 8});
  BOOST_TEST(Do(t.Insert(root, eight, eight)) == "OK");
  BOOST_TEST(Run({t.Find(root, Ints(root, {1, 9}), five)}) == "int64 [2] [1 -5]");
  for (const int64_t reserved : {0, -1}) {
    BOOST_TEST(Do(t.Insert(root, Ints(root, {reserved}), Ints(root, {1}))) == "INVALID_ARGUMENT");
    BOOST_TEST(Run({t.Find(root, Ints(root, {reserved}), five)}) == "INVALID_ARGUMENT");
    BOOST_TEST(Do(t.Remove(root, Ints(root, {reserved}))) == "INVALID_ARGUMENT");
  }
  BOOST_TEST(Do(t.Remove(root, Ints(root, {1, 77}))) == "OK");
  BOOST_TEST(Run({t.Size(root)}) == "int64 [] [7]");
  BOOST_TEST(Run({t.Find(root, Ints(root, {1, 2}), Ints(root, {-5, -6}))}) == "int64 [2] [-5 2]");
  BOOST_TEST(Run({dense(zero, zero).Size(root)}) == "INVALID_ARGUMENT");
  // Vectors by vectors; and what TensorFlow exports, its empty places included, can be imported.
  const LookupTable v = dense(Ints(root, {0, 0}), Ints(root, {-1, -1}), TensorShape({2}));
  const auto rows = [&](std::vector<int64_t> x) {
    const auto n = static_cast<int64_t>(x.size()) / 2;
    return Const(root, Literal(Tensor::Of<int64_t>(x, TensorShape({n, 2}))));
  };
  BOOST_TEST(Do(v.Insert(root, rows({1, 2, 3, 4}), rows({1, 1, 2, 2}))) == "OK");
  BOOST_TEST(Run({v.Find(root, rows({3, 4, 3, 3}), Ints(root, {0, 7}))}) == "int64 [2,2] [2 2 0 7]");
  BOOST_TEST(Do(v.Import(root, rows({3, 4, 0, 0, 0, 0, 1, 2}), rows({2, 2, 0, 0, 0, 0, 1, 1}))) == "OK");
  const auto [keys, values] = v.Export(root);
  BOOST_TEST(Run({keys, values}) == "int64 [2,2] [3 4 1 2] | int64 [2,2] [2 2 1 1]");
  AttrMap three;
  three.Set("value_dtype", DType::kInt64);
  three.Set("initial_num_buckets", int64_t{3});
  BOOST_TEST(
      Run({EmitOp(root, "LookupTableSizeV2", {EmitOp(root, "MutableDenseHashTableV2", {zero, minus}, three).output(0)})
               .output(0)}) == "INVALID_ARGUMENT");
}

// Contents of a file, which of a line is key and value, and what TensorFlow makes of it.
BOOST_FIXTURE_TEST_CASE(tables_from_text_files_are_tensorflows, Growing) {
  struct Case {
    const char* text;
    int64_t key, value, vocab_size;
    const char* delimiter;
    DType key_type, value_type;
    const char* want;
  };
  constexpr DType kS = DType::kString, kI = DType::kInt64, kF = DType::kFloat;
  const Case cases[] = {
      {"a\nb\nc\n", -2, -1, -1, "\t", kS, kI, "string [3] [\"a\" \"b\" \"c\"] | int64 [3] [0 1 2]"},
      {"a\r\nb\n\nc", -2, -1, -1, "\t", kS, kI, "INVALID_ARGUMENT"},
      {"a\nb\nc\n", -2, -1, 2, "\t", kS, kI, "string [2] [\"a\" \"b\"] | int64 [2] [0 1]"},
      {"a\nb\nc\n", -2, -1, 5, "\t", kS, kI, "INVALID_ARGUMENT"},
      {"a\nb\na\n", -2, -1, -1, "\t", kS, kI, "FAILED_PRECONDITION"},
      {"a\t1\nb\t2\n", 0, 1, -1, "\t", kS, kI, "string [2] [\"a\" \"b\"] | int64 [2] [1 2]"},
      {"a\t1\nb\tx\n", 0, 1, -1, "\t", kS, kI, "INVALID_ARGUMENT"},
      {"a\t1\nb\n", 0, 1, -1, "\t", kS, kI, "INVALID_ARGUMENT"},
      {"1 a\n2 b\n", 0, 1, -1, " ", kI, kS, "int64 [2] [1 2] | string [2] [\"a\" \"b\"]"},
      {"a\nb\n", -1, -2, -1, "\t", kI, kS, "int64 [2] [0 1] | string [2] [\"a\" \"b\"]"},
      {"a,1.5\n", 0, 1, -1, ",", kS, kF, "string [1] [\"a\"] | float32 [1] [1.5]"},
      {"", -2, -1, -1, "\t", kS, kI, "OUT_OF_RANGE"},
      {nullptr, -2, -1, -1, "\t", kS, kI, "NOT_FOUND"},
      {"a\n", -2, -2, -1, "\t", kS, kS, "string [1] [\"a\"] | string [1] [\"a\"]"},
      {"a\n", -1, -2, -1, "\t", kS, kS, "INVALID_ARGUMENT"},
      {"a\n", -2, -1, -1, "\t", kS, kF, "INVALID_ARGUMENT"},
      {"a b\n", 0, 1, -1, "", kS, kI, "INVALID_ARGUMENT"},
  };
  TROUPE_REQUIRE_OK(files::MakeDirectory("mem://tables"));
  int number = 0;
  for (const Case& c : cases) {
    const std::string path = StrCat("mem://tables/", number++);
    if (c.text != nullptr) TROUPE_REQUIRE_OK(files::Write(path, c.text));
    const LookupTable t = LookupTable::Hash(root, c.key_type, c.value_type);
    const std::string filled = Do(t.InitializeFromTextFile(
        root, Const(root, path),
        {.key = c.key, .value = c.value, .delimiter = c.delimiter, .vocab_size = c.vocab_size}));
    const auto [keys, values] = t.Export(root);
    BOOST_TEST((filled == "OK" ? Run({keys, values}) : filled) == c.want, path);
    if (filled != "OK") BOOST_TEST(Run({t.Size(root)}) == "int64 [] [0]");
  }
}

// Every change, compared with a map.
template <class K>
void CompareWithMap(const std::string& kind, const std::function<Tensor(const std::vector<K>&)>& tensor,
                    const std::function<K(int)>& key) {
  TableSpec spec;
  spec.kind = kind;
  spec.name = "t";
  spec.key_type = kDTypeOf<K>;
  spec.value_type = DType::kInt32;
  if (kind == "MutableDenseHashTable") {
    spec.empty_key = Tensor::Scalar(key(1000));
    spec.deleted_key = Tensor::Scalar(key(1001));
  }
  const auto made = Table::Make(spec);
  BOOST_REQUIRE_MESSAGE(made.ok(), made.status());
  std::shared_ptr<Table> table = *made;
  std::map<K, int32_t> oracle;
  std::mt19937 random(7);
  for (int step = 0; step < 400; ++step) {
    std::vector<K> keys;
    std::vector<int32_t> values;
    for (uint32_t i = random() % 20; i > 0; --i) {
      keys.push_back(key(static_cast<int>(random() % 60)));
      values.push_back(static_cast<int32_t>(random() % 1000));
    }
    auto r = std::make_shared<TableRequest>();
    r->keys = tensor(keys);
    const uint32_t what = random() % 8;
    r->values = Tensor::Vector<int32_t>(values);
    if (what < 4) {
      r->kind = TableRequest::Kind::kInsert;
      for (size_t i = 0; i < keys.size(); ++i) oracle[keys[i]] = values[i];
    } else if (what < 6) {
      r->kind = TableRequest::Kind::kRemove;
      for (const K& k : keys) oracle.erase(k);
    } else if (what == 6) {
      // Saved and made again.
      ResourceState state;
      table->Save([&](absl::StatusOr<ResourceState> s) { state = *std::move(s); });
      const auto again = MakeResource("t", state);
      BOOST_REQUIRE_MESSAGE(again.ok(), again.status());
      TROUPE_REQUIRE_OK((*again)->TakePlaceOf(*table));
      table = std::dynamic_pointer_cast<Table>(*again);
      continue;
    } else {
      r->kind = TableRequest::Kind::kFind;
      r->values = Tensor::Scalar<int32_t>(-1);
      r->found = Tensor(DType::kInt32, {static_cast<int64_t>(keys.size())});
    }
    table->Ask(r);
    TROUPE_REQUIRE_OK(r->status());
    if (r->kind != TableRequest::Kind::kFind) continue;
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto it = oracle.find(keys[i]);
      BOOST_REQUIRE(r->found.template data<int32_t>()[i] == (it == oracle.end() ? -1 : it->second));
    }
  }
  auto all = std::make_shared<TableRequest>();
  all->kind = TableRequest::Kind::kExport;
  table->Ask(all);
  std::map<K, int32_t> exported;
  for (int64_t i = 0; i < all->keys.dim(0); ++i)
    exported[all->keys.template data<K>()[i]] = all->found.template data<int32_t>()[i];
  BOOST_TEST(static_cast<size_t>(all->keys.dim(0)) == oracle.size());
  BOOST_TEST((exported == oracle));
}

BOOST_AUTO_TEST_CASE(changes_are_those_of_a_map) {
  for (const char* kind : {"MutableHashTable", "MutableDenseHashTable"}) {
    CompareWithMap<std::string>(
        kind, [](const std::vector<std::string>& k) { return Tensor::Vector<std::string>(k); },
        [](int i) { return StrCat("key ", i); });
    CompareWithMap<int64_t>(
        kind, [](const std::vector<int64_t>& k) { return Tensor::Vector<int64_t>(k); },
        [](int i) { return int64_t{i} - 30; });
    CompareWithMap<float>(
        kind, [](const std::vector<float>& k) { return Tensor::Vector<float>(k); },
        [](int i) { return static_cast<float>(i) / 3; });
  }
}

BOOST_AUTO_TEST_CASE(saved_tables_and_bad_states) {
  TableSpec spec;
  spec.kind = "MutableDenseHashTable";
  spec.name = "t";
  spec.key_type = DType::kInt64;
  spec.value_type = DType::kString;
  spec.empty_key = Tensor::Scalar<int64_t>(0);
  const auto table = Table::Make(spec);
  BOOST_REQUIRE_MESSAGE(table.ok(), table.status());
  auto r = std::make_shared<TableRequest>();
  r->kind = TableRequest::Kind::kInsert;
  r->keys = Tensor::Vector<int64_t>({1, 2});
  r->values = Tensor::Vector<std::string>({"a", "b"});
  (*table)->Ask(r);
  TROUPE_REQUIRE_OK(r->status());
  ResourceState state;
  (*table)->Save([&](absl::StatusOr<ResourceState> s) { state = *std::move(s); });
  for (size_t i = 0; i < state.tensors.size(); ++i) {
    ResourceState bad = state;
    bad.tensors.erase(bad.tensors.begin() + static_cast<std::ptrdiff_t>(i));
    BOOST_TEST(!MakeResource("t", bad).ok(), state.tensors[i].first);
    bad = state;
    bad.tensors[i].second = Tensor::Vector<double>({-1.5});
    BOOST_TEST(!MakeResource("t", bad).ok(), state.tensors[i].first);
  }
  spec.value_type = DType::kFloat;
  BOOST_TEST(!(*Table::Make(spec))->TakePlaceOf(**table).ok());
}

// As tf.lookup's tables of words and ids.
BOOST_FIXTURE_TEST_CASE(words_have_ids_and_unknown_ones_have_buckets, Growing) {
  const std::string path = "mem://tables/vocabulary";
  TROUPE_REQUIRE_OK(files::MakeDirectory("mem://tables"));
  TROUPE_REQUIRE_OK(files::Write(path, "emerson\nlake\npalmer\n"));
  const Output words = Const(root, {{"emerson", "lake"}, {"king", "crimson"}});
  const Output vocabulary = Words(root, {"emerson", "lake", "palmer"});
  const IndexTable plain = IndexTable::FromTensor(root, vocabulary),
                   buckets = IndexTable::FromTensor(root, vocabulary, {.num_oov_buckets = 5});
  const IndexTable file = IndexTable::FromFile(root, path, {.num_oov_buckets = 5});
  const WordTable back = WordTable::FromTensor(root, vocabulary), back_file = WordTable::FromFile(root, path, "?");
  const Operation init = TablesInitializer(root.WithOpName("init"));
  BOOST_TEST(Do(init) == "OK");
  BOOST_TEST(Do(init) == "OK");
  BOOST_TEST(Run({plain.Lookup(root, words)}) == "int64 [2,2] [0 1 -1 -1]");
  // "king" and "crimson" are in buckets 4 and 1 of tf.strings.to_hash_bucket_fast.
  const Output hash = EmitOp(root, "StringToHashBucketFast", {words}, {{"num_buckets", int64_t{5}}}).output(0);
  std::vector<Tensor> h;
  TROUPE_REQUIRE_OK(session->Extend(*root.graph()));
  TROUPE_REQUIRE_OK(session->Run({}, {hash.name()}, {}, &h));
  const std::string want =
      StrCat("int64 [2,2] [0 1 ", h[0].data<int64_t>()[2] + 3, " ", h[0].data<int64_t>()[3] + 3, "]");
  BOOST_TEST(Run({buckets.Lookup(root, words)}) == want);
  BOOST_TEST(Run({file.Lookup(root, words)}) == want);
  BOOST_TEST(Run({plain.Size(root), file.Size(root)}) == "int64 [] [3] | int64 [] [8]");
  BOOST_TEST(Run({back.Lookup(root, Ints(root, {1, 7}))}) == "string [2] [\"lake\" \"UNK\"]");
  BOOST_TEST(Run({back_file.Lookup(root, Ints(root, {2, -1}))}) == "string [2] [\"palmer\" \"?\"]");
}

BOOST_FIXTURE_TEST_CASE(a_scaffold_fills_the_tables, Growing) {
  const IndexTable index = IndexTable::FromTensor(root, Words(root, {"a", "b"}));
  const Output ids = index.Lookup(root, Words(root, {"b", "c"}));
  train::Scaffold scaffold;
  TROUPE_REQUIRE_OK(scaffold.Finalize(root));
  BOOST_TEST(Run({ids}) == "FAILED_PRECONDITION");
  BOOST_TEST(Do(scaffold.local_init) == "OK");
  BOOST_TEST(Run({ids}) == "int64 [2] [1 -1]");
}

BOOST_AUTO_TEST_CASE(old_graphs_have_tables_as_references) {
  const Scope root = Scope::NewRootScope();
  AttrMap types;
  types.Set("key_dtype", DType::kInt64);
  types.Set("value_dtype", DType::kInt64);
  const auto make = [&](const char* op, AttrMap attrs, const std::vector<Input>& in = {}) {
    return LookupTable::Of(EmitOp(root, op, in, std::move(attrs)).output(0), DType::kInt64, DType::kInt64);
  };
  AttrMap value_only;
  value_only.Set("value_dtype", DType::kInt64);
  const LookupTable hash = make("HashTable", types), changing = make("MutableHashTable", types),
                    dense = make("MutableDenseHashTable", value_only, {Const(root, int64_t{-7})});
  const Output keys = Ints(root, {4, 5}), values = Ints(root, {40, 50}), ask = Ints(root, {5, 6});
  const Operation init = hash.Initialize(root, keys, values);
  std::vector<Operation> puts = {init};
  for (const LookupTable* t : {&changing, &dense}) puts.push_back(t->Insert(root, keys, values));
  std::vector<Output> finds;
  for (const LookupTable* t : {&hash, &changing, &dense}) finds.push_back(t->Find(root, ask, Const(root, int64_t{0})));
  const auto session = NewSession(root);
  BOOST_TEST(Run(session, {}, puts) == "OK");
  BOOST_TEST(Run(session, finds) == "int64 [2] [50 0] | int64 [2] [50 0] | int64 [2] [50 0]");
}

BOOST_AUTO_TEST_CASE(tables_belong_to_a_snapshot_of_the_session) {
  const auto build = [](const Scope& root) {
    const LookupTable t = LookupTable::Mutable(root.WithOpName("t"), DType::kString, DType::kInt64);
    const LookupTable h = LookupTable::Hash(root.WithOpName("h"), DType::kString, DType::kInt64);
    h.Initialize(root.WithOpName("init"), Words(root, {"x"}), Ints(root, {7}));
    t.Insert(root.WithOpName("put"), Words(root, {"a", "b"}), Ints(root, {1, 2}));
    t.Remove(root.WithOpName("drop"), Words(root, {"a"}));
    const Output ask = Words(root, {"a", "b", "x"}), none = Const(root, int64_t{0});
    t.Find(root.WithOpName("find"), ask, none);
    h.Find(root.WithOpName("find_h"), ask, none);
  };
  const Scope root = Scope::NewRootScope(), other_root = Scope::NewRootScope();
  build(root);
  build(other_root);
  const auto session = NewSession(root), other = NewSession(other_root);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {"init", "put"}, nullptr));
  const auto snapshot = session->SnapshotState();
  BOOST_REQUIRE_MESSAGE(snapshot.ok(), snapshot.status());
  const auto bytes = snapshot->ToBytes();
  BOOST_REQUIRE_MESSAGE(bytes.ok(), bytes.status());
  TROUPE_REQUIRE_OK(session->Run({}, {}, {"drop"}, nullptr));
  for (const auto* each : {&other, &session}) {
    TROUPE_REQUIRE_OK((*each)->RestoreState(*StateSnapshot::FromBytes(*bytes)));
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK((*each)->Run({}, {"find", "find_h"}, {}, &out));
    BOOST_TEST(out[0].DebugString() == "int64 [3] [1 2 0]");
    BOOST_TEST(out[1].DebugString() == "int64 [3] [0 0 7]");
  }
}

// Eight writers put in a value for all keys at once, or take all keys out, while the table's actor
// dies again and again: who looks sees one value, or no key at all.
BOOST_AUTO_TEST_CASE(eight_writers_and_no_reader_sees_half_an_update) {
  constexpr int kWriters = 8, kEach = 40, kKeys = 300, kReaders = 3;
  CastPolicies policies;
  policies.container.max_failures = 1000000;
  policies.container.max_delay = std::chrono::milliseconds(1);
  SessionOptions options;
  options.runtime = StartRuntime({.threads = 2}, policies).value();
  const Scope root = Scope::NewRootScope();
  const LookupTable t = LookupTable::Mutable(root.WithOpName("t"), DType::kInt64, DType::kInt32);
  std::vector<int64_t> all(kKeys);
  for (int64_t i = 0; i < kKeys; ++i) all[static_cast<size_t>(i)] = i * 7919;
  const Output keys = Ints(root, all), x = ops::Placeholder(root.WithOpName("x"), DType::kInt32);
  const Output values = ops::Fill(root, Const(root, {kKeys}), x);
  const std::string insert = t.Insert(root.WithOpName("insert"), keys, values).name(),
                    remove = t.Remove(root.WithOpName("remove"), keys).name(),
                    import = t.Import(root.WithOpName("import"), keys, values).name(),
                    find = t.Find(root.WithOpName("find"), keys, Const(root, -1)).name(),
                    exported = t.Export(root.WithOpName("export")).second.name();
  const auto session = NewSession(root, options);
  TROUPE_REQUIRE_OK(session->Run({{"x", Tensor::Scalar(0)}}, {}, {insert}, nullptr));
  std::shared_ptr<Table> object;
  for (const auto& e : options.runtime->impl()->devices[0]->containers()->Entries()) {
    if (auto found = std::dynamic_pointer_cast<Table>(e.object)) object = found;
  }
  BOOST_REQUIRE(object != nullptr);
  std::atomic<int> halves{0}, others{0}, left{kWriters}, looked{0};
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      for (int i = 0; i < kEach; ++i) {
        const std::string& what = i % 5 == 4 ? remove : i % 5 == 2 ? import : insert;
        absl::Status s;
        do s = session->Run({{"x", Tensor::Scalar(w * kEach + i)}}, {}, {what}, nullptr);
        while (absl::IsAborted(s));
        if (!s.ok()) ++others;
      }
      --left;
    });
  }
  for (int r = 0; r < kReaders; ++r) {
    threads.emplace_back([&, r] {
      while (left > 0) {
        std::vector<Tensor> out;
        const absl::Status s = session->Run({}, {r == 0 ? exported : find}, {}, &out);
        if (absl::IsAborted(s)) continue;
        if (!s.ok()) {
          ++others;
          return;
        }
        ++looked;
        const auto seen = out[0].flat<int32_t>();
        if (r > 0 && seen.size() != kKeys) ++halves;
        if (!seen.empty() && seen.size() != kKeys) ++halves;
        for (const int32_t v : seen) halves += v != seen[0];
      }
    });
  }
  std::thread killer([&] {
    while (left > 0) {
      if (const caf::actor actor = StateActorOf(*object)) caf::anon_send_exit(actor, caf::exit_reason::kill);
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  });
  for (std::thread& thread : threads) thread.join();
  killer.join();
  BOOST_TEST(halves == 0);
  BOOST_TEST(others == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace table_test
}  // namespace troupe::table
