// Readers: what TensorFlow's readers give of the same files (recorded from TensorFlow 2.21), where
// the records of a step go that ends early, and that a saved reader goes on where it was.
#include "kernels/reader/reader.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <semaphore>
#include <thread>

#include <zlib.h>

#include "actors/runtime/runtime_impl.h"
#include "actors/state/state_actors.h"
#include "tests/actors/graphs.h"
#include "tests/queue/queue_test_util.h"
#include "troupe/readers.h"

namespace troupe::reader {
namespace reader_test {

using queue::Queue;

BOOST_AUTO_TEST_SUITE(readers)

std::string PathOf(const std::string& name) {
  TROUPE_REQUIRE_OK(files::MakeDirectory("mem://readers"));
  return "mem://readers/" + name;
}
std::string File(const std::string& name, std::string_view bytes) {
  const std::string path = PathOf(name);
  TROUPE_REQUIRE_OK(files::Write(path, bytes));
  return path;
}
std::string RecordFile(const std::string& name, const std::vector<std::string>& records,
                       files::Compression how = files::Compression::kNone) {
  const std::string path = PathOf(name);
  auto writer = files::RecordWriter::Create(path, how);
  BOOST_REQUIRE_MESSAGE(writer.ok(), writer.status());
  for (const std::string& r : records) TROUPE_REQUIRE_OK((*writer)->Write(r));
  TROUPE_REQUIRE_OK((*writer)->Close());
  return path;
}
std::string Compressed(std::string_view bytes, int bits) {
  z_stream z = {};
  BOOST_REQUIRE(deflateInit2(&z, 6, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(1000, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  BOOST_REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::shared_ptr<Queue> Names(const std::vector<std::string>& names, bool close = true) {
  queue::QueueSpec spec = queue::Spec();
  spec.types = {DType::kString};
  auto q = queue::NewQueue(spec);
  auto r = std::make_shared<queue::QueueRequest>(queue::QueueRequest::Kind::kEnqueue);
  for (const std::string& n : names) r->elements.push_back({Tensor::Scalar(n)});
  q->Ask(r);
  if (close) queue::Close(*q);
  return q;
}

std::shared_ptr<Reader> NewReader(const std::string& kind, ReaderSpec spec = {}) {
  spec.kind = kind;
  spec.name = "r";
  auto made = Reader::Make(spec);
  BOOST_REQUIRE_MESSAGE(made.ok(), made.status());
  return *made;
}

// A thread for files may be at the mailbox: then it hands the letter on.
void Await(const ReaderRequestPtr& r) {
  std::promise<void> answered;
  r->WhenAnswered([&] { answered.set_value(); });
  answered.get_future().wait();
}
ReaderRequestPtr Ask(const Reader& reader, ReaderRequest::Kind kind) {
  auto r = std::make_shared<ReaderRequest>();
  r->kind = kind;
  reader.Ask(r);
  Await(r);
  return r;
}
ReaderRequestPtr Read(const Reader& reader, const std::shared_ptr<Queue>& names, int64_t n = 1) {
  auto r = std::make_shared<ReaderRequest>();
  r->wanted = n;
  r->queue = names;
  reader.Ask(r);
  return r;
}
// What it has come to, once it has: "name:1=one name:2=two", or the error's code.
std::string Outcome(const ReaderRequestPtr& r) {
  Await(r);
  if (!r->status().ok()) return absl::StatusCodeToString(r->status().code());
  std::string text;
  for (const auto& [key, value] : r->records) {
    const std::string name = key.starts_with("mem://readers/") ? key.substr(14) : key;
    StrAppend(&text, text.empty() ? "" : " ", name, "=", CEscape(value));
  }
  return text;
}
// Records produced and works completed.
std::string Counts(const Reader& reader) {
  const ReaderRequestPtr r = Ask(reader, ReaderRequest::Kind::kCounts);
  return StrCat(r->produced, "/", r->completed);
}

// `reads` reads of one record each, and then as many reads of up to `up_to`, of a new reader.
void Compare(const std::string& kind, const ReaderSpec& spec, const std::vector<std::string>& names,
             const std::vector<std::string>& one_by_one, int64_t up_to, const std::vector<std::string>& together) {
  BOOST_TEST_CONTEXT(kind << " of " << names[0]) {
    const auto single = NewReader(kind, spec);
    const auto queue = Names(names);
    for (const std::string& want : one_by_one) {
      const std::string got = Outcome(Read(*single, queue));
      BOOST_TEST(StrCat(got, " ", Counts(*single)) == want);
    }
    const auto many = NewReader(kind, spec);
    const auto again = Names(names);
    for (const std::string& want : together) BOOST_TEST(Outcome(Read(*many, again, up_to)) == want);
  }
}

BOOST_AUTO_TEST_CASE(rows_1_2_and_5_records_of_one_work_after_the_other) {
  const std::string a = File("a", "one\r\ntw\ro\n\nlast"), e = File("e", ""), b = File("b", "x\ny\nz\n");
  Compare("TextLineReader", {}, {a, e, "mem://readers/none", b},
          {"a:1=one 1/0", "a:2=tw\\ro 2/0", "a:3= 3/0", "a:4=last 4/0", "NOT_FOUND 4/2", "b:1=x 5/2", "b:2=y 6/2",
           "b:3=z 7/2", "OUT_OF_RANGE 7/3"},
          2, {"a:1=one a:2=tw\\ro", "a:3= a:4=last", "NOT_FOUND", "b:1=x b:2=y", "b:3=z", "OUT_OF_RANGE"});
  ReaderSpec skip;
  skip.skip_lines = 2;
  Compare("TextLineReader", skip, {a, b}, {"a:3= 1/0", "a:4=last 2/0", "b:3=z 3/1", "OUT_OF_RANGE 3/2"}, 5,
          {"a:3= a:4=last", "b:3=z", "OUT_OF_RANGE"});
  Compare("WholeFileReader", {}, {a, b}, {"a=one\\r\\ntw\\ro\\n\\nlast 1/1", "b=x\\ny\\nz\\n 2/2", "OUT_OF_RANGE 2/2"},
          3, {"a=one\\r\\ntw\\ro\\n\\nlast", "b=x\\ny\\nz\\n", "OUT_OF_RANGE"});
  Compare("IdentityReader", {}, {"p", "q", "r"}, {"p=p 1/1", "q=q 2/2", "r=r 3/3", "OUT_OF_RANGE 3/3"}, 2,
          {"p=p", "q=q", "r=r", "OUT_OF_RANGE"});
}

BOOST_AUTO_TEST_CASE(records_of_fixed_length_are_tensorflows) {
  ReaderSpec spec;
  spec.layout = {.record = 3, .header = 1, .footer = 2};
  const std::vector<std::string> names = {File("f1", "HabcdefFF"), File("f2", "HabcdeFF"), File("f3", "H"),
                                          File("f4", "HF"), File("f5", "HabcFF")};
  Compare("FixedLengthRecordReader", spec, names,
          {"f1:0=abc 1/0", "f1:1=def 2/0", "f2:0=abc 3/1", "f5:0=abc 4/4", "OUT_OF_RANGE 4/5"}, 2,
          {"f1:0=abc f1:1=def", "f2:0=abc", "f5:0=abc", "OUT_OF_RANGE"});
  spec.layout = {.record = 4, .hop = 2};
  Compare("FixedLengthRecordReader", spec, {File("f6", "abcdefgh"), File("f7", "abcdefg")},
          {"f6:0=abcd 1/0", "f6:1=cdef 2/0", "f6:2=efgh 3/0", "f7:0=abcd 4/1", "f7:1=cdef 5/1", "OUT_OF_RANGE 5/2"}, 2,
          {"f6:0=abcd f6:1=cdef", "f6:2=efgh", "f7:0=abcd f7:1=cdef", "OUT_OF_RANGE"});
  spec.layout = {.record = 3, .header = 1, .footer = 2};
  spec.compression = "GZIP";
  Compare("FixedLengthRecordReader", spec,
          {File("g1", Compressed("HabcdefFF", 15 + 16)), File("g2", Compressed("HabcdeFF", 15 + 16))},
          {"g1:0=abc 1/0", "g1:1=def 2/0", "g2:0=abc 3/1", "OUT_OF_RANGE 3/2"}, 2,
          {"g1:0=abc g1:1=def", "g2:0=abc", "OUT_OF_RANGE"});
  spec.layout = {.record = 4, .footer = 1, .hop = 2};
  spec.compression = "ZLIB";
  Compare("FixedLengthRecordReader", spec,
          {File("g3", Compressed("abcdefghF", 15)), File("g4", Compressed("abcdefgF", 15))},
          {"g3:0=abcd 1/0", "g3:1=cdef 2/0", "g3:2=efgh 3/0", "g4:0=abcd 4/1", "g4:1=cdef 5/1", "OUT_OF_RANGE 5/2"}, 2,
          {"g3:0=abcd g3:1=cdef", "g3:2=efgh", "g4:0=abcd g4:1=cdef", "OUT_OF_RANGE"});
}

BOOST_AUTO_TEST_CASE(row_3_an_error_comes_after_the_records_before_it) {
  const std::string whole = RecordFile("t1", {"aa", "", "ccc"});
  std::string bytes = *files::Read(whole);
  bytes[bytes.size() - 2] ^= 1;
  const std::string damaged = File("t2", bytes);
  Compare("TFRecordReader", {}, {whole, damaged, whole},
          {"t1:0=aa 1/0", "t1:18= 2/0", "t1:34=ccc 3/0", "t2:0=aa 4/1", "t2:18= 5/1", "DATA_LOSS 5/1", "DATA_LOSS 5/1"},
          2, {"t1:0=aa t1:18=", "t1:34=ccc", "t2:0=aa t2:18=", "DATA_LOSS", "DATA_LOSS"});
  // What there is of five is not lost with the error, which says where it is.
  const auto reader = NewReader("TFRecordReader");
  const auto queue = Names({damaged, whole});
  BOOST_TEST(Outcome(Read(*reader, queue, 5)) == "t2:0=aa t2:18=");
  const auto failed = Read(*reader, queue, 5);
  BOOST_TEST(Outcome(failed) == "DATA_LOSS");
  BOOST_TEST(failed->status().ToString().find("mem://readers/t2") != std::string::npos, failed->status());
  // A reset gives the file up.
  Ask(*reader, ReaderRequest::Kind::kReset);
  BOOST_TEST(Outcome(Read(*reader, queue)) == "t1:0=aa");
  // A record that is cut off is no end of the file, other than in TensorFlow.
  const auto cut = NewReader("TFRecordReader");
  const auto half = Names({File("t3", bytes.substr(0, bytes.size() - 9))});
  BOOST_TEST(Outcome(Read(*cut, half, 5)) == "t3:0=aa t3:18=");
  BOOST_TEST(Outcome(Read(*cut, half, 5)) == "DATA_LOSS");
  for (const auto& [name, how] : {std::pair("ZLIB", files::Compression::kZlib), {"GZIP", files::Compression::kGzip}}) {
    ReaderSpec spec;
    spec.compression = name;
    const auto compressed = NewReader("TFRecordReader", spec);
    BOOST_TEST(Outcome(Read(*compressed, Names({RecordFile(StrCat("t", name), {"x", "yy"}, how)}), 9)) ==
               StrCat("t", name, ":0=x t", name, ":17=yy"));
  }
}

// A file system whose files open when the test lets them.
class SlowFiles : public files::FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<files::ReadableFile>> OpenToRead(const std::string& path) override {
    asked.release();
    gate.acquire();
    return memory->OpenToRead(path);
  }
  absl::StatusOr<std::unique_ptr<files::WritableFile>> OpenToWrite(const std::string& path,
                                                                   files::WriteMode mode) override {
    return memory->OpenToWrite(path, mode);
  }
  absl::StatusOr<files::FileStat> Stat(const std::string& path) override { return memory->Stat(path); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override { return memory->List(path); }
  absl::Status MakeDirectory(const std::string& path) override { return memory->MakeDirectory(path); }
  absl::Status Rename(const std::string& a, const std::string& b) override { return memory->Rename(a, b); }
  absl::Status Delete(const std::string& path) override { return memory->Delete(path); }
  absl::Status SyncDirectory(const std::string& path) override { return memory->SyncDirectory(path); }

  std::shared_ptr<files::FileSystem> memory = files::NewMemoryFileSystem();
  std::counting_semaphore<> asked{0}, gate{0};
};

BOOST_AUTO_TEST_CASE(rows_4_and_6_files_are_read_by_other_threads) {
  static const auto slow = std::make_shared<SlowFiles>();
  TROUPE_REQUIRE_OK(files::RegisterFileSystem("slow", slow));
  TROUPE_REQUIRE_OK(files::Write("slow://a", "1\n2\n"));
  TROUPE_REQUIRE_OK(files::Write("slow://b", "3\n"));
  const auto reader = NewReader("TextLineReader");
  const auto queue = Names({"slow://a", "slow://b"});
  // The asker has its thread back while the file is being opened, and others are answered.
  const auto first = Read(*reader, queue);
  slow->asked.acquire();
  BOOST_TEST(!first->answered());
  BOOST_TEST(Counts(*reader) == "0/0");
  // What comes of a file after a reset is of no use any more; the read goes on with the next one.
  Ask(*reader, ReaderRequest::Kind::kReset);
  slow->asked.acquire();
  BOOST_TEST(!first->answered());
  slow->gate.release(2);
  BOOST_TEST(Outcome(first) == "slow://b:1=3");
  BOOST_TEST(Counts(*reader) == "1/0");
}

BOOST_AUTO_TEST_CASE(row_7_a_reset_forgets_the_work) {
  const auto reader = NewReader("TextLineReader");
  const auto queue = Names({File("a7", "1\n2\n3\n"), File("b7", "4\n")});
  BOOST_TEST(Outcome(Read(*reader, queue)) == "a7:1=1");
  Ask(*reader, ReaderRequest::Kind::kReset);
  BOOST_TEST(Counts(*reader) == "0/0");
  BOOST_TEST(Outcome(Read(*reader, queue)) == "b7:1=4");
  BOOST_TEST(Counts(*reader) == "1/0");
}

BOOST_AUTO_TEST_CASE(what_a_step_that_ended_had_taken_goes_back) {
  const auto reader = NewReader("TextLineReader");
  const auto queue = Names({}, /*close=*/false);
  // A read that waits for a name leaves it in the queue.
  const auto gone = Read(*reader, queue), next = Read(*reader, queue);
  reader->Withdraw(gone);
  auto name = std::make_shared<queue::QueueRequest>(queue::QueueRequest::Kind::kEnqueue);
  name->elements.push_back({Tensor::Scalar(File("w", "1\n2\n3\n"))});
  queue->Ask(name);
  BOOST_TEST(Outcome(next) == "w:1=1");
  // It was answered, but its step had gone.
  reader->Withdraw(next);
  BOOST_TEST(Counts(*reader) == "0/0");
  // One that has two of five, when the reader's actor dies.
  const auto many = Read(*reader, queue, 2);
  BOOST_TEST(Outcome(many) == "w:1=1 w:2=2");
  reader->Withdraw(many);
  BOOST_TEST(Outcome(Read(*reader, queue, 3)) == "w:1=1 w:2=2 w:3=3");
  const auto waits = Read(*reader, queue);
  // The thread that read the file may still open letters; who is answered here knows that the one
  // before was opened.
  Counts(*reader);
  reader->machine()->AbortWaiting(absl::AbortedError("dead"));
  BOOST_TEST(Outcome(waits) == "ABORTED");
  BOOST_TEST(queue::Size(*queue) == "OK 0");
  auto another = std::make_shared<queue::QueueRequest>(queue::QueueRequest::Kind::kEnqueue);
  another->elements.push_back({Tensor::Scalar(File("v", "4\n"))});
  queue->Ask(another);
  BOOST_TEST(queue::Size(*queue) == "OK 1");
  BOOST_TEST(Outcome(Read(*reader, queue)) == "v:1=4");
}

ResourceState Saved(const Reader& reader) {
  std::promise<absl::StatusOr<ResourceState>> saved;
  reader.Save([&](absl::StatusOr<ResourceState> s) { saved.set_value(std::move(s)); });
  const absl::StatusOr<ResourceState> state = saved.get_future().get();
  BOOST_REQUIRE_MESSAGE(state.ok(), state.status());
  return *state;
}

// Wherever a reader is saved, by the runtime or by its op, it goes on from there.
BOOST_AUTO_TEST_CASE(a_saved_reader_goes_on_at_every_record) {
  struct Case {
    std::string kind;
    ReaderSpec spec;
    std::vector<std::string> names;
  };
  std::vector<Case> cases = {
      {"TextLineReader", {}, {File("s1", "a\nb\r\n\nlonger\n"), File("s2", "c")}},
      {"FixedLengthRecordReader", {}, {File("s3", "H123456F"), File("s4", "H789F")}},
      {"FixedLengthRecordReader", {}, {File("s5", Compressed("H123456F", 15))}},
      {"TFRecordReader", {}, {RecordFile("s6", {"x", "", "zz"}), RecordFile("s7", {"w"})}},
      {"TFRecordReader", {}, {RecordFile("s8", {"x", "", "zz"}, files::Compression::kGzip)}},
      {"WholeFileReader", {}, {File("s9", "all"), File("s10", "of it")}},
      {"IdentityReader", {}, {"n1", "n2"}},
  };
  cases[0].spec.skip_lines = 1;
  cases[1].spec.layout = cases[2].spec.layout = {.record = 3, .header = 1, .footer = 1};
  cases[2].spec.compression = "ZLIB";
  cases[4].spec.compression = "GZIP";
  for (const Case& c : cases) {
    std::vector<std::string> all;
    {
      const auto reader = NewReader(c.kind, c.spec);
      const auto queue = Names(c.names);
      for (;;) {
        const std::string got = Outcome(Read(*reader, queue));
        all.push_back(StrCat(got, " ", Counts(*reader)));
        if (all.back().starts_with("OUT_OF_RANGE")) break;
      }
    }
    for (size_t at = 0; at < all.size(); ++at) {
      for (const bool by_op : {false, true}) {
        BOOST_TEST_CONTEXT(c.kind << " at " << at << (by_op ? " by its op" : "")) {
          const auto reader = NewReader(c.kind, c.spec);
          const auto queue = Names(c.names);
          for (size_t i = 0; i < at; ++i) Outcome(Read(*reader, queue));
          // One record has been given back.
          if (at + 1 < all.size()) {
            const auto back = Read(*reader, queue);
            Outcome(back);
            reader->Withdraw(back);
          }
          std::shared_ptr<Reader> again;
          if (by_op) {
            again = NewReader(c.kind, c.spec);
            auto restore = std::make_shared<ReaderRequest>();
            restore->kind = ReaderRequest::Kind::kRestore;
            restore->state = Ask(*reader, ReaderRequest::Kind::kSerialize)->state;
            again->Ask(restore);
            Await(restore);
            TROUPE_REQUIRE_OK(restore->status());
          } else {
            const auto made = MakeResource("r", Saved(*reader));
            BOOST_REQUIRE_MESSAGE(made.ok(), made.status());
            again = std::dynamic_pointer_cast<Reader>(*made);
            TROUPE_REQUIRE_OK(again->TakePlaceOf(*reader));
          }
          for (size_t i = at; i < all.size(); ++i) {
            const std::string got = Outcome(Read(*again, queue));
            // Works are completed when the next read finds their end, which may have been before.
            BOOST_TEST(StrCat(got, " ", Counts(*again)).substr(0, all[i].rfind('/')) ==
                       all[i].substr(0, all[i].rfind('/')));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(bad_states_and_settings_are_refused) {
  const auto reader = NewReader("TextLineReader");
  const ResourceState state = Saved(*reader);
  for (size_t i = 0; i < state.tensors.size(); ++i) {
    ResourceState bad = state;
    bad.tensors.erase(bad.tensors.begin() + static_cast<std::ptrdiff_t>(i));
    BOOST_TEST(!MakeResource("r", bad).ok(), state.tensors[i].first);
    bad = state;
    bad.tensors[i].second = Tensor::Scalar(-1.5);
    BOOST_TEST(!MakeResource("r", bad).ok(), state.tensors[i].first);
  }
  // Bytes that are no state, and one that TensorFlow wrote: of an IdentityReader after one read.
  const std::pair<std::string, bool> bytes[] = {{"\x08", false},
                                                {std::string("\x08\x01\x10\x02", 4), false},
                                                {"\x08\x01\x10\x01\x18\x01\"\x01"
                                                 "a",
                                                 true}};
  for (const auto& [text, good] : bytes) {
    const auto identity = NewReader("IdentityReader");
    auto restore = std::make_shared<ReaderRequest>();
    restore->kind = ReaderRequest::Kind::kRestore;
    restore->state = text;
    identity->Ask(restore);
    Await(restore);
    BOOST_TEST(restore->status().ok() == good, restore->status());
    BOOST_TEST(Counts(*identity) == (good ? "1/1" : "0/0"));
  }
  ReaderSpec spec;
  spec.kind = "FixedLengthRecordReader";
  spec.layout.record = 0;
  BOOST_TEST(!spec.Check().ok());
  spec.layout.record = 1;
  spec.compression = "LZ4";
  BOOST_TEST(!spec.Check().ok());
  ReaderSpec other;
  other.skip_lines = 1;
  BOOST_TEST(!NewReader("TextLineReader", other)->TakePlaceOf(*reader).ok());
  BOOST_TEST(!NewReader("WholeFileReader")->TakePlaceOf(*reader).ok());
}

// --- In sessions.

std::string Text(const absl::Status& s, const std::vector<Tensor>& out) {
  if (!s.ok()) return absl::StatusCodeToString(s.code());
  std::string text;
  for (const Tensor& t : out) StrAppend(&text, text.empty() ? "" : " | ", t.DebugString(20));
  return text;
}

BOOST_AUTO_TEST_CASE(ops_of_both_forms_read_in_a_session) {
  const std::string path = File("ops", "1\n2\n3\n4\n");
  for (const bool old : {false, true}) {
    const Scope root = Scope::NewRootScope();
    const auto q = EmitOp(root.WithOpName("q"), old ? "FIFOQueue" : "FIFOQueueV2", {},
                          {{"component_types", std::vector<DType>{DType::kString}},
                           {"shapes", std::vector<PartialTensorShape>{PartialTensorShape(TensorShape())}}})
                       .output(0);
    const troupe::Queue names = troupe::Queue::Of(q, {DType::kString});
    const Operation put = names.Enqueue(root.WithOpName("put"), {Const(root, path)});
    const auto r = EmitOp(root.WithOpName("r"), old ? "TextLineReader" : "TextLineReaderV2", {}).output(0);
    const troupe::Reader reader = troupe::Reader::Of(r);
    const auto [key, value] = reader.Read(root.WithOpName("read"), names);
    const auto [keys, values] = reader.ReadUpTo(root.WithOpName("many"), names, Const(root, int64_t{2}));
    const Output produced = reader.NumRecordsProduced(root), completed = reader.NumWorkUnitsCompleted(root);
    const Output state = reader.SerializeState(root);
    const Output bytes = ops::Placeholder(root.WithOpName("bytes"), DType::kString);
    const Operation restore = reader.RestoreState(root.WithOpName("restore"), bytes), reset = reader.Reset(root);
    const auto session = NewSession(root);
    const auto get = [&](const std::vector<Output>& fetch) {
      std::vector<Tensor> out;
      troupe::Names names_of;
      for (const Output& o : fetch) names_of.push_back(o.name());
      const absl::Status s = session->Run({}, names_of, {}, &out);
      return Text(s, out);
    };
    TROUPE_REQUIRE_OK(session->Run({}, {}, {put.name()}, nullptr));
    BOOST_TEST(get({key, value}) == StrCat(Tensor::Scalar(path + ":1").DebugString(), " | string [] [\"1\"]"));
    std::vector<Tensor> saved;
    TROUPE_REQUIRE_OK(session->Run({}, {state.name()}, {}, &saved));
    BOOST_TEST(get({values}) == "string [2] [\"2\" \"3\"]");
    TROUPE_REQUIRE_OK(session->Run({{"bytes", saved[0]}}, {}, {restore.name()}, nullptr));
    BOOST_TEST(get({values}) == "string [2] [\"2\" \"3\"]");
    BOOST_TEST(get({values}) == "string [1] [\"4\"]");
    BOOST_TEST(get({produced, completed}) == "int64 [] [4] | int64 [] [1]");
    TROUPE_REQUIRE_OK(session->Run({}, {}, {reset.name()}, nullptr));
    BOOST_TEST(get({produced, completed}) == "int64 [] [0] | int64 [] [0]");
    // A read that waits for a name ends with its deadline, and takes nothing.
    RunOptions soon;
    soon.timeout_ms = 30;
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(session->Prepare({}, {value.name()}, {}).status());
    const absl::Status late = session->Run(soon, {}, {value.name()}, {}, &out, nullptr);
    BOOST_TEST(absl::IsDeadlineExceeded(late), late);
    BOOST_TEST(late.ToString().find("TextLineReader 'r'") != std::string::npos, late);
    TROUPE_REQUIRE_OK(session->Run({}, {}, {put.name()}, nullptr));
    BOOST_TEST(get({value}) == "string [] [\"1\"]");
  }
}

BOOST_AUTO_TEST_CASE(queues_that_hold_no_names_are_refused) {
  const Scope root = Scope::NewRootScope();
  const troupe::Reader reader = troupe::Reader::Identity(root.WithOpName("r"));
  const auto refused = [&](const troupe::Queue& q) {
    const Output value = reader.Read(root, q).second;
    std::vector<Tensor> out;
    const absl::Status s = NewSession(root)->Run({}, {value.name()}, {}, &out);
    return absl::StatusCodeToString(s.code());
  };
  BOOST_TEST(refused(troupe::Queue::Fifo(root, {DType::kInt32})) == "INVALID_ARGUMENT");
  BOOST_TEST(refused(troupe::Queue::Fifo(root, {DType::kString, DType::kString})) == "INVALID_ARGUMENT");
  BOOST_TEST(refused(troupe::Queue::Fifo(root, {DType::kString}, {.shapes = {TensorShape({2})}})) ==
             "INVALID_ARGUMENT");
}

// The reader's actor dies again and again; each line is read exactly once.
BOOST_AUTO_TEST_CASE(no_record_is_lost_or_doubled_by_deaths) {
  constexpr int kFiles = 6, kLines = 40, kReaders = 3;
  CastPolicies policies;
  policies.container.max_failures = 1000000;
  policies.container.max_delay = std::chrono::milliseconds(1);
  SessionOptions options;
  options.runtime = StartRuntime({.threads = 2}, policies).value();
  const Scope root = Scope::NewRootScope();
  const troupe::Queue names = troupe::Queue::Fifo(root.WithOpName("q"), {DType::kString}, {.shapes = {TensorShape()}});
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kString);
  const Operation put = names.EnqueueMany(root.WithOpName("put"), {x}), close = names.Close(root);
  const troupe::Reader reader = troupe::Reader::TextLines(root.WithOpName("r"));
  const Output value = reader.ReadUpTo(root, names, Const(root, int64_t{3})).second;
  const auto session = NewSession(root, options);
  std::vector<std::string> paths, want;
  for (int f = 0; f < kFiles; ++f) {
    std::string text;
    for (int l = 0; l < kLines; ++l) {
      want.push_back(StrCat(f, ".", l));
      StrAppend(&text, want.back(), "\n");
    }
    paths.push_back(File(StrCat("death", f), text));
  }
  TROUPE_REQUIRE_OK(session->Run({{"x", Tensor::Vector<std::string>(paths)}}, {}, {put.name()}, nullptr));
  TROUPE_REQUIRE_OK(session->Run({}, {}, {close.name()}, nullptr));
  // The reader is made by the first step that names it.
  std::vector<Tensor> first;
  TROUPE_REQUIRE_OK(session->Run({}, {value.name()}, {}, &first));
  std::shared_ptr<Reader> object;
  for (const auto& e : options.runtime->impl()->devices[0]->containers()->Entries()) {
    if (auto found = std::dynamic_pointer_cast<Reader>(e.object)) object = found;
  }
  BOOST_REQUIRE(object != nullptr);
  std::mutex mu;
  std::vector<std::string> seen;
  for (const std::string& v : first[0].flat<std::string>()) seen.push_back(v);
  std::atomic<int> others{0}, killed{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> readers;
  for (int r = 0; r < kReaders; ++r) {
    readers.emplace_back([&] {
      for (;;) {
        std::vector<Tensor> out;
        const absl::Status s = session->Run({}, {value.name()}, {}, &out);
        if (absl::IsAborted(s)) continue;
        if (!s.ok()) {
          if (!absl::IsOutOfRange(s)) ++others;
          return;
        }
        std::lock_guard<std::mutex> lock(mu);
        for (const std::string& v : out[0].flat<std::string>()) seen.push_back(v);
      }
    });
  }
  std::thread killer([&] {
    while (!over || killed < 3) {
      if (const caf::actor actor = StateActorOf(*object)) {
        caf::anon_send_exit(actor, caf::exit_reason::kill);
        ++killed;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  });
  for (std::thread& t : readers) t.join();
  over = true;
  killer.join();
  BOOST_TEST(others == 0);
  std::sort(seen.begin(), seen.end());
  std::sort(want.begin(), want.end());
  BOOST_TEST(seen == want);
}

// A pipeline of files, lines and batches goes on from a snapshot with the same lines.
BOOST_AUTO_TEST_CASE(readers_belong_to_a_snapshot_of_the_session) {
  const std::vector<std::string> paths = {File("p1", "1\n2\n3\n"), File("p2", "4\n5\n")};
  const auto build = [&](const Scope& root) {
    const troupe::Queue names =
        troupe::Queue::Fifo(root.WithOpName("q"), {DType::kString}, {.shapes = {TensorShape()}});
    names.EnqueueMany(root.WithOpName("put"), {Const(root, Literal(Tensor::Vector<std::string>(paths)))});
    return troupe::Reader::TextLines(root.WithOpName("r")).Read(root.WithOpName("read"), names).second.name();
  };
  const Scope root = Scope::NewRootScope(), other_root = Scope::NewRootScope();
  const std::string value = build(root);
  build(other_root);
  const auto session = NewSession(root), other = NewSession(other_root);
  const auto read = [&](const std::unique_ptr<Session>& s) {
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(s->Run({}, {value}, {}, &out));
    return out[0].scalar<std::string>();
  };
  TROUPE_REQUIRE_OK(session->Run({}, {}, {"put"}, nullptr));
  BOOST_TEST(read(session) == "1");
  BOOST_TEST(read(session) == "2");
  const auto snapshot = session->SnapshotState();
  BOOST_REQUIRE_MESSAGE(snapshot.ok(), snapshot.status());
  const auto bytes = snapshot->ToBytes();
  BOOST_REQUIRE_MESSAGE(bytes.ok(), bytes.status());
  BOOST_TEST(read(session) == "3");
  for (const auto* each : {&other, &session}) {
    TROUPE_REQUIRE_OK((*each)->RestoreState(*StateSnapshot::FromBytes(*bytes)));
    for (const char* want : {"3", "4", "5"}) BOOST_TEST(read(*each) == want);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace reader_test
}  // namespace troupe::reader
