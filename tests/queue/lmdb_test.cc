// LMDBReader on files that liblmdb has written: what its own cursor gives, and damaged files.
// Without liblmdb the cases say that they are skipped. (TensorFlow 2.21 has the op, but no kernel
// that reads.)
#include <cstdio>
#include <filesystem>
#include <random>

#include <unistd.h>

#ifdef TROUPE_HAS_LMDB
#include <lmdb.h>
#endif

#include "kernels/io/cursor.h"
#include "tests/queue/queue_test_util.h"
#include "troupe/files.h"
#include "troupe/readers.h"
#include "troupe/troupe.h"

namespace troupe::reader {
namespace lmdb_test {

BOOST_AUTO_TEST_SUITE(lmdb)

using Pairs = std::vector<std::pair<std::string, std::string>>;

absl::StatusOr<Pairs> ReadAll(const std::string& path, uint64_t from = 0) {
  TROUPE_ASSIGN_OR_RETURN(const auto cursor, io::OpenLmdb(path, from));
  Pairs all;
  std::string_view value;
  for (;;) {
    BOOST_TEST(cursor->offset() == from + all.size());
    TROUPE_ASSIGN_OR_RETURN(const bool more, cursor->Next(&value));
    if (!more) return all;
    all.emplace_back(cursor->key(), value);
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_lmdb_file_is_refused) {
  BOOST_TEST(absl::IsNotFound(io::OpenLmdb("mem://lmdb/none").status()));
  for (const std::string& bytes : {std::string(), std::string(10, 'x'), std::string(20000, '\0')}) {
    BOOST_REQUIRE(files::Write("mem://lmdb_other", bytes).ok());
    const absl::Status s = io::OpenLmdb("mem://lmdb_other").status();
    BOOST_TEST(absl::IsDataLoss(s), s);
    BOOST_TEST(s.ToString().find("mem://lmdb_other") != std::string::npos, s);
  }
}

// Made by hand, with pages of 256 bytes: a branch, two leaves, a large value.
BOOST_AUTO_TEST_CASE(small_pages) {
  const Pairs want = {{"a", "one"}, {"b", ""}, {"c", std::string(100, 'x')}, {"dd", "last"}};
  const std::string path = TROUPE_SOURCE_DIR "/tests/fuzz/recorded/lmdb";
  BOOST_TEST((ReadAll(path).value() == want));
  BOOST_TEST((ReadAll(path, 3).value() == Pairs{want[3]}));
  BOOST_TEST(ReadAll(path, 4).value().empty());
}

#ifndef TROUPE_HAS_LMDB

BOOST_AUTO_TEST_CASE(files_of_liblmdb) {
  std::printf(
      "skipped: LMDBReader is tested on files that liblmdb writes, and this build was configured without it "
      "(the package liblmdb-dev)\n");
}

#else

// A folder that is gone with the object.
struct Folder {
  Folder() {
    char name[] = "/tmp/troupe_lmdb_XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

void Check(int code) { BOOST_REQUIRE_MESSAGE(code == MDB_SUCCESS, mdb_strerror(code)); }
MDB_val ValueOf(const std::string& s) { return {s.size(), const_cast<char*>(s.data())}; }

// One transaction each for what is put in and what is taken out, so that pages are free and reused.
class Writer {
 public:
  explicit Writer(const std::string& path, unsigned flags = MDB_NOSUBDIR, unsigned table = 0) : table_(table) {
    Check(mdb_env_create(&env_));
    Check(mdb_env_set_mapsize(env_, size_t{64} << 20));
    Check(mdb_env_open(env_, path.c_str(), flags | MDB_NOSYNC, 0644));
  }
  ~Writer() { mdb_env_close(env_); }
  void Put(const Pairs& pairs) {
    Step([&](MDB_txn* txn, MDB_dbi dbi) {
      for (const auto& [key, value] : pairs) {
        MDB_val k = ValueOf(key), v = ValueOf(value);
        Check(mdb_put(txn, dbi, &k, &v, 0));
      }
    });
  }
  void Delete(const std::vector<std::string>& keys) {
    Step([&](MDB_txn* txn, MDB_dbi dbi) {
      for (const std::string& key : keys) {
        MDB_val k = ValueOf(key);
        Check(mdb_del(txn, dbi, &k, nullptr));
      }
    });
  }
  // What liblmdb's own cursor gives.
  Pairs All() {
    Pairs all;
    Step([&](MDB_txn* txn, MDB_dbi dbi) {
      MDB_cursor* cursor = nullptr;
      Check(mdb_cursor_open(txn, dbi, &cursor));
      MDB_val k, v;
      for (auto op = MDB_FIRST; mdb_cursor_get(cursor, &k, &v, op) == MDB_SUCCESS; op = MDB_NEXT) {
        all.emplace_back(std::string(static_cast<char*>(k.mv_data), k.mv_size),
                         std::string(static_cast<char*>(v.mv_data), v.mv_size));
      }
      mdb_cursor_close(cursor);
    });
    return all;
  }

 private:
  template <class F>
  void Step(F f) {
    MDB_txn* txn = nullptr;
    MDB_dbi dbi = 0;
    Check(mdb_txn_begin(env_, nullptr, 0, &txn));
    Check(mdb_dbi_open(txn, nullptr, table_, &dbi));
    f(txn, dbi);
    Check(mdb_txn_commit(txn));
  }
  MDB_env* env_ = nullptr;
  const unsigned table_;
};

// `n` pairs, values of up to `longest` bytes.
Pairs Random(int n, size_t longest, unsigned seed) {
  std::mt19937 random(seed);
  Pairs all;
  for (int i = 0; i < n; ++i) {
    std::string key = StrCat(random() % 1000000, std::string(random() % 40, 'k'), i);
    std::string value(random() % longest, static_cast<char>('a' + i % 26));
    all.emplace_back(std::move(key), std::move(value));
  }
  return all;
}

BOOST_AUTO_TEST_CASE(pairs_are_those_of_liblmdb) {
  const Folder folder;
  const std::string path = folder.path + "/pairs";
  Writer writer(path);
  writer.Put({});
  BOOST_TEST(ReadAll(path).value().empty());
  // Small values make a deep tree, large ones rows of pages.
  for (const auto& [n, longest] : {std::pair<int, size_t>(1, 10), {5000, 60}, {40, 30000}}) {
    const Pairs more = Random(n, longest, static_cast<unsigned>(n));
    writer.Put(more);
    std::vector<std::string> gone;
    for (size_t i = 0; i < more.size(); i += 3) gone.push_back(more[i].first);
    if (n > 1) writer.Delete(gone);
    const Pairs want = writer.All(), got = ReadAll(path).value();
    BOOST_TEST(want.size() == got.size());
    BOOST_TEST((want == got));
    const uint64_t from = want.size() / 2;
    BOOST_TEST((ReadAll(path, from).value() == Pairs(want.begin() + static_cast<std::ptrdiff_t>(from), want.end())));
  }
}

BOOST_AUTO_TEST_CASE(a_folder_stands_for_its_file) {
  const Folder folder;
  Writer writer(folder.path, 0);
  writer.Put({{"b", "2"}, {std::string("a\0", 2), ""}});
  BOOST_TEST((ReadAll(folder.path).value() == Pairs{{std::string("a\0", 2), ""}, {"b", "2"}}));
}

BOOST_AUTO_TEST_CASE(several_values_of_a_key_are_refused) {
  const Folder folder;
  Writer writer(folder.path, 0, MDB_DUPSORT);
  writer.Put({{"a", "1"}, {"a", "2"}});
  const absl::Status s = ReadAll(folder.path).status();
  BOOST_TEST(absl::IsUnimplemented(s), s);
}

BOOST_AUTO_TEST_CASE(damaged_files_are_read_or_refused) {
  const Folder folder;
  const std::string path = folder.path + "/pairs";
  Pairs pairs = Random(150, 60, 1);
  pairs.emplace_back("large", std::string(5000, 'x'));
  Writer(path).Put(pairs);
  const std::string sound = files::Read(path).value();
  std::mt19937 random(2);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string bytes = sound;
    for (int k = 0; k < 3; ++k) {
      // Most of the numbers stand at the beginning of a page.
      const size_t at = (random() % (bytes.size() / 4096) * 4096 + random() % (random() % 2 == 0 ? 200 : 4096));
      bytes[at] = static_cast<char>(random() % 2 == 0 ? random() : 255);
    }
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    BOOST_REQUIRE(files::Write("mem://lmdb_damaged", bytes).ok());
    const absl::StatusOr<Pairs> got = ReadAll("mem://lmdb_damaged");
    if (got.ok()) continue;
    ++refused;
    BOOST_TEST((absl::IsDataLoss(got.status()) || absl::IsUnimplemented(got.status())), got.status());
  }
  BOOST_TEST(refused > 100);
}

BOOST_AUTO_TEST_CASE(a_session_reads_pairs) {
  const Folder folder;
  const std::string path = folder.path + "/pairs";
  Writer(path).Put({{"k1", "v1"}, {"k2", "v2"}, {"k3", "v3"}});
  const Scope root = Scope::NewRootScope();
  const troupe::Queue names = troupe::Queue::Fifo(root, {DType::kString}, {.capacity = 3, .shapes = {TensorShape()}});
  const Operation put = names.Enqueue(root, {Const(root, path)});
  const troupe::Reader reader = troupe::Reader::Lmdb(root.WithOpName("r"));
  const auto [key, value] = reader.Read(root, names);
  const auto [keys, values] = reader.ReadUpTo(root, names, Const(root, int64_t{5}));
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  const auto session = *Session::Create();
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  BOOST_REQUIRE(session->Run({}, {}, {put.name()}, nullptr).ok());
  std::vector<Tensor> out;
  const absl::Status one = session->Run({}, {key, value}, {}, &out);
  BOOST_REQUIRE_MESSAGE(one.ok(), one);
  BOOST_TEST(out[0].scalar<std::string>() == "k1");
  BOOST_TEST(out[1].scalar<std::string>() == "v1");
  const absl::Status rest = session->Run({}, {keys, values}, {}, &out);
  BOOST_REQUIRE_MESSAGE(rest.ok(), rest);
  BOOST_TEST((out[0].flat<std::string>() == absl::MakeConstSpan(std::vector<std::string>{"k2", "k3"})));
  BOOST_TEST((out[1].flat<std::string>() == absl::MakeConstSpan(std::vector<std::string>{"v2", "v3"})));
}

#endif  // TROUPE_HAS_LMDB

BOOST_AUTO_TEST_SUITE_END()

}  // namespace lmdb_test
}  // namespace troupe::reader
