// Times input: record files, pictures, and training from a data set or a queue.
//
//   input write FOLDER              makes records.tfrecord and pictures.tfrecord there
//   input records FOLDER            a sample is GB a second that one thread reads, checksums included
//   input pictures FOLDER           a sample is pictures a second: read, decoded, cropped, resized, in batches
//   input memory|dataset|queue      a sample is the images a second that E5 is trained with
//   input batches                   as queue, and a thread puts batches together for a second queue
//   input summaries FOLDER          as memory, and each step writes a summary of the loss there
//
//   [--threads N] [--seconds S]
#include <CLI/CLI.hpp>
#include <atomic>
#include <cmath>
#include <thread>

#include "examples/mnist/data.h"
#include "examples/mnist/model.h"
#include "tools/benchmarks/serve.h"
#include "troupe/dataset.h"
#include "troupe/queues.h"
#include "troupe/records.h"
#include "troupe/train/file_writer.h"
#include "troupe/troupe.h"

namespace {

using namespace troupe;         // NOLINT
using namespace troupe::bench;  // NOLINT

constexpr int64_t kRecordBytes = 8192, kRecords = 16384;                      // 128 MiB
constexpr int64_t kPictures = 256, kSide = 256, kCrop = 224, kResized = 128;  // of the pictures
constexpr int64_t kBatch = 32, kTrainBatch = 100;

struct Flags {
  std::string mode, folder;
  int threads = 1;
  double seconds = 0.5;
};

void Need(const absl::Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "input: %s\n", s.ToString().c_str());
  std::exit(1);
}
template <class T>
T Need(absl::StatusOr<T> s) {
  Need(s.status());
  return *std::move(s);
}

int Write(const Flags& flags) {
  {
    const auto writer = Need(files::RecordWriter::Create(files::Join(flags.folder, "records.tfrecord")));
    std::string record(kRecordBytes, '\0');
    uint64_t state = 1;
    for (int64_t i = 0; i < kRecords; ++i) {
      for (char& c : record) c = static_cast<char>((state = state * 6364136223846793005 + 1442695040888963407) >> 56);
      Need(writer->Write(record));
    }
    Need(writer->Close());
  }
  Scope root = Scope::NewRootScope();
  const Output picture = ops::Placeholder(root, DType::kUint8, {.shape = TensorShape({kSide, kSide, 3})});
  const Output bytes = ops::EncodeJpeg(root, picture, {.quality = 90});
  const auto session = Need(Session::Create());
  Need(session->Extend(*root.graph()));
  const auto writer = Need(files::RecordWriter::Create(files::Join(flags.folder, "pictures.tfrecord")));
  for (int64_t i = 0; i < kPictures; ++i) {
    Tensor t(DType::kUint8, {kSide, kSide, 3});
    for (int64_t p = 0; p < t.num_elements(); ++p) {
      const auto x = static_cast<double>(p / 3 % kSide), y = static_cast<double>(p / 3 / kSide);
      const double phase = static_cast<double>(i + p % 3);
      t.data<uint8_t>()[p] = static_cast<uint8_t>(127 + 60 * std::sin(x / (5 + phase)) + 40 * std::sin(y / 9 + phase) +
                                                  25 * std::sin(x * y / 900));
    }
    std::vector<Tensor> out;
    Need(session->Run({{picture.name(), t}}, {bytes.name()}, {}, &out));
    Need(writer->Write(out[0].scalar<std::string>()));
  }
  Need(writer->Close());
  return 0;
}

int Records(const Flags& flags) {
  const std::string path = files::Join(flags.folder, "records.tfrecord");
  return Serve("{}", [&] {
    int64_t bytes = 0;
    const double seconds = Sample(
        flags.seconds,
        [&] {
          bytes = 0;
          const auto reader = Need(files::RecordReader::Open(path));
          std::string_view record;
          while (Need(reader->Next(&record))) bytes += static_cast<int64_t>(record.size());
        },
        CpuSeconds);
    return 1e-9 * static_cast<double>(bytes) / seconds;
  });
}

int Pictures(const Flags& flags) {
  Scope root = Scope::NewRootScope();
  const Output bytes = ops::Placeholder(root, DType::kString, {.shape = TensorShape()});
  const Output picture = ops::DecodeJpeg(root, bytes, {.channels = 3});
  constexpr int32_t kAt = (kSide - kCrop) / 2;
  const Output crop = ops::Slice(root, picture, Const(root, {kAt, kAt, 0}),
                                 Const(root, {static_cast<int32_t>(kCrop), static_cast<int32_t>(kCrop), 3}));
  const Output resized =
      ops::ResizeBilinear(root, ops::ExpandDims(root, crop, Const(root, 0)),
                          Const(root, {static_cast<int32_t>(kResized), static_cast<int32_t>(kResized)}));
  const Output one = ops::Squeeze(root, resized, {.squeeze_dims = {0}});
  SessionOptions options;
  options.runtime_options.threads = 1;  // the data set has threads of its own
  const auto session = Need(Session::Create(options));
  Need(session->Extend(*root.graph()));
  const Callable decode = Need(session->Prepare({bytes.name()}, {one.name()}, {}));
  const auto map = [&](Element in) -> absl::StatusOr<Element> {
    std::vector<Tensor> out;
    TROUPE_RETURN_IF_ERROR(decode.Run({in[0]}, &out));
    return Element{std::move(out[0])};
  };
  const Dataset data = Dataset::Records({files::Join(flags.folder, "pictures.tfrecord")})
                           .Repeat(-1)
                           .Map(map, flags.threads)
                           .Batch(kBatch)
                           .Prefetch(2);
  const auto batches = Need(data.Iterate());
  Element batch;
  return Serve("{}", [&] {
    int64_t n = 0;
    const Clock::time_point start = Clock::now();
    for (; SecondsSince(start) < flags.seconds; n += batch[0].dim(0)) Need(batches->Next(&batch));
    return static_cast<double>(n) / SecondsSince(start);
  });
}

