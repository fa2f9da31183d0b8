// Times steps of one GraphDef through TensorFlow's C API, as run_main.cc does through ours.
// tools/bench compiles it on the spot against an installed TensorFlow.
//
//   tensorflow_steps GRAPH.pb MODE THREADS CALLERS SECONDS OPTIMIZE
//
// MODE is steps, pair, first or signature, as there. OPTIMIZE 0 switches the rewriting of graphs
// off, so that every node of the graph is a node of the step.
#include <tensorflow/c/c_api.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tools/benchmarks/serve.h"

namespace {

using namespace troupe::bench;  // NOLINT

struct Flags {
  std::string file, mode;
  int threads = 1, callers = 0;
  double seconds = 0.1;
  bool optimize = false;
};

// The few fields of a ConfigProto that matter here, in the wire format.
void Varint(std::string* out, uint64_t v) {
  for (; v >= 128; v >>= 7) out->push_back(static_cast<char>(v | 128));
  out->push_back(static_cast<char>(v));
}
void Number(std::string* out, int field, int64_t v) {
  Varint(out, static_cast<uint64_t>(field) << 3);
  Varint(out, static_cast<uint64_t>(v));
}
void Message(std::string* out, int field, const std::string& m) {
  Varint(out, static_cast<uint64_t>(field) << 3 | 2);
  Varint(out, m.size());
  out->append(m);
}
std::string Config(const Flags& flags) {
  std::string config, graph_options, optimizer, rewrite;
  Number(&config, 2, flags.threads);  // intra_op_parallelism_threads
  Number(&config, 5, flags.threads);  // inter_op_parallelism_threads
  if (!flags.optimize) {
    Number(&optimizer, 3, -1);  // opt_level L0
    Number(&rewrite, 19, 1);    // disable_meta_optimizer
    Message(&graph_options, 3, optimizer);
    Message(&graph_options, 10, rewrite);
    Message(&config, 10, graph_options);
  }
  return config;
}

class Steps {
 public:
  Steps(const Flags& flags, const std::string& bytes)
      : flags_(flags), bytes_(bytes), config_(Config(flags)), status_(TF_NewStatus()) {}

  // Imports into a new graph and session, and runs the first step. Seconds.
  double First() {
    Drop();
    const Clock::time_point start = Clock::now();
    graph_ = TF_NewGraph();
    TF_Buffer* buffer = TF_NewBufferFromString(bytes_.data(), bytes_.size());
    TF_ImportGraphDefOptions* import = TF_NewImportGraphDefOptions();
    TF_GraphImportGraphDef(graph_, buffer, import, status_);
    Check(status_);
    TF_SessionOptions* options = TF_NewSessionOptions();
    TF_SetConfig(options, config_.data(), config_.size(), status_);
    Check(status_);
    session_ = TF_NewSession(graph_, options, status_);
    Check(status_);
    if (TF_Operation* done = TF_GraphOperationByName(graph_, "done")) targets_.push_back(done);
    if (TF_Operation* z = TF_GraphOperationByName(graph_, "z")) fetches_.push_back({z, 0});
    for (const char* name : {"x", "y"}) Feed(name);
    Run(fetches_, targets_, status_);
    const double seconds = SecondsSince(start);
    TF_DeleteSessionOptions(options);
    TF_DeleteImportGraphDefOptions(import);
    TF_DeleteBuffer(buffer);
    return seconds;
  }

  int nodes() const {
    int n = 0;
    for (size_t at = 0; TF_GraphNextOperation(graph_, &at) != nullptr;) ++n;
    return n;
  }

  double Step() {
    if (flags_.callers == 0) return Sample(flags_.seconds, [this] { Run(fetches_, targets_, status_); });
    std::atomic<bool> go{false}, stop{false};
    std::atomic<int64_t> steps{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < flags_.callers; ++i) {
      threads.emplace_back([&] {
        TF_Status* status = TF_NewStatus();
        while (!go.load()) std::this_thread::yield();
        int64_t mine = 0;
        for (; !stop.load(std::memory_order_relaxed); ++mine) Run(fetches_, targets_, status);
        steps += mine;
        TF_DeleteStatus(status);
      });
    }
    const Clock::time_point start = Clock::now();
    go = true;
    std::this_thread::sleep_for(std::chrono::duration<double>(flags_.seconds * 2));
    stop = true;
    for (std::thread& t : threads) t.join();
    return SecondsSince(start) / static_cast<double>(std::max<int64_t>(1, steps));
  }

