// GraphDef files: both forms, damaged ones, and real graphs that TensorFlow wrote.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include <boost/test/unit_test.hpp>
#include <google/protobuf/stubs/logging.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/core/read_file.h"
#include "troupe/files.h"
#include "tests/import/ops_test.h"
#include "troupe/proto/meta_graph.pb.h"
#include "troupe/proto/saved_model.pb.h"

namespace troupe {
namespace files_test {

namespace fs = std::filesystem;

struct TempFile {
  explicit TempFile(const std::string& bytes)
      : path(fs::temp_directory_path() / fs::path(StrCat("troupe_import_", ::getpid(), ".pb"))) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  ~TempFile() { fs::remove(path); }
  fs::path path;
};

absl::Status Read(const std::string& bytes, proto::GraphDef* def) {
  const TempFile file(bytes);
  return ReadGraphDef(file.path, def);
}

const std::string kText = "node { name: 'a' op: 'ImpNoOp' }\nnode { name: 'b' op: 'ImpNoOp' input: '^a' }\n";

BOOST_AUTO_TEST_CASE(both_forms_are_told_apart) {
  const proto::GraphDef want = ParseGraph(kText);
  for (const std::string& bytes : {want.SerializeAsString(), kText, "\n\n  # a comment\n" + kText}) {
    proto::GraphDef def;
    const absl::Status s = Read(bytes, &def);
    BOOST_TEST(s.ok(), s.ToString());
    BOOST_TEST(def.DebugString() == want.DebugString());
  }
}

// What else TensorFlow writes is called by its name.
BOOST_AUTO_TEST_CASE(other_messages_are_named) {
  proto::MetaGraphDef meta;
  *meta.mutable_graph_def() = ParseGraph(kText);
  meta.mutable_meta_info_def()->set_meta_graph_version("v1");
  meta.mutable_meta_info_def()->add_tags("serve");
  proto::SavedModel saved;
  saved.set_saved_model_schema_version(1);
  *saved.add_meta_graphs() = meta;
  proto::GraphDef def;
  for (const std::string& bytes :
       {meta.SerializeAsString(), meta.DebugString(), "# a comment\n" + meta.DebugString()}) {
    const absl::Status s = Read(bytes, &def);
    BOOST_TEST(s.ToString().find("not a GraphDef: it is a MetaGraphDef") != std::string::npos, s.ToString());
  }
  for (const std::string& bytes : {saved.SerializeAsString(), saved.DebugString()}) {
    const absl::Status s = Read(bytes, &def);
    BOOST_TEST(s.ToString().find("not a GraphDef: it is a SavedModel") != std::string::npos, s.ToString());
  }
}

// A file of holes: what is too large for Protocol Buffers is said before it is read.
BOOST_AUTO_TEST_CASE(a_file_of_3_gigabytes_is_too_large) {
  const TempFile file("");
  std::error_code error;
  fs::resize_file(file.path, uintmax_t{3} << 30, error);
  if (error) return;  // a file system without holes and without room
  proto::GraphDef def;
  const std::string message(ReadGraphDef(file.path, &def).message());
  BOOST_TEST(message.ends_with("the file has 3221225472 bytes; the Protocol Buffers of a GraphDef end at 2147483647"),
             message);
}

// A device or a pipe need not have an end.
BOOST_AUTO_TEST_CASE(what_has_no_size_is_read_up_to_a_bound) {
  const auto endless = ReadFile("/dev/zero", 3 << 20);
  BOOST_TEST((endless.status().code() == absl::StatusCode::kInvalidArgument), endless.status());
  BOOST_TEST(std::string(endless.status().message()) == "/dev/zero: it has more than 3145728 bytes");
  const TempFile file(std::string(5000, 'x'));
  const auto at_size = ReadFile(file.path, 10);  // a file's own size counts
  BOOST_REQUIRE_MESSAGE(at_size.ok(), at_size.status());
  BOOST_TEST(at_size->size() == 5000);
  for (const auto& [bytes, good] : {std::pair<int, bool>{4096, true}, {4097, false}}) {
    const fs::path pipe = file.path.string() + ".pipe";
    BOOST_REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    std::thread writer([&] { std::ofstream(pipe, std::ios::binary) << std::string(static_cast<size_t>(bytes), 'y'); });
    const auto got = ReadFile(pipe, 4096);
    writer.join();
    fs::remove(pipe);
    BOOST_TEST(got.ok() == good, got.status());
    if (got.ok()) BOOST_TEST(got->size() == static_cast<size_t>(bytes));
  }
}

BOOST_AUTO_TEST_CASE(a_path_may_have_a_scheme) {
  BOOST_REQUIRE(files::Write("mem://g.pbtxt", "node { name: 'c' op: 'NoOp' }").ok());
  proto::GraphDef def;
  BOOST_TEST(ReadGraphDef("mem://g.pbtxt", &def).ToString() == "OK");
  BOOST_TEST(def.node_size() == 1);
  BOOST_TEST(absl::IsNotFound(ReadGraphDef("mem://none.pb", &def)));
}

BOOST_AUTO_TEST_CASE(bad_files_are_said_with_their_path) {
  proto::GraphDef def;
  BOOST_TEST(absl::IsNotFound(ReadGraphDef("/nowhere/x.pb", &def)));
  BOOST_TEST(std::string(ReadGraphDef("/nowhere/x.pb", &def).message()) == "/nowhere/x.pb: No such file or directory");
  const auto message = [&](const std::string& bytes) { return std::string(Read(bytes, &def).message()); };
  BOOST_TEST(message("").ends_with("the file is empty"));
  BOOST_TEST(message("node { name: 'a' oops: 1 }")
                 .ends_with("not a GraphDef in text form: line 1, column 22: Message type \"troupe.proto.NodeDef\" has "
                            "no field named \"oops\"."));
  BOOST_TEST(message(std::string("\x0a\x05zz\x00", 5))
                 .ends_with("not a GraphDef in binary form (5 bytes, damaged or of another kind)"));
  std::string deep = "node { name: 'a' attr { key: 'f' value { ";
  for (int i = 0; i < 100000; ++i) deep += "func { attr { key: 'f' value { ";
  BOOST_TEST(message(deep).find("not a GraphDef in text form") != std::string::npos);
}

// $TROUPE_SHARED, or the folder `shared` beside the source tree.
fs::path Shared() {
  const char* env = std::getenv("TROUPE_SHARED");
  return env != nullptr ? fs::path(env) : fs::path(TROUPE_SOURCE_DIR) / ".." / "shared";
}

BOOST_AUTO_TEST_CASE(graphs_that_tensorflow_wrote_are_read) {
  const fs::path root = Shared() / "data" / "tf-op-graphs";
  if (!fs::exists(root)) {
    BOOST_TEST_MESSAGE("skipped: there is no " << root);
    std::printf("skipped graphs_that_tensorflow_wrote_are_read: there is no %s (set TROUPE_SHARED)\n", root.c_str());
    return;
  }
  int files = 0, imported = 0;
  std::string missing;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().filename() != "frozen_model.pb") continue;
    ++files;
    proto::GraphDef def;
    const absl::Status read = ReadGraphDef(entry.path(), &def);
    BOOST_TEST(read.ok(), read.ToString());
    const std::vector<std::string> unknown = UnknownOps(def, OpRegistry::Global());
    if (!unknown.empty()) {
      StrAppend(&missing, "  ", entry.path().parent_path().string(), ": ", StrJoin(unknown, ", "), "\n");
      continue;
    }
    Graph graph;
    const auto result = ImportGraphDef(def, {}, &graph);
    BOOST_TEST(result.ok(), entry.path() << ": " << result.status().ToString());
    if (!result.ok()) continue;
    ++imported;
    proto::GraphDef back, again;
    ExportGraphDef(graph, &back);
    Graph second;
    BOOST_TEST(ImportGraphDef(back, {}, &second).ok(), entry.path());
    ExportGraphDef(second, &again);
    BOOST_TEST(back.SerializeAsString().size() == again.SerializeAsString().size(), entry.path());
  }
  BOOST_TEST(files >= 63);
  BOOST_TEST_MESSAGE(imported << " of " << files << " imported; ops missing in the others:\n" << missing);
}

