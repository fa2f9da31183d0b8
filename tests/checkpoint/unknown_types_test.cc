// Checkpoints with a tensor of a type that is not known here, as newer versions of TensorFlow have:
// the others can be read, joined and restored.
#include <boost/test/unit_test.hpp>

#include "graph/checkpoint/bundle.h"
#include "graph/checkpoint/first_format.h"
#include "tests/common/check_ok.h"
#include "troupe/evaluate.h"
#include "troupe/files.h"
#include "troupe/proto/saved_tensor_slice.pb.h"
#include "troupe/train/saver.h"
#include "troupe/troupe.h"

namespace troupe {
namespace unknown_types_test {

constexpr int kFloat8E4m3fn = 25;

// A float32 'w', and 'x', whose type has this number in the file.
void WriteBundle(const std::string& prefix, int number) {
  auto writer = *CheckpointWriter::Create(prefix);
  REQUIRE_OK(writer->Add("w", Tensor::Vector<float>({1, 2})));
  REQUIRE_OK(writer->Add("x", Tensor::Vector<uint8_t>({7, 8, 9})));
  REQUIRE_OK(writer->Finish());
  auto index = BundleIndex::Read(prefix);
  REQUIRE_OK(index.status());
  index->entries["x"].dtype = static_cast<DType>(number);
  REQUIRE_OK(index->Write(IndexPath(prefix)));
}
void WriteFirst(const std::string& path, int number) {
  REQUIRE_OK(
      WriteFirstFormat(path, {{"w", TensorShape({2}), TensorSlice::Full(1), Tensor::Vector<float>({1, 2})},
                              {"x", TensorShape({3}), TensorSlice::Full(1), Tensor::Vector<uint8_t>({7, 8, 9})}}));
  const auto old = *files::TableReader::Open(path);
  const auto file = *files::OpenToWrite(path + ".new");
  files::TableWriter table(file.get());
  REQUIRE_OK(old->ForEach([&](std::string_view key, std::string_view value) {
    proto::SavedTensorSlices all;
    BOOST_REQUIRE(all.ParseFromString(std::string(value)));
    for (auto& tensor : *all.mutable_meta()->mutable_tensor()) {
      if (tensor.name() == "x") tensor.set_type(static_cast<proto::DataType>(number));
    }
    return table.Add(key, key.empty() ? all.SerializeAsString() : std::string(value));
  }));
  REQUIRE_OK(table.Finish());
  REQUIRE_OK(file->Close());
  REQUIRE_OK(files::Rename(path + ".new", path));
}

// 'w' is as it was, and 'x' is there, though its value is not.
void Check(const std::string& path) {
  const auto reader = CheckpointReader::Open(path);
  REQUIRE_OK(reader.status());
  BOOST_TEST((*reader)->Read("w")->DebugString() == "float32 [2] [1 2]");
  const CheckpointReader::Entry* const x = (*reader)->Find("x");
  BOOST_REQUIRE(x != nullptr);
  BOOST_TEST((x->dtype == DType::kInvalid));
  BOOST_TEST(x->unknown_type == kFloat8E4m3fn);
  BOOST_TEST(x->shape.DebugString() == "[3]");
  for (const absl::Status& s :
       {(*reader)->Read("x").status(), (*reader)->ReadSlice("x", *TensorSlice::Parse("0,2")).status(),
        EvaluateOp("RestoreV2",
                   {Tensor::Scalar(path), Tensor::Vector<std::string>({"x"}), Tensor::Vector<std::string>({""})},
                   {{"dtypes", std::vector<DType>{DType::kFloat}}})
            .status()}) {
    BOOST_TEST(absl::IsUnimplemented(s), s);
    BOOST_TEST(s.ToString().find("'x' cannot be read: its type, number 25, is not known here") != std::string::npos, s);
  }
}

BOOST_AUTO_TEST_CASE(one_tensor_of_an_unknown_type_is_no_damage) {
  WriteBundle("mem://unknown/bundle", kFloat8E4m3fn);
  Check("mem://unknown/bundle");
  WriteFirst("mem://unknown/first", kFloat8E4m3fn);
  Check("mem://unknown/first");
  // Its bytes and its type go along when checkpoints are joined.
  auto other = *CheckpointWriter::Create("mem://unknown/other");
  REQUIRE_OK(other->Add("y", Tensor::Scalar(3.0f)));
  REQUIRE_OK(other->Finish());
  REQUIRE_OK(MergeCheckpoints({"mem://unknown/bundle", "mem://unknown/other"}, "mem://unknown/joined"));
  Check("mem://unknown/joined");
  // What restores 'w' alone is not concerned; what wants 'x' is told.
  const Scope root = Scope::NewRootScope();
  const Variable w(root.WithOpName("w"), {0.0f, 0.0f}), x(root.WithOpName("x"), {0.0f, 0.0f, 0.0f});
  train::Saver saver(root, {train::Saved(w)}), both(root);
  const Operation init = GlobalVariablesInitializer(root);
  REQUIRE_OK(root.status());
  const auto session = *Session::Create();
  REQUIRE_OK(session->Extend(*root.graph()));
  REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  const absl::Status strict = both.Restore(*session, "mem://unknown/joined");
  BOOST_TEST(strict.ToString().find("'x' is of type 25 there and float32 here") != std::string::npos, strict);
  BOOST_TEST(session->Get(w)->DebugString() == "float32 [2] [0 0]");
  REQUIRE_OK(saver.Restore(*session, "mem://unknown/joined"));
  BOOST_TEST(session->Get(w)->DebugString() == "float32 [2] [1 2]");
  std::vector<std::string> skipped;
  REQUIRE_OK(both.Restore(*session, "mem://unknown/joined", {.missing = train::Missing::kSkip, .skipped = &skipped}));
  BOOST_TEST(StrJoin(skipped, " ") == "x");
}

BOOST_AUTO_TEST_CASE(a_type_that_can_be_none_is_damage) {
  for (const int number : {0, -3, 101, 125}) {
    WriteBundle("mem://impossible/bundle", number);
    WriteFirst("mem://impossible/first", number);
    for (const char* path : {"mem://impossible/bundle", "mem://impossible/first"}) {
      const absl::Status s = CheckpointReader::Open(path).status();
      BOOST_TEST(absl::IsDataLoss(s), path << " " << number << ": " << s);
    }
  }
}

}  // namespace unknown_types_test
}  // namespace troupe
