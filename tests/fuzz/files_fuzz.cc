// Any bytes as a file: an index of a checkpoint, a checkpoint of the first format, a record file,
// an event file, a Snappy block, an LMDB file. Each must be read, or refused with a status. The
// first byte says which file, and whether its checksums are put right before it is read.
#include <cstdio>
#include <cstdlib>

#include "graph/files/event_file.h"
#include "graph/files/snappy.h"
#include "kernels/io/cursor.h"
#include "tests/fuzz/checksums.h"
#include "troupe/checkpoint.h"
#include "troupe/files.h"
#include "troupe/proto/event.pb.h"
#include "troupe/records.h"

namespace troupe::fuzz {
namespace {

void Must(const absl::Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "%s\n", s.ToString().c_str());
  std::abort();
}

void ReadCheckpoint(const std::string& prefix) {
  const auto reader = CheckpointReader::Open(prefix);
  if (!reader.ok()) return;
  for (const auto& entry : (*reader)->entries()) (void)(*reader)->Read(entry.name);
}

void ReadRecords(files::Compression form) {
  const auto reader = files::RecordReader::Open("mem://records", form);
  Must(reader.status());
  std::string_view record;
  for (auto more = (*reader)->Next(&record); more.ok() && *more; more = (*reader)->Next(&record)) {
  }
}

void ReadBundle(std::string_view index) {
  Must(files::Write("mem://m.data-00000-of-00001", std::string(4096, '\0')));
  Must(files::Write("mem://m.index", index));
  ReadCheckpoint("mem://m");
}

void ReadFirstFormat(std::string_view table) {
  Must(files::Write("mem://first", table));
  ReadCheckpoint("mem://first");
}

void ReadEvents(std::string_view records) {
  Must(files::Write("mem://events", records));
  const auto reader = files::EventFileReader::Open("mem://events");
  if (!reader.ok()) return;
  proto::Event event;
  for (auto more = (*reader)->Next(&event); more.ok() && *more; more = (*reader)->Next(&event)) {
  }
}

void ReadLmdb(std::string_view bytes) {
  Must(files::Write("mem://lmdb", bytes));
  const auto cursor = io::OpenLmdb("mem://lmdb");
  if (!cursor.ok()) return;
  std::string_view value;
  for (auto more = (*cursor)->Next(&value); more.ok() && *more; more = (*cursor)->Next(&value)) {
  }
}

}  // namespace
}  // namespace troupe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace troupe;
  using namespace troupe::fuzz;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (const int form = data[0] % 11) {
    case 0:
      ReadBundle(bytes);
      break;
    case 1:
      ReadFirstFormat(bytes);
      break;
    case 2:
    case 3:
    case 4:
      Must(files::Write("mem://records", bytes));
      ReadRecords(static_cast<files::Compression>(form - 2));
      break;
    case 5:
      ReadEvents(bytes);
      break;
    case 6:
      ReadBundle(TableWithChecksums(std::string(bytes)));
      break;
    case 7:
      ReadFirstFormat(TableWithChecksums(std::string(bytes)));
      break;
    case 8:
      ReadEvents(RecordsWithChecksums(std::string(bytes)));
      break;
    case 9:
      ReadLmdb(bytes);
      break;
    default:
      (void)files::Unsnappy(bytes);
  }
  return 0;
}
