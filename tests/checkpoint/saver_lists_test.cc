// Savers and the file "checkpoint": whatever spelling a path has, what is listed is there.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <stdexcept>

#include "tests/checkpoint/held_files.h"
#include "tests/common/check_ok.h"
#include "tests/common/folder.h"
#include "troupe/files.h"
#include "troupe/import_export.h"
#include "troupe/proto/meta_graph.pb.h"
#include "troupe/train/saver.h"
#include "troupe/troupe.h"

namespace troupe {
namespace saver_lists_test {

using testing::InFolder;

struct Model {
  Scope root = Scope::NewRootScope();
  Variable w{root.WithOpName("w"), 5.0f};
  train::Saver saver;
  std::unique_ptr<Session> session = *Session::Create();
  explicit Model(const train::SaverOptions& options = {}) : saver(root, options) {
    const Operation init = GlobalVariablesInitializer(root);
    REQUIRE_OK(root.status());
    REQUIRE_OK(session->Extend(*root.graph()));
    REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  }
  void Save(const std::string& path, const train::SaveOptions& options = {}) {
    const auto saved = saver.Save(*session, path, options);
    BOOST_REQUIRE_MESSAGE(saved.ok(), path << ": " << saved.status());
    BOOST_TEST(CheckpointExists(*saved), path);
  }
};

void ListIsRight(const std::string& folder, size_t length) {
  const auto last = train::LatestCheckpoint(folder);
  BOOST_TEST(last.ok(), last.status());
  const auto all = train::AllCheckpoints(folder);
  REQUIRE_OK(all.status());
  BOOST_TEST(all->size() == length);
  for (const std::string& path : *all) BOOST_TEST(CheckpointExists(path), path);
}

BOOST_AUTO_TEST_CASE(one_checkpoint_in_many_spellings_is_one) {
  InFolder here;
  std::filesystem::create_directory("run");
  std::filesystem::create_directory_symlink("run", "link");
  // Each as another process would go on.
  for (int i = 0; i < 7; ++i) {
    Model m;
    m.Save("model");
    ListIsRight(".", 1);
  }
  for (const std::string& path : {std::string("run/m"), here.path() + "/run/m", here.path() + "//run//m",
                                  std::string("run//m"), std::string("./run/m"), std::string("run/../run/m"),
                                  std::string("link/m"), "file://" + here.path() + "/run/m", std::string("run/m")}) {
    Model m({.max_to_keep = 1});
    m.Save(path);
    ListIsRight("run", 1);
  }
  // And as one process does.
  Model m({.max_to_keep = 2});
  for (const char* path : {"one", "./one", "run/../one", "two", "./two", "one"}) {
    m.Save(path);
    BOOST_TEST(*train::LatestCheckpoint(".") == StrCat("./", files::NameOf(path)));
  }
  ListIsRight(".", 2);
  BOOST_TEST(!CheckpointExists("model"));
  BOOST_TEST(files::Read("checkpoint")->find("model_checkpoint_path: \"one\"\nall_model_checkpoint_paths: \"two\"\n") ==
             0u);
  // The same text in another current folder is another folder.
  std::filesystem::current_path("run");
  for (const char* path : {"one", "two", "three"}) m.Save(path);
  ListIsRight(".", 2);
  ListIsRight("..", 2);
  // A list that names one of them more than once.
  REQUIRE_OK(files::Write("checkpoint", StrCat("model_checkpoint_path: 'three'\nall_model_checkpoint_paths: 'two'\n",
                                               "all_model_checkpoint_paths: './three'\nall_model_checkpoint_paths: '",
                                               here.path(), "/run/three'\n")));
  Model n({.max_to_keep = 2});
  n.Save("three");
  ListIsRight(".", 2);
  BOOST_TEST(CheckpointExists("two"));
}

BOOST_AUTO_TEST_CASE(what_is_saved_without_the_list_counts_for_nothing) {
  Model m({.max_to_keep = 3});
  m.Save("mem://unlisted/m", {.global_step = 1});
  for (int i = 2; i <= 5; ++i) m.Save("mem://unlisted/m", {.global_step = i, .write_state = false});
  ListIsRight("mem://unlisted", 1);
  BOOST_TEST(*train::LatestCheckpoint("mem://unlisted") == "mem://unlisted/m-1");
  for (int i = 6; i <= 8; ++i) m.Save("mem://unlisted/m", {.global_step = i});
  ListIsRight("mem://unlisted", 3);
  BOOST_TEST(!CheckpointExists("mem://unlisted/m-1"));
  for (int i = 2; i <= 8; ++i) BOOST_TEST(CheckpointExists(StrCat("mem://unlisted/m-", i)), i);
}

BOOST_AUTO_TEST_CASE(a_list_that_cannot_be_read_now_is_not_forgotten) {
  static std::atomic<int> failures{0};
  REQUIRE_OK(
      files::RegisterFileSystem("away", std::make_shared<HeldFiles>([](std::string_view op, const std::string& path) {
                                  if (op != "OpenToRead" || files::NameOf(path) != "checkpoint" || failures == 0)
                                    return;
                                  --failures;
                                  throw std::runtime_error("the store is away");
                                })));
  {
    Model m({.max_to_keep = 3});
    for (int i = 1; i <= 2; ++i) m.Save("away://list/m", {.global_step = i});
  }
  Model m({.max_to_keep = 3});
  failures = 1;
  const auto saved = m.saver.Save(*m.session, "away://list/m", {.global_step = 3});
  BOOST_TEST(failures == 0);
  BOOST_TEST(absl::IsInternal(saved.status()), saved.status());
  BOOST_TEST(saved.status().message().find("the store is away") != std::string::npos, saved.status());
  ListIsRight("away://list", 2);
  for (int i = 4; i <= 5; ++i) m.Save("away://list/m", {.global_step = i});
  ListIsRight("away://list", 3);
  for (int i = 1; i <= 5; ++i) BOOST_TEST(CheckpointExists(StrCat("away://list/m-", i)) == (i != 1 && i != 3), i);
}

BOOST_AUTO_TEST_CASE(options_in_braces_are_no_list_of_variables) {
  const Scope root = Scope::NewRootScope();
  const Variable a(root.WithOpName("a"), 1.0f), b(root.WithOpName("b"), 2.0f);
  const train::Saver three(root, {.max_to_keep = 3}), sharded(root, {.sharded = true});
  BOOST_TEST(three.options().max_to_keep == 3);
  BOOST_TEST(sharded.options().sharded);
  const std::vector<train::Saved> some = {train::Saved("x", a), b};
  train::Saver listed(root, some, {.max_to_keep = 2}), braces(root, {train::Saved("y", a)}, {.max_to_keep = 4});
  BOOST_TEST(listed.options().max_to_keep == 2);
  BOOST_TEST(braces.options().max_to_keep == 4);
  const Operation init = GlobalVariablesInitializer(root);
  REQUIRE_OK(root.status());
  const auto session = *Session::Create();
  REQUIRE_OK(session->Extend(*root.graph()));
  REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  const auto names = [&](train::Saver& saver) {
    const std::string path = *saver.Save(*session, "mem://braces/m");
    const auto reader = *CheckpointReader::Open(path);
    std::string names;
    for (const auto& entry : reader->entries()) StrAppend(&names, entry.name, " ");
    return names;
  };
  BOOST_TEST(names(listed) == "b x ");
  BOOST_TEST(names(braces) == "y ");
}

// The graph of TensorFlow's Saver(sharded=True, write_version=V1).
BOOST_AUTO_TEST_CASE(shards_of_the_first_format_are_named_by_their_pattern) {
  const Scope root = Scope::NewRootScope();
  const Variable w(root.WithOpName("w"), {1.0f, 2.0f}, {.use_resource = false});
  const Operation init = GlobalVariablesInitializer(root);
  const Output path =
      ops::PlaceholderWithDefault(root.WithOpName("save/Const"), Tensor::Scalar("model"), TensorShape());
  std::vector<Operation> shards;
  for (int i = 0; i < 2; ++i) {
    const Output file = ops::ShardedFilename(root, path, i, 2);
    shards.push_back(ops::SaveSlices(root, file, Const(root, Tensor::Vector<std::string>({i == 0 ? "w" : "v"})),
                                     Const(root, Tensor::Vector<std::string>({""})), {w}));
  }
  const Output spec = ops::ShardedFilespec(root.WithOpName("save/spec").WithControlDependencies(shards), path, 2);
  const OutputList restored =
      ops::RestoreV2(root.WithOpName("save/RestoreV2"), path, Const(root, Tensor::Vector<std::string>({"w"})),
                     Const(root, Tensor::Vector<std::string>({""})), {DType::kFloat});
  const Output assigned = ops::Assign(root.WithOpName("save/Assign"), w.handle(), restored[0]);
  Group(root.WithOpName("save/restore_all"), {Operation(assigned.node())});
  REQUIRE_OK(root.status());
  REQUIRE_OK(files::MakeDirectory("mem://v1shards"));
  REQUIRE_OK(train::WriteMetaGraph("mem://v1shards/graph.meta", *root.graph()));
  proto::MetaGraphDef meta;
  BOOST_REQUIRE(meta.ParseFromString(*files::Read("mem://v1shards/graph.meta")));
  proto::SaverDef* const def = meta.mutable_saver_def();
  def->set_filename_tensor_name("save/Const:0");
  def->set_save_tensor_name("save/spec:0");
  def->set_restore_op_name("save/restore_all");
  def->set_max_to_keep(2);
  def->set_sharded(true);
  def->set_version(proto::SaverDef::V1);
  REQUIRE_OK(files::Write("mem://v1shards/graph.meta", meta.SerializeAsString()));

  Graph graph;
  auto saver = train::ReadMetaGraph("mem://v1shards/graph.meta", &graph);
  REQUIRE_OK(saver.status());
  const auto session = *Session::Create();
  REQUIRE_OK(session->Extend(graph));
  REQUIRE_OK(session->Run({}, {}, {init.name()}, nullptr));
  for (int i = 0; i < 4; ++i) {
    const auto saved = saver->Save(*session, "mem://v1shards/run/o", {.global_step = i, .graph = &graph});
    REQUIRE_OK(saved.status());
    BOOST_TEST(*saved == StrCat("mem://v1shards/run/o-", i, "-?\?\?\?\?-of-00002"));
    ListIsRight("mem://v1shards/run", i == 0 ? 1u : 2u);
  }
  BOOST_TEST(
      StrJoin(*files::List("mem://v1shards/run"), " ") ==
      "checkpoint o-2-00000-of-00002 o-2-00001-of-00002 o-2.meta o-3-00000-of-00002 o-3-00001-of-00002 o-3.meta");
  REQUIRE_OK(session->Set(w, Tensor::Vector<float>({0, 0})));
  REQUIRE_OK(saver->Restore(*session, *train::LatestCheckpoint("mem://v1shards/run")));
  BOOST_TEST(session->Get(w)->DebugString() == "float32 [2] [1 2]");
  // Nothing but what fits the pattern goes, and characters of other patterns stand for themselves.
  for (const char* name : {"o-3-0000x-of-00002", "o-3-00000-of-00003", "xo-3-00000-of-00002"})
    REQUIRE_OK(files::Write(StrCat("mem://v1shards/run/", name), ""));
  REQUIRE_OK(DeleteCheckpoint("mem://v1shards/run/*-?\?\?\?\?-of-00002"));
  REQUIRE_OK(DeleteCheckpoint("mem://v1shards/run/o-3-?\?\?\?\?-of-00002"));
  REQUIRE_OK(DeleteCheckpoint("mem://v1shards/none/o-3-?\?\?\?\?-of-00002"));
  BOOST_TEST(StrJoin(*files::List("mem://v1shards/run"), " ") ==
             "checkpoint o-2-00000-of-00002 o-2-00001-of-00002 o-2.meta o-3-00000-of-00003 o-3-0000x-of-00002 "
             "o-3.meta xo-3-00000-of-00002");
}

}  // namespace saver_lists_test
}  // namespace troupe