  double NewSignature() {
    if (layer_ < 0) {
      layer_ = 0;
      while (TF_GraphOperationByName(graph_, ("layer" + std::to_string(layer_)).c_str()) != nullptr) ++layer_;
    }
    if (layer_ == 0) std::exit(1);
    TF_Operation* op = TF_GraphOperationByName(graph_, ("layer" + std::to_string(--layer_)).c_str());
    const Clock::time_point start = Clock::now();
    Run({{op, 0}}, {}, status_);
    return SecondsSince(start);
  }

  // A step of the target "put", then one of the fetch "get".
  double Pair() {
    const std::vector<const TF_Operation*> put = {TF_GraphOperationByName(graph_, "put")};
    const std::vector<TF_Output> get = {{TF_GraphOperationByName(graph_, "get"), 0}};
    if (put[0] == nullptr || get[0].oper == nullptr) std::exit(1);
    return Sample(flags_.seconds, [&] {
      Run({}, put, status_);
      Run(get, {}, status_);
    });
  }

 private:
  static void Check(TF_Status* status) {
    if (TF_GetCode(status) == TF_OK) return;
    std::fprintf(stderr, "tensorflow_steps: %s\n", TF_Message(status));
    std::exit(1);
  }

  void Drop() {
    if (session_ != nullptr) {
      TF_CloseSession(session_, status_);
      TF_DeleteSession(session_, status_);
      TF_DeleteGraph(graph_);
      for (TF_Tensor* t : values_) TF_DeleteTensor(t);
    }
    feeds_.clear();
    values_.clear();
    fetches_.clear();
    targets_.clear();
  }

  void Feed(const char* name) {
    TF_Operation* op = TF_GraphOperationByName(graph_, name);
    if (op == nullptr) return;
    const int rank = std::max(0, TF_GraphGetTensorNumDims(graph_, {op, 0}, status_));
    std::vector<int64_t> dims(static_cast<size_t>(rank));
    if (rank > 0) TF_GraphGetTensorShape(graph_, {op, 0}, dims.data(), rank, status_);
    size_t count = 1;
    for (const int64_t d : dims) count *= static_cast<size_t>(d);
    TF_Tensor* value = TF_AllocateTensor(TF_FLOAT, dims.data(), rank, count * sizeof(float));
    float* data = static_cast<float*>(TF_TensorData(value));
    for (size_t i = 0; i < count; ++i) data[i] = 0.001f;
    feeds_.push_back({op, 0});
    values_.push_back(value);
  }

  void Run(const std::vector<TF_Output>& fetches, const std::vector<const TF_Operation*>& targets, TF_Status* status) {
    std::vector<TF_Tensor*> results(fetches.size());
    TF_SessionRun(session_, nullptr, feeds_.data(), values_.data(), static_cast<int>(feeds_.size()), fetches.data(),
                  results.data(), static_cast<int>(fetches.size()), targets.data(), static_cast<int>(targets.size()),
                  nullptr, status);
    Check(status);
    for (TF_Tensor* t : results) TF_DeleteTensor(t);
  }

  const Flags flags_;
  const std::string bytes_, config_;
  TF_Status* status_;
  TF_Graph* graph_ = nullptr;
  TF_Session* session_ = nullptr;
  std::vector<const TF_Operation*> targets_;
  std::vector<TF_Output> fetches_, feeds_;
  std::vector<TF_Tensor*> values_;
  int layer_ = -1;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7)
    return std::fprintf(stderr, "usage: tensorflow_steps GRAPH.pb MODE THREADS CALLERS SECONDS OPTIMIZE\n"), 2;
  const Flags flags = {
      argv[1], argv[2], std::atoi(argv[3]), std::atoi(argv[4]), std::atof(argv[5]), std::atoi(argv[6]) != 0};
  std::ifstream in(flags.file, std::ios::binary);
  Steps steps(flags, std::string(std::istreambuf_iterator<char>(in), {}));
  const double first = steps.First();
  const std::string head = "{\"nodes\":" + std::to_string(steps.nodes()) + ",\"first_run_s\":" + std::to_string(first) +
                           ",\"version\":\"" + TF_Version() + "\"}";
  if (flags.mode == "first") return Serve(head, [&] { return steps.First(); });
  if (flags.mode == "signature") return Serve(head, [&] { return steps.NewSignature(); });
  if (flags.mode == "pair") return Serve(head, [&] { return steps.Pair(); });
  return Serve(head, [&] { return steps.Step(); });
}
