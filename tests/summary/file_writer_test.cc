// Event files: what is written is read again, here and by TensorFlow's own reader; errors of files
// are statuses.
#include "troupe/train/file_writer.h"

#include <boost/test/unit_test.hpp>
#include <thread>

#include "tests/common/check_ok.h"
#include "tests/common/folder.h"
#include "tests/common/python.h"
#include "troupe/faulty_files.h"
#include "troupe/files.h"
#include "troupe/proto/config.pb.h"
#include "troupe/proto/event.pb.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/records.h"
#include "troupe/troupe.h"

namespace troupe {
namespace file_writer_test {

using train::FileWriter;
using train::SessionEvent;

std::vector<proto::Event> ReadEvents(const std::string& path) {
  const auto reader = files::RecordReader::Open(path);
  BOOST_REQUIRE_MESSAGE(reader.ok(), reader.status());
  std::vector<proto::Event> events;
  std::string_view record;
  for (;;) {
    const auto more = (*reader)->Next(&record);
    BOOST_REQUIRE_MESSAGE(more.ok(), more.status());
    if (!*more) return events;
    BOOST_REQUIRE(events.emplace_back().ParseFromString(std::string(record)));
  }
}

std::string Text(const std::string& tag) {
  proto::Summary s;
  proto::Summary::Value* const v = s.add_value();
  v->set_tag(tag);
  v->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  v->mutable_tensor()->set_dtype(proto::DT_STRING);
  v->mutable_tensor()->mutable_tensor_shape();
  v->mutable_tensor()->add_string_val("words");
  return s.SerializeAsString();
}

// A small run: a graph, a start, two steps, metadata, a checkpoint, a stop.
void WriteRun(FileWriter& w) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = {-1}});
  const Output y = ops::Square(root.WithOpName("y"), x);
  const Output all = ops::MergeSummary(
      root, {ops::ScalarSummary(root, "mean", ops::Mean(root, y)), ops::HistogramSummary(root, "values", y)});
  REQUIRE_OK(root.status());
  REQUIRE_OK(w.AddGraph(*root.graph()));
  REQUIRE_OK(w.AddSessionLog(SessionEvent::kStart, 1));
  const auto session = *Session::Create();
  REQUIRE_OK(session->Extend(*root.graph()));
  for (int step = 1; step <= 2; ++step) {
    RunOptions options;
    options.collect_stats = true;
    proto::RunMetadata metadata;
    std::vector<Tensor> out;
    const Feeds feeds = {{x.name(), Tensor::Vector<float>({1, 2, static_cast<float>(step)})}};
    REQUIRE_OK(session->Run(options, feeds, {all}, {}, &out, &metadata));
    REQUIRE_OK(w.AddSummary(out[0].scalar<std::string>(), step));
    REQUIRE_OK(w.AddScalar("loss", 1.0f / static_cast<float>(step), step));
    REQUIRE_OK(w.AddSummary(Text("note"), step));
    REQUIRE_OK(w.AddRunMetadata(metadata, StrCat("step", step), step));
    BOOST_TEST(absl::IsAlreadyExists(w.AddRunMetadata(metadata, "step1", step)));
  }
  REQUIRE_OK(w.AddSessionLog(SessionEvent::kCheckpoint, 2, "run/model-2"));
  REQUIRE_OK(w.AddSessionLog(SessionEvent::kStop, 2, {}, "done"));
}

BOOST_AUTO_TEST_CASE(what_is_written_is_read_again) {
  const auto writer = FileWriter::Create("mem://events/run", {.suffix = ".test"});
  REQUIRE_OK(writer.status());
  FileWriter& w = **writer;
  BOOST_TEST(w.path().starts_with("mem://events/run/events.out.tfevents."));
  BOOST_TEST(w.path().ends_with(".test"));
  BOOST_TEST(ReadEvents(w.path()).size() == 1u);  // the version
  WriteRun(w);
  BOOST_TEST(absl::IsInvalidArgument(w.AddSummary("\xff\xff", 3)));
  REQUIRE_OK(w.Close());
  REQUIRE_OK(w.Close());
  BOOST_TEST(absl::IsFailedPrecondition(w.AddScalar("x", 1, 1)));
  BOOST_TEST(absl::IsFailedPrecondition(w.Flush()));
  const std::vector<proto::Event> events = ReadEvents(w.path());
  BOOST_REQUIRE_EQUAL(events.size(), 13u);
  for (const proto::Event& e : events) BOOST_TEST(e.wall_time() > 0);
  BOOST_TEST(events[0].file_version() == "brain.Event:2");
  proto::GraphDef graph;
  BOOST_REQUIRE(graph.ParseFromString(events[1].graph_def()));
  BOOST_TEST(graph.node_size() > 3);
  BOOST_TEST(events[2].session_log().status() == proto::SessionLog::START);
  BOOST_TEST(events[2].step() == 1);
  BOOST_TEST(events[3].summary().value(0).tag() == "mean");
  BOOST_TEST(events[3].summary().value(0).simple_value() == 2.0f);
  BOOST_TEST(events[3].summary().value(1).histo().num() == 3);
  BOOST_TEST(events[8].summary().value(0).simple_value() == 0.5f);
  BOOST_TEST(events[8].step() == 2);
  // Metadata of a tag once.
  BOOST_TEST(events[5].summary().value(0).metadata().plugin_data().plugin_name() == "text");
  BOOST_TEST(!events[9].summary().value(0).has_metadata());
  BOOST_TEST(events[9].summary().value(0).tensor().string_val(0) == "words");
  BOOST_TEST(events[6].tagged_run_metadata().tag() == "step1");
  proto::RunMetadata metadata;
  BOOST_REQUIRE(metadata.ParseFromString(events[6].tagged_run_metadata().run_metadata()));
  BOOST_TEST(metadata.step_stats().dev_stats_size() == 1);
  BOOST_TEST(events[11].session_log().checkpoint_path() == "run/model-2");
  BOOST_TEST(events[12].session_log().msg() == "done");
}