int Train(const Flags& flags) {
  const mnist::Digits digits = Need(mnist::ReadSmallDigits(TROUPE_DIGITS_FILE));
  const int64_t rows = digits.train.size() / kTrainBatch * kTrainBatch;
  const Tensor images = digits.train.Images(0, rows), labels = digits.train.Labels(0, rows);
  Scope root = Scope::NewRootScope();
  const mnist::Model model = Need(mnist::BuildModel(root, "E5", 1));
  const Queue queue =
      Queue::Fifo(root.WithOpName("queue"), {DType::kFloat, DType::kFloat},
                  {.capacity = 3 * kTrainBatch,
                   .shapes = {TensorShape({mnist::kSide, mnist::kSide, 1}), TensorShape({mnist::kClasses})}});
  const Output x = ops::Placeholder(root, DType::kFloat), y = ops::Placeholder(root, DType::kFloat);
  const Operation put = queue.EnqueueMany(root, {x, y});
  const OutputList get = queue.DequeueMany(root, Const(root, static_cast<int32_t>(kTrainBatch)));
  const Operation close = queue.Close(root, /*cancel_pending_enqueues=*/true);
  const Queue ready = Queue::Fifo(root.WithOpName("ready"), {DType::kFloat, DType::kFloat}, {.capacity = 2});
  const Operation put_ready = ready.Enqueue(root, {get[0], get[1]});
  const OutputList get_ready = ready.Dequeue(root);
  const Operation close_ready = ready.Close(root, /*cancel_pending_enqueues=*/true);
  const Output summary = ops::ScalarSummary(root, "loss", model.loss);
  const bool summaries = flags.mode == "summaries";
  const auto writer = summaries ? Need(train::FileWriter::Create(files::Join(flags.folder, "events")))
                                : std::unique_ptr<train::FileWriter>();
  SessionOptions options;
  options.runtime_options.threads = flags.threads;
  const auto session = Need(Session::Create(options));
  Need(session->Extend(*root.graph()));
  Need(session->Run({}, {}, {model.init.name()}, nullptr));
  const Callable step =
      Need(session->Prepare({model.images.name(), model.labels.name(), model.keep.name(), model.learning_rate.name()},
                            summaries ? Names{summary.name()} : Names{}, {model.train.name()}));
  const Callable enqueue = Need(session->Prepare({x.name(), y.name()}, {}, {put.name()}));
  const bool batches_ready = flags.mode == "batches";
  const OutputList& from = batches_ready ? get_ready : get;
  const Callable dequeue = Need(session->Prepare({}, {from[0].name(), from[1].name()}, {}));
  const Callable make_ready = Need(session->Prepare({}, {}, {put_ready.name()}));
  const Tensor keep = Tensor::Scalar(static_cast<float>(model.train_keep)), rate = Tensor::Scalar(1e-3f);

  std::vector<Element> in_memory;
  for (int64_t at = 0; at < rows; at += kTrainBatch)
    in_memory.push_back({digits.train.Images(at, at + kTrainBatch), digits.train.Labels(at, at + kTrainBatch)});
  const auto batches = Need(Dataset::FromTensors({images, labels}).Repeat(-1).Batch(kTrainBatch).Prefetch(2).Iterate());
  std::thread filler, batcher;
  if (flags.mode == "queue" || batches_ready) {
    filler = std::thread([&] {
      for (size_t i = 0;; ++i) {
        const Element& e = in_memory[i % in_memory.size()];
        if (!enqueue.Run({e[0], e[1]}, nullptr).ok()) return;  // closed
      }
    });
  }
  if (batches_ready) {
    batcher = std::thread([&] {
      while (make_ready.Run({}, nullptr).ok()) {
      }
    });
  }
  size_t next = 0;
  int64_t steps = 0;
  Element batch;
  std::vector<Tensor> out;
  const auto run = [&] {
    if (flags.mode == "memory" || summaries) batch = in_memory[next++ % in_memory.size()];
    if (flags.mode == "dataset") Need(batches->Next(&batch));
    if (flags.mode == "queue" || batches_ready) Need(dequeue.Run({}, &batch));
    Need(step.Run({batch[0], batch[1], keep, rate}, &out));
    if (summaries) Need(writer->AddSummary(out[0].scalar<std::string>(), ++steps));
  };
  for (int i = 0; i < 50; ++i) run();
  const int code = Serve("{}", [&] { return kTrainBatch / Sample(flags.seconds, run); });
  if (filler.joinable()) {
    Need(session->Run({}, {}, {close.name(), close_ready.name()}, nullptr));
    filler.join();
  }
  if (batcher.joinable()) batcher.join();
  return code;
}

int Main(const Flags& flags) {
  if (flags.mode == "write") return Write(flags);
  if (flags.mode == "records") return Records(flags);
  if (flags.mode == "pictures") return Pictures(flags);
  if (flags.mode == "memory" || flags.mode == "dataset" || flags.mode == "queue" || flags.mode == "batches" ||
      flags.mode == "summaries") {
    return Train(flags);
  }
  std::fprintf(stderr, "input: there is no mode '%s'\n", flags.mode.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Times record files, pictures, and training from a data set or a queue");
  app.add_option("mode", flags.mode)->required();
  app.add_option("folder", flags.folder);
  app.add_option("--threads", flags.threads);
  app.add_option("--seconds", flags.seconds);
  CLI11_PARSE(app, argc, argv);
  return Main(flags);
}
