// Files: the same contract on disk, in memory and under faults.
#include "troupe/files.h"

#include <boost/test/unit_test.hpp>
#include <map>

#include "tests/common/check_ok.h"
#include "tests/common/folder.h"
#include "troupe/faulty_files.h"

namespace troupe::files {
namespace files_test {

using testing::Folder;

std::string Text(const std::string& path) {
  const auto text = Read(path);
  return text.ok() ? *text : StrCat("(", text.status().ToString(), ")");
}

absl::Status Put(const std::string& path, std::string_view text, WriteMode mode = WriteMode::kReplace) {
  TROUPE_ASSIGN_OR_RETURN(const auto file, OpenToWrite(path, mode));
  TROUPE_RETURN_IF_ERROR(file->Append(text));
  return file->Close();
}

// What every file system must do, in a folder of its own.
void CheckContract(const std::string& root) {
  const std::string a = root + "/a", deep = root + "/x/y/z";
  BOOST_TEST(!Exists(a));
  BOOST_TEST(absl::IsNotFound(Read(a).status()));
  BOOST_TEST(Read(a).status().ToString().find(a) != std::string::npos);
  BOOST_TEST(absl::IsNotFound(Stat(a).status()));
  BOOST_TEST(absl::IsNotFound(Delete(a)));
  BOOST_TEST(absl::IsNotFound(Rename(a, root + "/b")));
  BOOST_TEST(absl::IsNotFound(List(root + "/none").status()));
  BOOST_TEST(absl::IsNotFound(Put(root + "/none/f", "x")));

  CHECK_OK(Put(a, "one"));
  BOOST_TEST(Text(a) == "one");
  CHECK_OK(Put(a, "two", WriteMode::kAppend));
  BOOST_TEST(Text(a) == "onetwo");
  BOOST_TEST(absl::IsAlreadyExists(Put(a, "three", WriteMode::kCreate)));
  BOOST_TEST(Text(a) == "onetwo");
  CHECK_OK(Put(a, "new"));
  BOOST_TEST(Text(a) == "new");
  BOOST_REQUIRE(Stat(a).ok());
  BOOST_TEST(Stat(a)->size == 3u);
  BOOST_TEST(!Stat(a)->is_directory);
  BOOST_TEST(Stat(a)->modified_ns > int64_t{1'600'000'000} * 1'000'000'000);
  BOOST_TEST(Stat(root)->is_directory);

  const auto file = *OpenToRead(a);
  char bytes[8] = {};
  BOOST_TEST(*file->ReadAt(1, 8, bytes) == 2u);
  BOOST_TEST(std::string(bytes) == "ew");
  BOOST_TEST(*file->ReadAt(3, 8, bytes) == 0u);
  BOOST_TEST(*file->ReadAt(uint64_t{1} << 63, 8, bytes) == 0u);
  BOOST_TEST(*file->Size() == 3u);

  CHECK_OK(MakeDirectory(deep));
  CHECK_OK(MakeDirectory(deep));
  BOOST_TEST(absl::IsFailedPrecondition(MakeDirectory(a + "/below")));
  CHECK_OK(Put(deep + "/f", "deep"));
  BOOST_TEST(absl::IsFailedPrecondition(Read(root + "/x").status()));
  BOOST_TEST(absl::IsFailedPrecondition(Put(root + "/x", "no")));
  BOOST_TEST(absl::IsFailedPrecondition(Delete(root + "/x")), Delete(root + "/x"));
  BOOST_TEST(StrJoin(*List(root), " ") == "a x");
  BOOST_TEST(absl::IsFailedPrecondition(List(a).status()));
  CHECK_OK(SyncDirectory(root));

  // What is open goes on after a rename and a deletion.
  CHECK_OK(Rename(deep + "/f", a));
  BOOST_TEST(Text(a) == "deep");
  BOOST_TEST(*file->ReadAt(0, 8, bytes) == 3u);
  CHECK_OK(Delete(deep));
  CHECK_OK(Rename(root + "/x", root + "/moved"));
  BOOST_TEST(Stat(root + "/moved/y")->is_directory);
  CHECK_OK(Delete(a));
  BOOST_TEST(StrJoin(*List(root), " ") == "moved");

  CHECK_OK(Write(a, "whole"));
  CHECK_OK(Write(a, "again"));
  BOOST_TEST(Text(a) == "again");
  BOOST_TEST(StrJoin(*List(root), " ") == "a moved");
  BOOST_TEST(absl::IsNotFound(Write(root + "/none/f", "x")));
}

BOOST_AUTO_TEST_CASE(every_file_system_keeps_the_contract) {
  const Folder folder;
  CheckContract(folder.path());
  const Folder other;
  CheckContract("file://" + other.path());
  CHECK_OK(MakeDirectory("mem://contract"));
  CheckContract("mem://contract");
  CHECK_OK(RegisterFileSystem("contract+1", std::make_shared<FaultyFiles>()));
  CHECK_OK(MakeDirectory("contract+1://r"));
  CheckContract("contract+1://r");
}

BOOST_AUTO_TEST_CASE(a_scheme_chooses_the_file_system) {
  BOOST_TEST(absl::IsUnimplemented(Read("s3://bucket/x").status()));
  BOOST_TEST(Read("s3://bucket/x").status().ToString().find("'s3'") != std::string::npos);
  BOOST_TEST(absl::IsAlreadyExists(RegisterFileSystem("mem", NewMemoryFileSystem())));
  for (const char* bad : {"", "1a", "a/b", "a:b", "ä"}) {
    BOOST_TEST(absl::IsInvalidArgument(RegisterFileSystem(bad, NewMemoryFileSystem())), bad);
  }
  BOOST_TEST(absl::IsInvalidArgument(RegisterFileSystem("none", nullptr)));
  CHECK_OK(RegisterFileSystem("own", NewMemoryFileSystem()));
  CHECK_OK(Write("own://f", "here"));
  BOOST_TEST(Text("own://f") == "here");
  BOOST_TEST(!Exists("mem://f"));
  BOOST_TEST(absl::IsInvalidArgument(Rename("own://f", "mem://f")));
}

BOOST_AUTO_TEST_CASE(paths_are_taken_apart_and_joined) {
  const std::vector<std::array<const char*, 3>> paths = {{"mem://a/b/c", "mem://a/b", "c"},
                                                         {"mem://c", "mem://", "c"},
                                                         {"c", ".", "c"},
                                                         {"/c", "/", "c"},
                                                         {"/a/c", "/a", "c"},
                                                         {"a/", "a", ""},
                                                         {"file:///c", "file:///", "c"}};
  for (const auto& [path, folder, name] : paths) {
    BOOST_TEST(DirectoryOf(path) == folder, path << " is in " << DirectoryOf(path));
    BOOST_TEST(NameOf(path) == name, path);
  }
  BOOST_TEST(Join("a", "b") == "a/b");
  BOOST_TEST(Join("a/", "b") == "a/b");
  BOOST_TEST(Join("", "b") == "b");
  BOOST_TEST(Join("a", "/b") == "/b");
  BOOST_TEST(Join("a", "mem://b") == "mem://b");
}

BOOST_AUTO_TEST_CASE(patterns_match_names) {
  const std::string root = "mem://patterns";
  CHECK_OK(MakeDirectory(root + "/d1"));
  CHECK_OK(MakeDirectory(root + "/d2"));
  for (const char* name : {"a1", "a2", "b1", "b[", ".hidden", "d1/x", "d2/x", "d2/y"})
    CHECK_OK(Write(root + "/" + name, ""));
  const std::map<std::string, std::string> cases = {
      {"a*", "a1 a2"},     {"*1", "a1 b1 d1"}, {"?1", "a1 b1 d1"},    {"[ab]1", "a1 b1"},
      {"[a-c]1", "a1 b1"}, {"[!a]1", "b1 d1"}, {"d*/x", "d1/x d2/x"}, {"*/y", "d2/y"},
      {"a1", "a1"},        {"none", ""},       {"a1/*", ""},          {"none/*", ""},
      {".*", ".hidden"},   {"b\\[", "b["},     {"*a*1*", "a1"},       {"**", "a1 a2 b1 b[ d1 d2"}};
  for (const auto& [pattern, want] : cases) {
    const auto found = Match(root + "/" + pattern);
    BOOST_REQUIRE_MESSAGE(found.ok(), pattern << ": " << found.status());
    std::string names;
    for (const std::string& path : *found) names += (names.empty() ? "" : " ") + path.substr(root.size() + 1);
    BOOST_TEST(names == want, pattern << " gave " << names);
  }
}

BOOST_AUTO_TEST_CASE(errors_of_the_disk_have_path_reason_and_code) {
  const auto full = OpenToWrite("/dev/full");
  BOOST_REQUIRE(full.ok());
  const absl::Status s = (*full)->Append("x");
  BOOST_TEST(absl::IsResourceExhausted(s), s);
  BOOST_TEST(s.ToString().find("/dev/full: writing: No space left on device") != std::string::npos, s);
  const absl::Status loop = Stat(std::string(5000, 'x')).status();
  BOOST_TEST(absl::IsInvalidArgument(loop), loop);
  const absl::Status below = Read("/dev/null/x").status();
  BOOST_TEST(absl::IsFailedPrecondition(below), below);
}

BOOST_AUTO_TEST_CASE(a_crash_takes_what_was_not_synced) {
  const auto disk = std::make_shared<FaultyFiles>();
  CHECK_OK(RegisterFileSystem("crash", disk));
  for (const auto names : {FaultyFiles::Names::kLost, FaultyFiles::Names::kKept}) {
    const bool kept = names == FaultyFiles::Names::kKept;
    CHECK_OK(MakeDirectory("crash://d"));
    CHECK_OK(Write("crash://d/safe", "old"));
    const auto half = *OpenToWrite("crash://d/half");
    CHECK_OK(half->Append("12"));
    CHECK_OK(half->Sync());
    CHECK_OK(half->Append("34"));
    CHECK_OK(Put("crash://d/unsynced", "bytes"));
    CHECK_OK(Delete("crash://d/safe"));
    disk->Crash(names);
    BOOST_TEST(Exists("crash://d/safe") == !kept);
    BOOST_TEST(Exists("crash://d/half") == kept);
    BOOST_TEST(Exists("crash://d/unsynced") == kept);
    if (kept) {
      BOOST_TEST(Text("crash://d/half") == "12");
      BOOST_TEST(Text("crash://d/unsynced") == "");
    }
    BOOST_TEST(absl::IsDataLoss(half->Append("5")));
  }
}

BOOST_AUTO_TEST_CASE(faults_come_when_they_are_asked_for) {
  const auto disk = std::make_shared<FaultyFiles>();
  CHECK_OK(RegisterFileSystem("faults", disk));
  const auto file = *OpenToWrite("faults://f");
  disk->FailAt(2, FaultyFiles::Fault::kError);
  CHECK_OK(file->Append("1"));
  BOOST_TEST(absl::IsResourceExhausted(file->Append("2")));
  CHECK_OK(file->Append("3"));
  BOOST_TEST(Text("faults://f") == "13");
  disk->FailAt(1, FaultyFiles::Fault::kShortWrite);
  BOOST_TEST(!file->Append("4567").ok());
  BOOST_TEST(Text("faults://f") == "1345");
  disk->LimitBytes(3);
  BOOST_TEST(absl::IsResourceExhausted(file->Append("6789")));
  BOOST_TEST(Text("faults://f") == "1345678");
  disk->LimitBytes(-1);
  const int64_t before = disk->operations();
  disk->FailAt(1, FaultyFiles::Fault::kDie);
  BOOST_TEST(!file->Sync().ok());
  BOOST_TEST(!Delete("faults://f").ok());
  BOOST_TEST(disk->operations() == before + 2);
  disk->Crash(FaultyFiles::Names::kKept);
  CHECK_OK(Delete("faults://f"));
}

// A replaced file is the old one or the new one, wherever the machine stops.
BOOST_AUTO_TEST_CASE(write_replaces_a_file_in_one_step) {
  const auto disk = std::make_shared<FaultyFiles>();
  CHECK_OK(RegisterFileSystem("replace", disk));
  int faults = 0, old_ones = 0, new_ones = 0;
  for (const auto fault : {FaultyFiles::Fault::kError, FaultyFiles::Fault::kShortWrite, FaultyFiles::Fault::kDie}) {
    for (const auto names : {FaultyFiles::Names::kLost, FaultyFiles::Names::kKept}) {
      for (int n = 1;; ++n) {
        CHECK_OK(Write("replace://f", "old"));
        disk->FailAt(n, fault);
        const absl::Status s = Write("replace://f", "new and longer");
        if (fault == FaultyFiles::Fault::kError && !s.ok() && s.code() == absl::StatusCode::kResourceExhausted) {
          BOOST_TEST((Text("replace://f") == "old" || n == 5), n << Text("replace://f"));
        }
        disk->Crash(names);
        const std::string text = Text("replace://f");
        BOOST_TEST((text == "old" || text == "new and longer"), n << ": " << text);
        ++(text == "old" ? old_ones : new_ones);
        if (s.ok()) {
          BOOST_TEST(text == "new and longer");
          break;
        }
        ++faults;
      }
    }
  }
  BOOST_TEST(faults >= 30);
  BOOST_TEST(old_ones > 10);
  BOOST_TEST(new_ones > 5);
}

}  // namespace files_test
}  // namespace troupe::files