BOOST_AUTO_TEST_CASE(events_wait_for_a_flush) {
  const auto writer = FileWriter::Create("mem://events/flush");
  REQUIRE_OK(writer.status());
  REQUIRE_OK((*writer)->AddScalar("x", 1, 1));
  BOOST_TEST(ReadEvents((*writer)->path()).size() == 1u);
  REQUIRE_OK((*writer)->Flush());
  BOOST_TEST(ReadEvents((*writer)->path()).size() == 2u);
  const auto eager = FileWriter::Create("mem://events/flush", {.flush_seconds = 0});
  REQUIRE_OK(eager.status());
  BOOST_TEST((*eager)->path() != (*writer)->path());
  REQUIRE_OK((*eager)->AddScalar("x", 1, 1));
  BOOST_TEST(ReadEvents((*eager)->path()).size() == 2u);
}

BOOST_AUTO_TEST_CASE(threads_may_write_at_once) {
  const auto writer = FileWriter::Create("mem://events/threads");
  REQUIRE_OK(writer.status());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) (*writer)->AddScalar(StrCat("t", t), static_cast<float>(i), i).IgnoreError();
    });
  }
  for (std::thread& t : threads) t.join();
  REQUIRE_OK((*writer)->Close());
  std::map<std::string, int> next;
  for (const proto::Event& e : ReadEvents((*writer)->path())) {
    for (const auto& value : e.summary().value()) BOOST_TEST(e.step() == next[value.tag()]++);
  }
  BOOST_TEST(next.size() == 4u);
  for (const auto& [tag, n] : next) BOOST_TEST(n == 100, tag);
}

BOOST_AUTO_TEST_CASE(errors_of_files_are_told) {
  const auto disk = std::make_shared<files::FaultyFiles>();
  REQUIRE_OK(files::RegisterFileSystem("eventdisk", disk));
  const auto writer = FileWriter::Create("eventdisk://d");
  REQUIRE_OK(writer.status());
  REQUIRE_OK((*writer)->AddScalar("x", 1, 1));
  disk->FailAt(1, files::FaultyFiles::Fault::kError);
  const absl::Status full = (*writer)->Flush();
  BOOST_TEST(!full.ok());
  BOOST_TEST(full.ToString().find("eventdisk://d/events") != std::string::npos, full);
  disk->FailAt(1, files::FaultyFiles::Fault::kError);
  BOOST_TEST(!FileWriter::Create("eventdisk://e/f").ok());
  BOOST_TEST(absl::IsUnimplemented(FileWriter::Create("nowhere://e").status()));
  // What could not be written is not taken for written.
  const auto other = FileWriter::Create("mem://events_of_a_closed_writer");
  REQUIRE_OK(other.status());
  REQUIRE_OK((*other)->Close());
  for (int i = 0; i < 2; ++i) {
    const absl::Status closed = (*other)->AddRunMetadata(proto::RunMetadata(), "run", 1);
    BOOST_TEST(absl::IsFailedPrecondition(closed), closed);
  }
}

BOOST_AUTO_TEST_CASE(tensorflow_reads_the_file) {
  const testing::Folder folder;
  {
    const auto writer = FileWriter::Create(folder.path());
    REQUIRE_OK(writer.status());
    WriteRun(**writer);
    REQUIRE_OK((*writer)->Close());
  }
  const auto out = testing::RunPython(folder.path(), R"(
import glob
for e in v1.train.summary_iterator(glob.glob("events*")[0]):
  what = e.WhichOneof("what")
  line = [str(e.step), what]
  if what == "summary":
    line += [v.tag + ":" + v.WhichOneof("value") for v in e.summary.value]
  if what == "graph_def":
    line.append(",".join(n.op for n in v1.GraphDef.FromString(e.graph_def).node if n.name in "xy"))
  if what == "tagged_run_metadata":
    line.append(str(len(v1.RunMetadata.FromString(e.tagged_run_metadata.run_metadata).step_stats.dev_stats)))
  print(" ".join(line))
)");
  if (!out) return;
  BOOST_TEST(*out == R"(0 file_version
0 graph_def Placeholder,Square
1 session_log
1 summary mean:simple_value values:histo
1 summary loss:simple_value
1 summary note:tensor
1 tagged_run_metadata 1
2 summary mean:simple_value values:histo
2 summary loss:simple_value
2 summary note:tensor
2 tagged_run_metadata 1
2 session_log
2 session_log
)");
}

}  // namespace file_writer_test
}  // namespace troupe
