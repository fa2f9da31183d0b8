// Any bytes as a file: an index of a checkpoint, a checkpoint of the first format, a record file,
// an event file, a Snappy block. Each must be read, or refused with a status. The first byte says
// which file.
#include <cstdio>
#include <cstdlib>

#include "graph/files/event_file.h"
#include "graph/files/snappy.h"
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

}  // namespace
}  // namespace troupe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace troupe;
  using namespace troupe::fuzz;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 7) {
    case 0:
      Must(files::Write("mem://m.data-00000-of-00001", std::string(4096, '\0')));
      Must(files::Write("mem://m.index", bytes));
      ReadCheckpoint("mem://m");
      break;
    case 1:
      Must(files::Write("mem://first", bytes));
      ReadCheckpoint("mem://first");
      break;
    case 2:
    case 3:
    case 4:
      Must(files::Write("mem://records", bytes));
      ReadRecords(static_cast<files::Compression>(data[0] % 7 - 2));
      break;
    case 5: {
      Must(files::Write("mem://events", bytes));
      const auto reader = files::EventFileReader::Open("mem://events");
      if (!reader.ok()) break;
      proto::Event event;
      for (auto more = (*reader)->Next(&event); more.ok() && *more; more = (*reader)->Next(&event)) {
      }
      break;
    }
    default:
      (void)files::Unsnappy(bytes);
  }
  return 0;
}