BOOST_AUTO_TEST_CASE(damaged_graphs_never_crash) {
  const google::protobuf::LogSilencer silence;
  const std::string text = R"(
    node { name: 'c' op: 'ImpConst' attr { key: 'dtype' value { type: DT_FLOAT } }
           attr { key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } dim { size: 3 } } float_val: [1, 2, 3] } } } }
    node { name: 's' op: 'ImpConst' attr { key: 'dtype' value { type: DT_STRING } }
           attr { key: 'value' value { tensor { dtype: DT_STRING tensor_shape { dim { size: 2 } } tensor_content: '\001\001ab' } } } }
    node { name: 'add' op: 'ImpAdd' input: 'c' input: 'c:0' attr { key: 'T' value { type: DT_FLOAT } } device: '/device:CPU:0' }
    node { name: 'split' op: 'ImpSplit' input: 'add' attr { key: 'T' value { type: DT_FLOAT } } attr { key: 'N' value { i: 3 } } }
    node { name: 'enter' op: 'ImpEnter' input: 'split:2' attr { key: 'T' value { type: DT_FLOAT } } }
    node { name: 'merge' op: 'ImpMerge' input: 'enter' input: 'next' attr { key: 'N' value { i: 2 } } attr { key: 'T' value { type: DT_FLOAT } } }
    node { name: 'next' op: 'ImpNextIteration' input: 'merge' attr { key: 'T' value { type: DT_FLOAT } } }
    node { name: 'attrs' op: 'ImpAttrs' input: '^add' attr { key: 'ints' value { list { i: [1, 2] } } } attr { key: '_class' value { list { s: 'loc:@add' } } } }
    node { name: 'fn' op: 'ImpFunc' attr { key: 'f' value { func { name: 'g' attr { key: 'T' value { type: DT_FLOAT } } } } } }
    library { function { signature { name: 'g' } node_def { name: 'x' op: 'ImpNoOp' } } }
    versions { producer: 27 min_consumer: 12 })";
  BOOST_TEST_REQUIRE(ImportMessage(text) == "OK");
  const std::string good = ParseGraph(text).SerializeAsString();
  std::mt19937 rng(1729);
  int parsed = 0, imported = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (int k = 1 + static_cast<int>(rng() % 3); k > 0; --k) {
      const size_t at = rng() % bytes.size();
      switch (rng() % 4) {
        case 0:
          bytes[at] = static_cast<char>(rng());
          break;
        case 1:
          bytes[at] ^= static_cast<char>(1 << (rng() % 8));
          break;
        case 2:
          bytes.erase(at, 1 + rng() % 4);
          break;
        default:
          bytes.insert(at, 1, static_cast<char>(rng()));
      }
    }
    proto::GraphDef def;
    if (!def.ParseFromString(bytes)) continue;
    ++parsed;
    Graph graph;
    if (!ImportGraphDef(def, {}, &graph).ok()) {
      BOOST_TEST_REQUIRE(graph.num_nodes() == 2);
      continue;
    }
    ++imported;
    BOOST_TEST_REQUIRE(graph.Validate().ok());
    proto::GraphDef out;
    ExportGraphDef(graph, &out);
  }
  // The mutations must reach all three outcomes.
  BOOST_TEST(parsed > 1000);
  BOOST_TEST(imported > 100);
  BOOST_TEST(imported < parsed);
}

}  // namespace files_test
}  // namespace troupe
