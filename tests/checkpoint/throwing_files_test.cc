// Exceptions of a program's file system become statuses, and end no process.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <stdexcept>

#include "tests/checkpoint/held_files.h"
#include "troupe/checkpoint.h"
#include "troupe/evaluate.h"

namespace troupe {
namespace throwing_files_test {

BOOST_AUTO_TEST_CASE(what_a_file_system_throws_becomes_a_status) {
  static std::atomic<bool> gone{false};
  BOOST_REQUIRE(files::RegisterFileSystem("gone", std::make_shared<HeldFiles>([](std::string_view, const auto&) {
                                            if (gone) throw std::runtime_error("the store is gone");
                                          }))
                    .ok());
  const std::string path = "gone://d/f";
  BOOST_REQUIRE(files::MakeDirectory("gone://d").ok());
  auto file = files::OpenToWrite(path);
  BOOST_REQUIRE(file.ok());
  auto writer = *CheckpointWriter::Create("gone://d/m");
  gone = true;
  const auto check = [](const absl::Status& s) {
    BOOST_TEST(absl::IsInternal(s), s);
    BOOST_TEST(s.ToString().find("gone://d") != std::string::npos, s);
    BOOST_TEST(s.ToString().find("the store is gone") != std::string::npos, s);
  };
  check((*file)->Append("x"));
  check((*file)->Sync());
  check(files::OpenToRead(path).status());
  check(files::OpenToWrite(path).status());
  check(files::MakeDirectory("gone://d"));
  check(files::Rename(path, path + "2"));
  check(files::Delete(path));
  check(files::SyncDirectory("gone://d"));
  check(files::Write(path, "x"));
  check(writer->Add("v", Tensor::Scalar(1.0f)));
  check(writer->Finish());
  writer.reset();
  check(EvaluateOp("SaveV2",
                   {Tensor::Scalar<std::string>("gone://d/m"), Tensor::Vector<std::string>({"v"}),
                    Tensor::Vector<std::string>({""}), Tensor::Scalar(1.0f)},
                   {}, {1})
            .status());
  gone = false;
}

}  // namespace throwing_files_test
}  // namespace troupe
