// troupe checkpoint: lists, prints, compares and renames.
#include <boost/test/unit_test.hpp>

#include "tests/program/program_test.h"
#include "troupe/checkpoint.h"
#include "troupe/strings.h"

namespace troupe {
namespace checkpoint_test {

void Save(const std::string& prefix, float first, bool more) {
  auto writer = CheckpointWriter::Create(prefix);
  BOOST_REQUIRE_MESSAGE(writer.ok(), writer.status());
  std::vector<absl::Status> done = {
      (*writer)->Add("layer/w", Tensor::Of<float>({first, 2, 3, 4}, {2, 2})),
      (*writer)->Add("names", Tensor::Vector<std::string>({"a", "b"})),
      (*writer)->AddSlice("rows", {3, 2}, *TensorSlice::Parse("0,1:-"), Tensor::Of<int32_t>({1, 2}, {1, 2})),
      (*writer)->AddSlice("rows", {3, 2}, *TensorSlice::Parse("1,2:-"), Tensor::Of<int32_t>({3, 4, 5, 6}, {2, 2}))};
  if (more) done.push_back((*writer)->Add("more", Tensor::Scalar(true)));
  done.push_back((*writer)->Finish());
  for (const absl::Status& s : done) BOOST_REQUIRE_MESSAGE(s.ok(), s);
}

BOOST_AUTO_TEST_CASE(checkpoints_are_listed_and_printed) {
  const Folder folder;
  const std::string m = folder.Path("m");
  Save(m, 1, false);
  const std::string list =
      "layer/w  float32 [2,2]\nnames  string [2]\nrows  int32 [3,2] in 2 slices\n3 tensors, 12 elements, format 2\n";
  for (const std::string& path : {m, m + ".index", m + ".data-00000-of-00001"}) {
    const Ended listed = RunProgram({"checkpoint", path});
    BOOST_TEST(listed.status == 0, listed.err);
    BOOST_TEST(listed.out == list);
  }
  const Ended printed = RunProgram({"checkpoint", m, "--print", "rows", "--print", "names"});
  BOOST_TEST(printed.out ==
             "rows  int32 [3,2] in 2 slices\n[[1, 2],\n [3, 4],\n [5, 6]]\nnames  string [2]\n[\"a\", \"b\"]\n");
  const Ended none = RunProgram({"checkpoint", m, "--print", "w"});
  BOOST_TEST(none.status == 1);
  BOOST_TEST(none.err.find("did you mean layer/w") != std::string::npos, none.err);
  BOOST_TEST(RunProgram({"checkpoint", folder.Path("gone")}).status == 1);
  const Ended empty = RunProgram({"checkpoint", folder.Path("."), "--print", "rows"});
  BOOST_TEST(empty.status == 1);
  BOOST_TEST(empty.err.find("no file 'checkpoint' says which one is the newest; name one of those that are there: ") !=
                 std::string::npos,
             empty.err);
  BOOST_TEST(empty.err.find("/m\n") != std::string::npos, empty.err);
  folder.Write("checkpoint", "model_checkpoint_path: \"gone\"\n");
  const Ended gone = RunProgram({"checkpoint", folder.Path("."), "--print", "rows"});
  BOOST_TEST(gone.err.find("gone, which is not there; name one of those") != std::string::npos, gone.err);
  const Folder nothing;
  const Ended bare = RunProgram({"checkpoint", nothing.Path(".")});
  BOOST_TEST(bare.err.find("there is no checkpoint in this folder") != std::string::npos, bare.err);
  folder.Write("checkpoint", "model_checkpoint_path: \"m\"\n");
  BOOST_TEST(RunProgram({"checkpoint", folder.Path("."), "--print", "names"}).out ==
             "names  string [2]\n[\"a\", \"b\"]\n");
  folder.Write("m.data-00000-of-00001", "short");
  const Ended damaged = RunProgram({"checkpoint", m, "--print", "rows"});
  BOOST_TEST(damaged.status == 1);
  BOOST_TEST(damaged.err.find("DATA_LOSS") != std::string::npos, damaged.err);
}

BOOST_AUTO_TEST_CASE(the_checkpoints_of_a_folder_are_listed) {
  const Folder folder;
  for (const char* name : {"m-9", "m-100", "m-20", "other"}) Save(folder.Path(name), 1, false);
  const auto lines = [&](const std::string& newest) {
    std::string text;
    for (const char* name : {"m-9", "m-20", "m-100", "other"})
      text += folder.Path(name) + (name == newest ? "  newest\n" : "\n");
    return text + "4 checkpoints\n";
  };
  const Ended unknown = RunProgram({"checkpoint", folder.Path("")});
  BOOST_TEST(unknown.status == 0, unknown.err);
  BOOST_TEST(unknown.out == lines("none"));
  folder.Write("checkpoint", "model_checkpoint_path: \"m-100\"\nall_model_checkpoint_paths: \"m-100\"\n");
  BOOST_TEST(RunProgram({"checkpoint", folder.Path("")}).out == lines("m-100"));
  // Lists of other programs have whole paths.
  folder.Write("checkpoint", "model_checkpoint_path: \"" + folder.Path("m-20") + "\"\n");
  BOOST_TEST(RunProgram({"checkpoint", folder.Path("")}).out == lines("m-20"));
  folder.Write("checkpoint", "model_checkpoint_path: \"gone\"\n");
  BOOST_TEST(RunProgram({"checkpoint", folder.Path("")}).out == lines("none"));
  folder.Write("checkpoint", "no list");
  const Ended damaged = RunProgram({"checkpoint", folder.Path("")});
  BOOST_TEST(damaged.status == 1);
  BOOST_TEST(damaged.out == lines("none"));
  BOOST_TEST(damaged.err.find("DATA_LOSS") != std::string::npos, damaged.err);
}

BOOST_AUTO_TEST_CASE(checkpoints_are_compared_and_renamed) {
  const Folder folder;
  const std::string a = folder.Path("a"), b = folder.Path("b"), c = folder.Path("c");
  Save(a, 1, false);
  Save(b, 1.5, true);
  const Ended same = RunProgram({"checkpoint", a, "--against", a});
  BOOST_TEST(same.status == 0);
  BOOST_TEST(same.out == "3 tensors are equal\n");
  const Ended differ = RunProgram({"checkpoint", a, "--against", b});
  BOOST_TEST(differ.status == 1);
  BOOST_TEST(differ.out == "! layer/w  float32 [2,2], differs by up to 0.5\n+ more  bool []\n2 tensors are equal\n");
  BOOST_TEST(RunProgram({"checkpoint", b, "--against", a}).out.find("- more  bool []\n") != std::string::npos);
  const Ended renamed = RunProgram({"checkpoint", a, "--rename", "layer/w=w", "--rename", "rows=table", "--out", c});
  BOOST_TEST(renamed.status == 0, renamed.err);
  BOOST_TEST(RunProgram({"checkpoint", c}).out ==
             "names  string [2]\ntable  int32 [3,2] in 2 slices\nw  float32 [2,2]\n3 tensors, 12 elements, format 2\n");
  BOOST_TEST(RunProgram({"checkpoint", c, "--print", "table"}).out ==
             "table  int32 [3,2] in 2 slices\n[[1, 2],\n [3, 4],\n [5, 6]]\n");
  BOOST_TEST(RunProgram({"checkpoint", a, "--rename", "layer/w=w"}).status == 2);
  for (const std::string bad : {"x=y", "layer/w=", "=w", "layer/w", "layer/w=names"}) {
    const Ended refused = RunProgram({"checkpoint", a, "--rename", bad, "--out", folder.Path("bad")});
    BOOST_TEST(refused.status == 1, bad);
    BOOST_TEST(!folder.Has("bad.index"));
  }
}

}  // namespace checkpoint_test
}  // namespace troupe
