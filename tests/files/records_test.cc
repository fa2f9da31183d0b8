// Record files, event files, tables, and what they are made of: round trips, TensorFlow's own, and
// damaged ones.
#include "troupe/records.h"

#include <boost/test/unit_test.hpp>
#include <random>

#include "graph/files/coding.h"
#include "graph/files/crc32c.h"
#include "graph/files/event_file.h"
#include "graph/files/snappy.h"
#include "graph/files/table.h"
#include "tests/common/check_ok.h"
#include "tests/files/damage.h"
#include "troupe/proto/event.pb.h"

namespace troupe::files {
namespace records_test {

const std::string kRecorded = TROUPE_SOURCE_DIR "/tests/checkpoint/recorded/";
const std::vector<std::pair<Compression, std::string>> kForms = {
    {Compression::kNone, ""}, {Compression::kZlib, "zlib"}, {Compression::kGzip, "gzip"}};

absl::StatusOr<std::vector<std::string>> All(const std::string& path, Compression form) {
  TROUPE_ASSIGN_OR_RETURN(const auto reader, RecordReader::Open(path, form));
  std::vector<std::string> all;
  for (;;) {
    std::string_view record;
    TROUPE_ASSIGN_OR_RETURN(const bool more, reader->Next(&record));
    if (!more) return all;
    all.emplace_back(record);
  }
}

std::string Bytes(size_t n, unsigned seed) {
  std::mt19937 draw(seed);
  std::string bytes(n, '\0');
  for (char& c : bytes) c = static_cast<char>(draw());
  return bytes;
}

BOOST_AUTO_TEST_CASE(checksums_are_castagnolis) {
  BOOST_TEST(Crc32c("") == 0u);
  BOOST_TEST(Crc32c("123456789") == 0xe3069283u);
  BOOST_TEST(Crc32c(std::string(32, '\0')) == 0x8a9136aau);  // RFC 3720, B.4
  BOOST_TEST(Crc32c(std::string(32, '\xff')) == 0x62a8ab43u);
  for (size_t n : {1u, 7u, 8u, 9u, 63u, 1000u}) {
    const std::string bytes = Bytes(n, 1);
    BOOST_TEST(Crc32c(bytes) == PortableCrc32c(bytes), n);
    BOOST_TEST(Crc32c(bytes.substr(n / 3), Crc32c(bytes.substr(0, n / 3))) == Crc32c(bytes), n);
  }
  BOOST_TEST(UnmaskCrc(MaskCrc(0x12345678u)) == 0x12345678u);
  BOOST_TEST(MaskCrc(0) == 0xa282ead8u);
}

BOOST_AUTO_TEST_CASE(records_come_back_in_every_form) {
  std::vector<std::string> records = {"", "a", Bytes(100, 1), Bytes(70'000, 2), Bytes(600'000, 3), "last"};
  for (const auto& [form, name] : kForms) {
    const std::string path = "mem://records" + name;
    const auto writer = *RecordWriter::Create(path, form);
    uint64_t plain = 0;
    for (const std::string& r : records) {
      CHECK_OK(writer->Write(r));
      if (r.size() == 100) CHECK_OK(writer->Flush());
      plain += r.size() + 16;
    }
    CHECK_OK(writer->Sync());
    CHECK_OK(writer->Close());
    CHECK_OK(writer->Close());
    BOOST_TEST(absl::IsFailedPrecondition(writer->Write("late")));
    const auto read = All(path, form);
    BOOST_REQUIRE_MESSAGE(read.ok(), name << read.status());
    BOOST_TEST((*read == records), name);
    if (form == Compression::kNone) BOOST_TEST(Stat(path)->size == plain);
  }
  BOOST_TEST((*CompressionNamed("GZIP") == Compression::kGzip));
  BOOST_TEST(absl::IsInvalidArgument(CompressionNamed("gzip").status()));
  BOOST_TEST(absl::IsInvalidArgument(RecordWriter::Create("mem://x", Compression::kZlib, WriteMode::kAppend).status()));
}

BOOST_AUTO_TEST_CASE(what_was_flushed_can_be_read_and_appended_to) {
  for (const auto& [form, name] : kForms) {
    const std::string path = "mem://appended" + name;
    const auto writer = *RecordWriter::Create(path, form);
    CHECK_OK(writer->Write("one"));
    CHECK_OK(writer->Flush());
    const auto reader = *RecordReader::Open(path, form);
    std::string_view record;
    const auto more = reader->Next(&record);
    BOOST_REQUIRE_MESSAGE(more.ok(), name << more.status());
    BOOST_TEST(record == "one");
    CHECK_OK(writer->Close());
    if (form == Compression::kZlib) continue;
    CHECK_OK((*RecordWriter::Create(path, form, WriteMode::kAppend))->Write("two"));
    BOOST_TEST(StrJoin(*All(path, form), " ") == "one two", name);
  }
}

BOOST_AUTO_TEST_CASE(tensorflows_records_and_events_are_read) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  const std::vector<std::string> want = {"", "one", std::string(5000, 'x'), bytes};
  for (const auto& [form, name] : kForms) {
    const auto read = All(kRecorded + "records" + name, form);
    BOOST_REQUIRE_MESSAGE(read.ok(), name << read.status());
    BOOST_TEST((*read == want), name);
  }
  const auto events = EventFileReader::Open(kRecorded + "tfevents");
  BOOST_REQUIRE_MESSAGE(events.ok(), events.status());
  proto::Event event;
  for (int step = 0; step < 3; ++step) {
    const auto more = (*events)->Next(&event);
    BOOST_REQUIRE_MESSAGE(more.ok() && *more, more.status());
    BOOST_TEST(event.step() == step);
    BOOST_TEST(event.summary().value(0).tag() == "loss");
    BOOST_TEST(event.summary().value(0).simple_value() == 1.0f / static_cast<float>(step + 1));
  }
  BOOST_TEST(!*(*events)->Next(&event));
}

BOOST_AUTO_TEST_CASE(an_event_file_begins_with_its_version) {
  CHECK_OK(MakeDirectory("mem://events"));
  const auto writer = *EventFileWriter::Create("mem://events/run", ".v2");
  const std::string name = NameOf(writer->path());
  BOOST_TEST(name.starts_with("run.out.tfevents."), name);
  BOOST_TEST(name.ends_with(".v2"), name);
  std::string_view record;
  const auto records = *RecordReader::Open(writer->path());
  BOOST_TEST(*records->Next(&record));
  proto::Event version;
  BOOST_TEST(version.ParseFromArray(record.data(), static_cast<int>(record.size())));
  BOOST_TEST(version.file_version() == "brain.Event:2");
  BOOST_TEST(version.wall_time() > 1.6e9);
  proto::Event event;
  event.set_step(7);
  CHECK_OK(writer->Write(event));
  CHECK_OK(writer->Close());
  const auto reader = *EventFileReader::Open(writer->path());
  BOOST_TEST(*reader->Next(&event));
  BOOST_TEST(event.step() == 7);
  BOOST_TEST(event.wall_time() > 1.6e9);
  BOOST_TEST(absl::IsDataLoss(EventFileReader::Open(kRecorded + "records").status()));
}

BOOST_AUTO_TEST_CASE(damaged_records_are_data_loss_with_their_place) {
  for (const auto& [form, name] : kForms) {
    const std::string good = *Read(kRecorded + "records" + name);
    const auto whole = All(kRecorded + "records" + name, form);
    int refused = 0;
    testing::ForDamaged(good, 3000, [&](const std::string& bytes) {
      CHECK_OK(Write("mem://damaged", bytes));
      const auto read = All("mem://damaged", form);
      if (!read.ok()) {
        ++refused;
        BOOST_TEST(absl::IsDataLoss(read.status()), read.status());
        BOOST_TEST(read.status().ToString().find("mem://damaged") != std::string::npos);
      } else if (form == Compression::kNone) {
        // What is read is a beginning of what was written: the file was cut between two records.
        BOOST_TEST(read->size() <= whole->size());
        for (size_t i = 0; i < std::min(read->size(), whole->size()); ++i) BOOST_TEST((*read)[i] == (*whole)[i]);
      }
    });
    BOOST_TEST(refused > 2000);
  }
  // A length that is checked and still a lie takes no memory.
  std::string huge;
  PutLittle(uint64_t{1} << 60, &huge);
  PutLittle(MaskCrc(Crc32c(huge)), &huge);
  CHECK_OK(Write("mem://huge", huge + "few bytes"));
  const auto read = All("mem://huge", Compression::kNone);
  BOOST_TEST(absl::IsDataLoss(read.status()), read.status());
}

BOOST_AUTO_TEST_CASE(snappy_blocks_are_read_and_checked) {
  const std::string plain = "abcdabcdabcdabcd";
  const std::string block = std::string(
      "\x10\x0c"
      "abcd"
      "\x2e\x04\x00",
      9);  // literal of 4; copy of 12 from 4 back
  BOOST_TEST(*Unsnappy(block) == plain.substr(0, 16), Unsnappy(block).status());
  BOOST_TEST(*Unsnappy(std::string("\0", 1)) == "");
  std::string with_long("\x80\x01\xf0\x7f", 4);  // literal of 128 whose length has a byte of its own
  BOOST_TEST(*Unsnappy(with_long + std::string(128, 'q')) == std::string(128, 'q'));
  const std::vector<std::string> bad = {"",
                                        "\x05",
                                        "\x05\x10"
                                        "abc",
                                        std::string("\x04\x0c"
                                                    "abc",
                                                    5),
                                        "\x04\x01\x01",
                                        "\x08\x0c"
                                        "abcd"
                                        "\x01\x05",
                                        std::string("\x08\x0c"
                                                    "abcd"
                                                    "\x01\x00",
                                                    8),
                                        "\xff\xff\xff\xff\x0f\x0c"
                                        "abcd",
                                        "\x02\x0c"
                                        "abcd"};
  for (const std::string& b : bad) BOOST_TEST(absl::IsDataLoss(Unsnappy(b).status()), CEscape(b));
  testing::ForDamaged(block, 5000, [](const std::string& bytes) { (void)Unsnappy(bytes); });
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> AllOf(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(const auto table, TableReader::Open(path));
  std::vector<std::pair<std::string, std::string>> all;
  TROUPE_RETURN_IF_ERROR(table->ForEach([&](std::string_view key, std::string_view value) {
    all.emplace_back(key, value);
    return absl::OkStatus();
  }));
  return all;
}

BOOST_AUTO_TEST_CASE(tables_give_back_keys_and_values) {
  for (const int n : {0, 1, 15, 16, 17, 5000}) {
    std::vector<std::pair<std::string, std::string>> want;
    for (int i = 0; i < n; ++i) {
      std::string number = std::to_string(i);
      want.emplace_back(i == 0 ? "" : "layer/weights/" + std::string(6 - number.size(), '0') + number,
                        Bytes(i % 300, i));
    }
    {
      const auto file = *OpenToWrite("mem://table");
      TableWriter table(file.get());
      for (const auto& [key, value] : want) CHECK_OK(table.Add(key, value));
      if (n > 1) BOOST_TEST(absl::IsInvalidArgument(table.Add(want[1].first, "")));
      CHECK_OK(table.Finish());
    }
    const auto read = AllOf("mem://table");
    BOOST_REQUIRE_MESSAGE(read.ok(), read.status());
    BOOST_TEST((*read == want), n);
    const auto table = *TableReader::Open("mem://table");
    for (int i = 0; i < n; i += 97) {
      BOOST_TEST((table->Find(want[static_cast<size_t>(i)].first)->value() == want[static_cast<size_t>(i)].second));
    }
    BOOST_TEST(!table->Find("layer/weights/0").value().has_value());
    BOOST_TEST(!table->Find("zzz").value().has_value());
  }
}

BOOST_AUTO_TEST_CASE(compressed_blocks_hold_what_plain_ones_do) {
  const auto plain = AllOf(kRecorded + "first_format.ckpt"), compressed = AllOf(kRecorded + "first_format_snappy.ckpt");
  BOOST_REQUIRE_MESSAGE(plain.ok() && compressed.ok(), compressed.status());
  BOOST_TEST(plain->size() > 20u);
  BOOST_TEST((*plain == *compressed));
  BOOST_TEST(Stat(kRecorded + "first_format_snappy.ckpt")->size < Stat(kRecorded + "first_format.ckpt")->size);
}

BOOST_AUTO_TEST_CASE(damaged_tables_are_refused) {
  for (const char* name : {"bundle.index", "first_format.ckpt", "first_format_snappy.ckpt"}) {
    const std::string good = *Read(kRecorded + name);
    int refused = 0;
    testing::ForDamaged(good, 4000, [&](const std::string& bytes) {
      CHECK_OK(Write("mem://damaged_table", bytes));
      const auto read = AllOf("mem://damaged_table");
      refused += read.ok() ? 0 : 1;
      if (!read.ok()) BOOST_TEST(absl::IsDataLoss(read.status()), read.status());
    });
    BOOST_TEST(refused > 3000);
  }
}

}  // namespace records_test
}  // namespace troupe::files
