// Checkpoints: what is written is read, TensorFlow's are read, damaged ones are refused, and a
// checkpoint that is replaced is the old one or the new one.
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <limits>
#include <thread>

#include "graph/checkpoint/bundle.h"
#include "graph/checkpoint/first_format.h"
#include "graph/checkpoint/slice_key.h"
#include "tests/common/check_ok.h"
#include "tests/files/damage.h"
#include "troupe/checkpoint.h"
#include "troupe/faulty_files.h"
#include "troupe/files.h"

namespace troupe {
namespace bundle_test {

const std::string kRecorded = TROUPE_SOURCE_DIR "/tests/checkpoint/recorded/";

// As record.py makes them: i * 0.5 - 1, or i.
Tensor Ramp(DType dtype, const TensorShape& shape) {
  Tensor t(dtype, shape);
  VisitNumeric(dtype, 0, [&]<class T>() {
    T* const to = t.data<T>();
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      if constexpr (std::is_same_v<T, bool>) {
        to[i] = i % 2 == 0;
      } else if constexpr (std::is_integral_v<T>) {
        to[i] = static_cast<T>(i);
      } else {
        to[i] = T(static_cast<float>(i) * 0.5f - 1);
      }
    }
    return 0;
  });
  return t;
}

Tensor Strings() {
  return Tensor::Vector<std::string>({"", "a", "words with spaces", std::string(300, 'x'), std::string("\0\xff", 2)});
}

bool Same(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.dtype() == DType::kString) return a.flat<std::string>() == b.flat<std::string>();
  return a.num_elements() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

void CheckReads(const CheckpointReader& reader, const std::string& name, const Tensor& want) {
  const auto got = reader.Read(name);
  BOOST_REQUIRE_MESSAGE(got.ok(), name << ": " << got.status());
  BOOST_CHECK_MESSAGE(Same(*got, want), name << ": " << got->DebugString() << ", not " << want.DebugString());
}

Tensor Box(const Tensor& of, const TensorSlice& slice) {
  // By plain loops: of a matrix.
  const TensorSlice box = *slice.Within(of.shape());
  Tensor out(of.dtype(), box.shape());
  const size_t size = SizeOf(of.dtype());
  for (int64_t i = 0; i < box.extent(0).length; ++i) {
    for (int64_t j = 0; j < box.extent(1).length; ++j) {
      std::memcpy(static_cast<char*>(out.raw()) + static_cast<size_t>(i * box.extent(1).length + j) * size,
                  static_cast<const char*>(of.raw()) +
                      static_cast<size_t>((i + box.extent(0).start) * of.dim(1) + j + box.extent(1).start) * size,
                  size);
    }
  }
  return out;
}

const std::vector<DType> kTypes = {DType::kFloat,  DType::kDouble,    DType::kInt32,     DType::kUint8,
                                   DType::kInt16,  DType::kInt8,      DType::kInt64,     DType::kBool,
                                   DType::kHalf,   DType::kBfloat16,  DType::kUint16,    DType::kUint32,
                                   DType::kUint64, DType::kComplex64, DType::kComplex128};

// What record.py put in; the first format has some types less.
void CheckRecorded(const std::string& prefix, int format) {
  const auto reader = CheckpointReader::Open(prefix);
  BOOST_REQUIRE_MESSAGE(reader.ok(), reader.status());
  BOOST_TEST((*reader)->format() == format);
  for (const DType t : kTypes) {
    if (format == 1 && (t == DType::kBfloat16 || t == DType::kUint16 || t == DType::kUint32 || t == DType::kUint64))
      continue;
    CheckReads(**reader, StrCat("types/", Name(t)), Ramp(t, {2, 3}));
  }
  CheckReads(**reader, "scalar", Ramp(DType::kFloat, {}));
  CheckReads(**reader, "empty", Ramp(DType::kFloat, {0, 3}));
  CheckReads(**reader, "strings", Strings());
  Tensor zeros(DType::kFloat, {700});
  std::memset(zeros.raw(), 0, zeros.bytes());
  CheckReads(**reader, "zeros", zeros);
  const Tensor whole = Ramp(DType::kFloat, {5, 4});
  for (const char* name : {"rows", "columns"}) {
    CheckReads(**reader, name, whole);
    BOOST_TEST((*reader)->Find(name)->slices.size() == 2u);
    for (const char* text : {"-:-", "0,2:-", "2,3:-", "1,3:1,2", "4,1:0,3", "0,5:3,1", "2,1:2,1", "1,0:-"}) {
      const TensorSlice slice = *TensorSlice::Parse(text);
      const auto got = (*reader)->ReadSlice(name, slice);
      BOOST_REQUIRE_MESSAGE(got.ok(), name << " " << text << ": " << got.status());
      BOOST_TEST(Same(*got, Box(whole, slice)), name << " " << text);
    }
    BOOST_TEST(absl::IsInvalidArgument((*reader)->ReadSlice(name, *TensorSlice::Parse("4,2:-")).status()));
    BOOST_TEST(absl::IsInvalidArgument((*reader)->ReadSlice(name, *TensorSlice::Parse("-")).status()));
  }
  // Of these only ten elements were saved.
  for (const auto& [name, slice] : {std::pair("far", "70000,10"), std::pair("farther", "8589934592,10")}) {
    const auto got = (*reader)->ReadSlice(name, *TensorSlice::Parse(slice));
    BOOST_REQUIRE_MESSAGE(got.ok(), name << ": " << got.status());
    BOOST_TEST(Same(*got, Ramp(DType::kUint8, {10})));
    const auto all = (*reader)->Read(name);
    BOOST_TEST(absl::IsDataLoss(all.status()), all.status());
  }
  const auto none = (*reader)->Read("types/float");
  BOOST_TEST(absl::IsNotFound(none.status()), none.status());
  BOOST_TEST(none.status().ToString().find("types/float") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(tensorflows_checkpoints_are_read) {
  CheckRecorded(kRecorded + "bundle", 2);
  CheckRecorded("file://" + kRecorded + "bundle", 2);
  CheckRecorded(kRecorded + "first_format.ckpt", 1);
  CheckRecorded(kRecorded + "first_format_snappy.ckpt", 1);
}

BOOST_AUTO_TEST_CASE(parts_of_several_files_are_one_checkpoint) {
  const Tensor whole = Ramp(DType::kFloat, {5, 4});
  const auto merged = CheckpointReader::Open(kRecorded + "merged");
  BOOST_REQUIRE_MESSAGE(merged.ok(), merged.status());
  CheckReads(**merged, "rows", whole);
  CheckReads(**merged, "first", Ramp(DType::kInt32, {3}));
  CheckReads(**merged, "last", Strings());
  for (const char* pattern : {"first_sharded-\?\?\?\?\?-of-00002", "first_sharded-*"}) {
    const auto first = CheckpointReader::Open(kRecorded + pattern);
    BOOST_REQUIRE_MESSAGE(first.ok(), first.status());
    CheckReads(**first, "rows", whole);
  }
  const auto half = CheckpointReader::Open(kRecorded + "first_sharded-00000-of-00002");
  BOOST_REQUIRE(half.ok());
  BOOST_TEST(absl::IsDataLoss((*half)->Read("rows").status()));
  CHECK_OK((*half)->ReadSlice("rows", *TensorSlice::Parse("0,2:-")).status());
}

absl::Status WriteAll(const std::string& prefix, float first = 0) {
  TROUPE_ASSIGN_OR_RETURN(const auto writer, CheckpointWriter::Create(prefix));
  for (const DType t : kTypes) TROUPE_RETURN_IF_ERROR(writer->Add(StrCat("types/", Name(t)), Ramp(t, {2, 3})));
  TROUPE_RETURN_IF_ERROR(writer->Add("scalar", Ramp(DType::kFloat, {})));
  TROUPE_RETURN_IF_ERROR(writer->Add("empty", Ramp(DType::kFloat, {0, 3})));
  TROUPE_RETURN_IF_ERROR(writer->Add("strings", Strings()));
  Tensor zeros(DType::kFloat, {700});
  std::memset(zeros.raw(), 0, zeros.bytes());
  TROUPE_RETURN_IF_ERROR(writer->Add("zeros", zeros));
  const Tensor whole = Ramp(DType::kFloat, {5, 4});
  for (const auto& [name, slice] : {std::pair("rows", "0,2:-"), std::pair("rows", "2,3:-"),
                                    std::pair("columns", "-:3,1"), std::pair("columns", "-:0,3")}) {
    const TensorSlice s = *TensorSlice::Parse(slice);
    TROUPE_RETURN_IF_ERROR(writer->AddSlice(name, whole.shape(), s, Box(whole, s)));
  }
  for (const auto& [name, dim, slice] :
       {std::tuple("far", int64_t{70010}, "70000,10"), std::tuple("farther", int64_t{8589934602}, "8589934592,10")}) {
    TROUPE_RETURN_IF_ERROR(
        writer->AddSlice(name, TensorShape({dim}), *TensorSlice::Parse(slice), Ramp(DType::kUint8, {10})));
  }
  TROUPE_RETURN_IF_ERROR(writer->Add("first", Tensor::Scalar(first)));
  return writer->Finish();
}

BOOST_AUTO_TEST_CASE(what_is_written_is_read) {
  CHECK_OK(WriteAll("mem://new/folder/model"));
  CheckRecorded("mem://new/folder/model", 2);
  BOOST_TEST(StrJoin(*files::List("mem://new/folder"), " ") == "model.data-00000-of-00001 model.index");
  // TensorFlow's index of the same tensors has the same keys and values.
  const BundleIndex ours = *BundleIndex::Read("mem://new/folder/model"),
                    theirs = *BundleIndex::Read(kRecorded + "bundle");
  for (const auto& [key, entry] : theirs.entries) {
    const auto it = ours.entries.find(key);
    BOOST_REQUIRE_MESSAGE(it != ours.entries.end(), CEscape(key));
    BOOST_TEST((it->second.dtype == entry.dtype && it->second.shape == entry.shape && it->second.size == entry.size &&
                it->second.crc == entry.crc && it->second.slices.size() == entry.slices.size()),
               CEscape(key));
  }
  BOOST_TEST(ours.entries.size() == theirs.entries.size() + 1);
}

BOOST_AUTO_TEST_CASE(keys_of_slices_have_the_order_of_numbers) {
  const std::vector<int64_t> numbers = {0,
                                        1,
                                        63,
                                        64,
                                        8191,
                                        8192,
                                        1 << 20,
                                        (1 << 20) - 1,
                                        int64_t{1} << 34,
                                        int64_t{1} << 41,
                                        int64_t{1} << 48,
                                        int64_t{1} << 55,
                                        int64_t{1} << 62,
                                        std::numeric_limits<int64_t>::max()};
  for (const int64_t a : numbers) {
    for (const int64_t b : numbers) {
      const std::string ka = SliceKey("t", TensorSlice({{a, 1}})), kb = SliceKey("t", TensorSlice({{b, 1}}));
      BOOST_TEST((ka < kb) == (a < b), a << " " << b);
    }
  }
  BOOST_TEST((SliceKey("a", TensorSlice({{9, 9}})) < SliceKey(std::string("a\0b", 3), TensorSlice({{0, 1}}))));
}

BOOST_AUTO_TEST_CASE(a_writer_refuses_what_cannot_be_read) {
  const auto writer = *CheckpointWriter::Create("mem://refused");
  const Tensor t = Ramp(DType::kFloat, {2, 3});
  CHECK_OK(writer->Add("t", t));
  BOOST_TEST(absl::IsAlreadyExists(writer->Add("t", t)));
  BOOST_TEST(absl::IsInvalidArgument(writer->Add("", t)));
  BOOST_TEST(absl::IsInvalidArgument(writer->Add(std::string("\0t", 2), t)));
  BOOST_TEST(absl::IsInvalidArgument(writer->Add("none", Tensor())));
  BOOST_TEST(absl::IsUnimplemented(writer->Add("handle", Tensor(DType::kResource, {}))));
  BOOST_TEST(absl::IsAlreadyExists(writer->AddSlice("t", {4, 3}, *TensorSlice::Parse("0,2:-"), t)));
  BOOST_TEST(absl::IsInvalidArgument(writer->AddSlice("s", {4, 3}, *TensorSlice::Parse("3,2:-"), t)));
  BOOST_TEST(absl::IsInvalidArgument(writer->AddSlice("s", {4, 3}, *TensorSlice::Parse("0,1:-"), t)));
  CHECK_OK(writer->AddSlice("s", {4, 3}, *TensorSlice::Parse("0,2:-"), t));
  BOOST_TEST(absl::IsInvalidArgument(writer->AddSlice("s", {5, 3}, *TensorSlice::Parse("2,2:-"), t)));
  CHECK_OK(writer->Finish());
  BOOST_TEST(absl::IsFailedPrecondition(writer->Finish()));
  BOOST_TEST(absl::IsFailedPrecondition(writer->Add("late", t)));
  BOOST_TEST(absl::IsInvalidArgument(CheckpointWriter::Create("mem://x/").status()));
  // Given up, a writer leaves nothing.
  { CHECK_OK((*CheckpointWriter::Create("mem://given_up/model"))->Add("t", t)); }
  BOOST_TEST(files::List("mem://given_up")->empty());
  for (const char* bad : {"1", "1,", ",1", "-1,2", "1,2:", "a,b", "1,2,3", "9223372036854775807,1"}) {
    BOOST_TEST(absl::IsInvalidArgument(TensorSlice::Parse(bad).status()), bad);
  }
  for (const char* bad : {"4 2", "4 -:-", "-4 2 -:-", "4 2 0,5:-", "x -"}) {
    BOOST_TEST(absl::IsInvalidArgument(ShapeAndSlice::Parse(bad).status()), bad);
  }
  BOOST_TEST(ShapeAndSlice::Parse("4 2 0,2:-")->ToString() == "4 2 0,2:-");
}

BOOST_AUTO_TEST_CASE(parts_are_merged) {
  const Tensor whole = Ramp(DType::kFloat, {5, 4});
  const auto part = [&](const std::string& prefix, const char* slice, const char* name) {
    const auto writer = *CheckpointWriter::Create(prefix);
    const TensorSlice s = *TensorSlice::Parse(slice);
    CHECK_OK(writer->AddSlice("rows", whole.shape(), s, Box(whole, s)));
    if (name != nullptr) CHECK_OK(writer->Add(name, Strings()));
    CHECK_OK(writer->Finish());
  };
  for (int again = 0; again < 3; ++again) {
    part("mem://merge/tmp/part-0", "0,2:-", "a");
    part("mem://merge/tmp/part-1", "2,3:-", nullptr);
    CHECK_OK(MergeCheckpoints({"mem://merge/tmp/part-0", "mem://merge/tmp/part-1"}, "mem://merge/all"));
    const auto reader = CheckpointReader::Open("mem://merge/all");
    BOOST_REQUIRE_MESSAGE(reader.ok(), reader.status());
    CheckReads(**reader, "rows", whole);
    CheckReads(**reader, "a", Strings());
    BOOST_TEST(files::List("mem://merge")->size() == 3u, StrJoin(*files::List("mem://merge"), " "));
  }
  part("mem://merge/p", "0,2:-", "a");
  part("mem://merge/q", "2,3:-", "a");
  BOOST_TEST(absl::IsInvalidArgument(MergeCheckpoints({"mem://merge/p", "mem://merge/q"}, "mem://merge/twice")));
  BOOST_TEST(absl::IsNotFound(MergeCheckpoints({"mem://merge/p", "mem://merge/none"}, "mem://merge/some")));
  CHECK_OK(MergeCheckpoints({"mem://merge/p", "mem://merge/none"}, "mem://merge/some", {.allow_missing = true}));
  BOOST_TEST(absl::IsNotFound(MergeCheckpoints({"mem://merge/none"}, "mem://merge/some", {.allow_missing = true})));
  BOOST_TEST(absl::IsInvalidArgument(MergeCheckpoints({}, "mem://merge/some")));
  BOOST_TEST(CheckpointExists("mem://merge/some"));
  CHECK_OK(DeleteCheckpoint("mem://merge/some"));
  CHECK_OK(DeleteCheckpoint("mem://merge/some"));
  BOOST_TEST(!CheckpointExists("mem://merge/some"));
}

// Reads all that a checkpoint says it has.
absl::Status ReadAll(const std::string& prefix) {
  TROUPE_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(prefix));
  for (const auto& entry : reader->entries()) {
    if (entry.name == "far" || entry.name == "farther") continue;
    TROUPE_RETURN_IF_ERROR(reader->Read(entry.name).status());
  }
  return absl::OkStatus();
}

bool IsBadBytes(const absl::Status& s) {
  return absl::IsDataLoss(s) || absl::IsNotFound(s) || absl::IsUnimplemented(s) || absl::IsInvalidArgument(s);
}

BOOST_AUTO_TEST_CASE(damaged_checkpoints_are_refused) {
  const std::string index = *files::Read(kRecorded + "bundle.index"),
                    data = *files::Read(kRecorded + "bundle.data-00000-of-00001"),
                    first = *files::Read(kRecorded + "first_format_snappy.ckpt");
  CHECK_OK(files::MakeDirectory("mem://damaged"));
  CHECK_OK(files::Write("mem://damaged/m.index", index));
  int refused = 0, read = 0;
  const auto check = [&](const std::string& prefix) {
    const absl::Status s = ReadAll(prefix);
    ++(s.ok() ? read : refused);
    if (s.ok()) return;
    BOOST_TEST(IsBadBytes(s), s);
    BOOST_TEST(s.ToString().find("mem://damaged/") != std::string::npos, s);
  };
  testing::ForDamaged(data, 3000, [&](const std::string& bytes) {
    CHECK_OK(files::Write("mem://damaged/m.data-00000-of-00001", bytes));
    check("mem://damaged/m");
  });
  CHECK_OK(files::Write("mem://damaged/m.data-00000-of-00001", data));
  testing::ForDamaged(index, 3000, [&](const std::string& bytes) {
    CHECK_OK(files::Write("mem://damaged/m.index", bytes));
    check("mem://damaged/m");
  });
  testing::ForDamaged(first, 3000, [&](const std::string& bytes) {
    CHECK_OK(files::Write("mem://damaged/first", bytes));
    check("mem://damaged/first");
  });
  BOOST_TEST(refused > 8000);
  BOOST_TEST(read < 900);  // bytes behind the last tensor, and between blocks, belong to nothing
}

// Entries that are whole, with right checksums, and lie.
BOOST_AUTO_TEST_CASE(an_index_that_lies_is_refused) {
  CHECK_OK(WriteAll("mem://lies/m"));
  const BundleIndex good = *BundleIndex::Read("mem://lies/m");
  const auto check = [&](const char* what, auto change) {
    BundleIndex index = good;
    change(index);
    CHECK_OK(index.Write("mem://lies/m.index"));
    const absl::Status s = ReadAll("mem://lies/m");
    BOOST_TEST(IsBadBytes(s), what << ": " << s);
  };
  const std::string name = "types/float32";
  check("beyond the end", [&](BundleIndex& i) { i.entries[name].offset = uint64_t{1} << 40; });
  check("longer than the shape", [&](BundleIndex& i) { i.entries[name].size += 4; });
  check("a huge shape", [&](BundleIndex& i) {
    i.entries[name].shape = TensorShape({int64_t{1} << 31, int64_t{1} << 31});
  });
  check("another type", [&](BundleIndex& i) { i.entries[name].dtype = DType::kString; });
  check("a resource", [&](BundleIndex& i) { i.entries[name].dtype = DType::kResource; });
  check("more strings than bytes",
        [&](BundleIndex& i) { i.entries["strings"].shape = TensorShape({int64_t{1} << 40}); });
  check("a file that is not there", [&](BundleIndex& i) {
    i.shards = 7;
    i.entries[name].shard = 6;
  });
  check("slices that overlap",
        [&](BundleIndex& i) { i.entries["rows"].slices.push_back(i.entries["rows"].slices[0]); });
  check("slices that leave a hole", [&](BundleIndex& i) { i.entries["rows"].slices.pop_back(); });
  check("a slice of slices", [&](BundleIndex& i) {
    i.entries[SliceKey("rows", *TensorSlice::Parse("0,2:-"))].slices = {*TensorSlice::Parse("-:-")};
  });
  check("slices that share bytes", [&](BundleIndex& i) {
    BundleEntry& e = i.entries["shared"];
    e.dtype = DType::kUint8;
    e.shape = TensorShape({1 << 20});
    for (int k = 0; k < 1 << 10; ++k) {
      const TensorSlice s({{k << 10, 1 << 10}});
      e.slices.push_back(s);
      BundleEntry& part = i.entries[SliceKey("shared", s)];
      part.dtype = DType::kUint8;
      part.shape = TensorShape({1 << 10});
      part.size = 1 << 10;
    }
  });
}

// A checkpoint that is saved again under its name, stopped at every file operation in every way:
// it is the old one or the new one, all of it.
BOOST_AUTO_TEST_CASE(a_checkpoint_is_replaced_in_one_step) {
  using files::FaultyFiles;
  const auto disk = std::make_shared<FaultyFiles>();
  CHECK_OK(files::RegisterFileSystem("ckpt", disk));
  int faults = 0, old_ones = 0, new_ones = 0;
  const auto merge = [](float first) -> absl::Status {
    TROUPE_RETURN_IF_ERROR(WriteAll("ckpt://d/tmp/part", first));
    return MergeCheckpoints({"ckpt://d/tmp/part"}, "ckpt://d/m");
  };
  const auto save = [](float first) { return WriteAll("ckpt://d/m", first); };
  for (const bool merged : {false, true}) {
    for (const auto fault : {FaultyFiles::Fault::kError, FaultyFiles::Fault::kShortWrite, FaultyFiles::Fault::kDie}) {
      for (const auto names : {FaultyFiles::Names::kLost, FaultyFiles::Names::kKept}) {
        for (int n = 1;; ++n) {
          CHECK_OK(save(1));
          disk->FailAt(n, fault);
          const absl::Status s = merged ? merge(2) : save(2);
          if (fault != FaultyFiles::Fault::kDie) {
            disk->FailAt(0, fault);
            CHECK_OK(ReadAll("ckpt://d/m"));  // before any crash, too
          }
          disk->Crash(names);
          CHECK_OK(ReadAll("ckpt://d/m"));
          const auto reader = CheckpointReader::Open("ckpt://d/m");
          BOOST_REQUIRE_MESSAGE(reader.ok(), "stopped at " << n << ": " << reader.status());
          const float first = (*reader)->Read("first")->scalar<float>();
          BOOST_TEST((first == 1 || first == 2));
          ++(first == 1 ? old_ones : new_ones);
          if (s.ok() && fault != FaultyFiles::Fault::kShortWrite) BOOST_TEST(first == 2);
          if (s.ok() && n > 60) break;
          faults += s.ok() ? 0 : 1;
        }
      }
    }
  }
  BOOST_TEST(faults > 150);
  BOOST_TEST(old_ones > 100);
  BOOST_TEST(new_ones > 12);
}

BOOST_AUTO_TEST_CASE(a_full_disk_leaves_the_old_checkpoint) {
  using files::FaultyFiles;
  const auto disk = std::make_shared<FaultyFiles>();
  CHECK_OK(files::RegisterFileSystem("full", disk));
  CHECK_OK(WriteAll("full://d/m", 1));
  for (int64_t room = 0; room < 6000; room += 157) {
    disk->LimitBytes(room);
    const absl::Status s = WriteAll("full://d/m", 2);
    disk->LimitBytes(-1);
    if (s.ok()) break;
    BOOST_TEST(absl::IsResourceExhausted(s), s);
    BOOST_TEST(s.ToString().find("No space left on device") != std::string::npos, s);
    CHECK_OK(ReadAll("full://d/m"));
    BOOST_TEST(files::List("full://d")->size() == 2u, StrJoin(*files::List("full://d"), " "));
  }
}

BOOST_AUTO_TEST_CASE(the_nearest_names_are_told) {
  const auto reader = *CheckpointReader::Open(kRecorded + "bundle");
  BOOST_TEST(reader->NamesLike("types/float3").front() == "types/float32");
  BOOST_TEST(reader->NamesLike("model/strings").front() == "strings");
  BOOST_TEST(reader->NamesLike("float32").front() == "types/float32");
  BOOST_TEST(reader->NamesLike("zzzzzzzzzzzzzzzzzzzz").empty());
}

BOOST_AUTO_TEST_CASE(a_reader_serves_many_threads) {
  const auto reader = *CheckpointReader::Open(kRecorded + "merged");
  const Tensor whole = Ramp(DType::kFloat, {5, 4});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const auto rows = reader->Read("rows");
        if (!rows.ok() || !Same(*rows, whole)) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  BOOST_TEST(wrong == 0);
}

}  // namespace bundle_test
}  // namespace troupe
