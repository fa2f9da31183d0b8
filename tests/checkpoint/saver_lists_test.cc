// Savers and the file "checkpoint": whatever spelling a path has, what is listed is there.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "troupe/files.h"
#include "troupe/train/saver.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

#define REQUIRE_OK(expr)                                 \
  do {                                                   \
    const absl::Status s_ = (expr);                      \
    BOOST_REQUIRE_MESSAGE(s_.ok(), #expr << ": " << s_); \
  } while (false)

// The current folder, until the end of the test.
class InFolder {
 public:
  InFolder() : before_(std::filesystem::current_path()) {
    char name[] = "/tmp/troupe_lists_XXXXXX";
    path_ = ::mkdtemp(name);
    std::filesystem::current_path(path_);
  }
  ~InFolder() {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(path_);
  }
  const std::string& path() const { return path_; }

 private:
  const std::filesystem::path before_;
  std::string path_;
};

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

}  // namespace
}  // namespace troupe
