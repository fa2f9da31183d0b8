// The ops on files and checkpoints, one kernel at a time.
#include <boost/test/unit_test.hpp>

#include "tests/common/check_ok.h"
#include "troupe/checkpoint.h"
#include "troupe/evaluate.h"
#include "troupe/files.h"
#include "troupe/troupe.h"

namespace troupe {
namespace ops_test {

const std::string kRecorded = TROUPE_SOURCE_DIR "/tests/checkpoint/recorded/";

Tensor Text(const std::string& text) { return Tensor::Scalar(text); }
Tensor Texts(std::initializer_list<std::string> texts) { return Tensor::Vector<std::string>(texts); }
AttrMap Types(std::vector<DType> types) { return {{"dtypes", std::move(types)}}; }

std::string Show(const absl::StatusOr<std::vector<Tensor>>& outputs, size_t i = 0) {
  return outputs.ok() ? (*outputs)[i].DebugString() : outputs.status().ToString();
}

BOOST_AUTO_TEST_CASE(save_v2_and_restore_v2) {
  const Tensor a = Tensor::Vector<float>({1, 2, 3}), b = Texts({"x", ""}),
               c = Tensor::Of<int32_t>({1, 2, 3, 4}, {2, 2});
  CHECK_OK(EvaluateOp("SaveV2",
                      {Text("mem://ops/m"), Texts({"a", "b", "c", "c"}), Texts({"", "", "4 2 0,2:-", "4 2 2,2:-"}), a,
                       b, c, c},
                      {}, {4})
               .status());
  const auto all =
      EvaluateOp("RestoreV2", {Text("mem://ops/m"), Texts({"c", "b", "c"}), Texts({"", "", "4 2 1,2:1,1"})},
                 Types({DType::kInt32, DType::kString, DType::kInt32}));
  BOOST_TEST(Show(all, 0) == "int32 [4,2] [1 2 3 4 1 2 3 4]");
  BOOST_TEST(Show(all, 1) == "string [2] [\"x\" \"\"]");
  BOOST_TEST(Show(all, 2) == "int32 [2,1] [4 2]");

  const auto none = EvaluateOp("RestoreV2", {Text("mem://ops/m"), Texts({"aa"}), Texts({""})}, Types({DType::kFloat}));
  BOOST_TEST(absl::IsNotFound(none.status()), none.status());
  BOOST_TEST(none.status().ToString().find("most like it: 'a'") != std::string::npos, none.status());
  const auto type = EvaluateOp("RestoreV2", {Text("mem://ops/m"), Texts({"a"}), Texts({""})}, Types({DType::kDouble}));
  BOOST_TEST(absl::IsInvalidArgument(type.status()), type.status());
  const auto shape =
      EvaluateOp("RestoreV2", {Text("mem://ops/m"), Texts({"c"}), Texts({"5 2 0,2:-"})}, Types({DType::kInt32}));
  BOOST_TEST(absl::IsInvalidArgument(shape.status()), shape.status());
  const auto gone =
      EvaluateOp("RestoreV2", {Text("mem://ops/none"), Texts({"a"}), Texts({""})}, Types({DType::kFloat}));
  BOOST_TEST(absl::IsNotFound(gone.status()), gone.status());
  const auto names = EvaluateOp("SaveV2", {Text("mem://ops/x"), Texts({"a", "b"}), Texts({""}), a}, {}, {1});
  BOOST_TEST(absl::IsInvalidArgument(names.status()), names.status());
  BOOST_TEST(!CheckpointExists("mem://ops/x"));
  // TensorFlow's.
  const auto theirs =
      EvaluateOp("RestoreV2", {Text(kRecorded + "bundle"), Texts({"types/int16", "rows"}), Texts({"", "5 4 4,1:-"})},
                 Types({DType::kInt16, DType::kFloat}));
  BOOST_TEST(Show(theirs, 0) == "int16 [2,3] [0 1 2 3 4 5]");
  BOOST_TEST(Show(theirs, 1) == "float32 [1,4] [7 7.5 8 8.5]");
}

BOOST_AUTO_TEST_CASE(merge_v2_checkpoints) {
  for (const char* part : {"0", "1"}) {
    CHECK_OK(EvaluateOp("SaveV2",
                        {Text(StrCat("mem://merge_op/t/p", part)), Texts({StrCat("v", part)}), Texts({""}),
                         Tensor::Scalar(1.5f)},
                        {}, {1})
                 .status());
  }
  const Tensor parts = Texts({"mem://merge_op/t/p0", "mem://merge_op/t/p1"});
  CHECK_OK(EvaluateOp("MergeV2Checkpoints", {parts, Text("mem://merge_op/all")}).status());
  BOOST_TEST((*CheckpointReader::Open("mem://merge_op/all"))->entries().size() == 2u);
  BOOST_TEST(!files::Exists("mem://merge_op/t"));
  BOOST_TEST(absl::IsNotFound(EvaluateOp("MergeV2Checkpoints", {parts, Text("mem://merge_op/b")}).status()));
}

BOOST_AUTO_TEST_CASE(the_first_format) {
  const Tensor a = Tensor::Vector<double>({1, 2, 3}), b = Texts({"x", "y"});
  CHECK_OK(EvaluateOp("Save", {Text("mem://first"), Texts({"a", "b"}), a, b}, {}, {2}).status());
  BOOST_TEST(Show(EvaluateOp("Restore", {Text("mem://first"), Text("a")}, {{"dt", DType::kDouble}})) ==
             "float64 [3] [1 2 3]");
  BOOST_TEST(Show(EvaluateOp("RestoreSlice", {Text("mem://first"), Text("b"), Text("2 1,1")},
                             {{"dt", DType::kString}})) == "string [1] [\"y\"]");
  const std::string sliced = "mem://first_slices-00000-of-00001";
  CHECK_OK(
      EvaluateOp("SaveSlices", {Text(sliced), Texts({"a", "a"}), Texts({"6 0,3", "6 3,3"}), a, a}, {}, {2}).status());
  BOOST_TEST(Show(EvaluateOp("Restore", {Text("mem://first_slices-\?\?\?\?\?-of-00001"), Text("a")},
                             {{"dt", DType::kDouble}})) == "float64 [6] [1 2 3 1 2 3]");
  BOOST_TEST(Show(EvaluateOp("Restore", {Text(kRecorded + "first_format.ckpt"), Text("types/int64")},
                             {{"dt", DType::kInt64}})) == "int64 [2,3] [0 1 2 3 4 5]");
  const auto twice = EvaluateOp("Save", {Text("mem://twice"), Texts({"a", "a"}), a, a}, {}, {2});
  BOOST_TEST(absl::IsInvalidArgument(twice.status()), twice.status());
  const auto none = EvaluateOp("Restore", {Text("mem://first"), Text("z")}, {{"dt", DType::kDouble}});
  BOOST_TEST(absl::IsNotFound(none.status()), none.status());
}

BOOST_AUTO_TEST_CASE(files_are_read_written_and_found) {
  CHECK_OK(EvaluateOp("WriteFile", {Text("mem://file_ops/deep/a.txt"), Text("hello")}).status());
  CHECK_OK(EvaluateOp("WriteFile", {Text("mem://file_ops/deep/b.txt"), Text("")}).status());
  BOOST_TEST(Show(EvaluateOp("ReadFile", {Text("mem://file_ops/deep/a.txt")})) == "string [] [\"hello\"]");
  BOOST_TEST(absl::IsNotFound(EvaluateOp("ReadFile", {Text("mem://file_ops/none")}).status()));
  BOOST_TEST(Show(EvaluateOp("MatchingFiles", {Text("mem://file_ops/*/?.txt")})) ==
             "string [2] [\"mem://file_ops/deep/a.txt\" \"mem://file_ops/deep/b.txt\"]");
  BOOST_TEST(Show(EvaluateOp("MatchingFiles", {Texts({"mem://file_ops/deep/b*", "mem://none/*"})})) ==
             "string [1] [\"mem://file_ops/deep/b.txt\"]");
  BOOST_TEST(absl::IsInvalidArgument(EvaluateOp("ReadFile", {Texts({"a"})}).status()));
  BOOST_TEST(absl::IsInvalidArgument(EvaluateOp("MatchingFiles", {Tensor(DType::kString, {1, 1})}).status()));
}

// A file is read in each step, though its name is a constant.
BOOST_AUTO_TEST_CASE(a_file_is_not_folded) {
  const Scope root = Scope::NewRootScope();
  const Output text = ops::ReadFile(root, "mem://folded");
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  const auto session = *Session::Create();
  CHECK_OK(session->Extend(*root.graph()));
  for (const char* value : {"one", "two"}) {
    CHECK_OK(files::Write("mem://folded", value));
    std::vector<Tensor> out;
    CHECK_OK(session->Run({}, {text}, {}, &out));
    BOOST_TEST(out.at(0).scalar<std::string>() == value);
  }
}

BOOST_AUTO_TEST_CASE(names_of_shards_and_joined_texts) {
  const auto name = EvaluateOp("ShardedFilename", {Text("m"), Tensor::Scalar(2), Tensor::Scalar(10)});
  BOOST_TEST(Show(name) == "string [] [\"m-00002-of-00010\"]");
  const auto spec = EvaluateOp("ShardedFilespec", {Text("m"), Tensor::Scalar(10)});
  BOOST_TEST(Show(spec) == "string [] [\"m-\?\?\?\?\?-of-00010\"]");
  BOOST_TEST(absl::IsInvalidArgument(
      EvaluateOp("ShardedFilename", {Texts({"m"}), Tensor::Scalar(2), Tensor::Scalar(10)}).status()));
  const AttrMap dash{{"separator", "-"}};
  BOOST_TEST(Show(EvaluateOp("StringJoin", {Texts({"a", "b"}), Text("x"), Texts({"", "y"})}, dash, {3})) ==
             "string [2] [\"a-x-\" \"b-x-y\"]");
  BOOST_TEST(Show(EvaluateOp("StringJoin", {Text("a"), Text("b")}, {}, {2})) == "string [] [\"ab\"]");
  BOOST_TEST(absl::IsInvalidArgument(EvaluateOp("StringJoin", {Texts({"a"}), Texts({"b", "c"})}, {}, {2}).status()));
}

}  // namespace ops_test
}  // namespace troupe
