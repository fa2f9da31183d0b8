// A device of the program's own, whose memory is not the host's: nobody but its kernels and its
// copies may touch the bytes.
#include <condition_variable>
#include <map>
#include <mutex>

#include "tests/actors/graphs.h"
#include "troupe/actors.h"
#include "troupe/device.h"
#include "troupe/kernel.h"
#include "troupe/node_builder.h"
#include "troupe/proto/config.pb.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/shape_inference.h"
#include "troupe/troupe.h"

namespace troupe {
namespace own_device_test {

BOOST_AUTO_TEST_SUITE(own_device)

// Addresses of the device are no addresses of the host: whoever follows one there is stopped by the
// processor.
constexpr uintptr_t kElsewhere = uintptr_t{1} << 62;
void* There(void* p) { return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(p) | kElsewhere); }
void* Here(void* p) { return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(p) & ~kElsewhere); }
template <class T>
T* On(const Tensor& t) {
  BOOST_REQUIRE((t.memory() == MemoryKind::kDevice));
  return static_cast<T*>(Here(t.buffer()->data()));
}

struct Counts {
  std::atomic<int64_t> blocks{0}, in{0}, out{0}, runs{0}, syncs{0};
};

class FarMemory : public BlockSource {
 public:
  explicit FarMemory(Counts* counts) : counts_(counts) {}
  void* Take(size_t bytes) override {
    ++counts_->blocks;
    return There(std::aligned_alloc(64, bytes));
  }
  void Give(void* block, size_t) override {
    --counts_->blocks;
    std::free(Here(block));
  }
  MemoryKind memory() const override { return MemoryKind::kDevice; }

 private:
  Counts* const counts_;
};

class FarDevice : public Device {
 public:
  FarDevice(Counts* counts, std::shared_ptr<Allocator> memory)
      : Device("/job:localhost/replica:0/task:0/device:FAR:0", "FAR", 77, memory.get(),
               std::make_shared<ComputeThreads>(1), std::make_shared<ResourceContainers>()),
        counts_(counts),
        memory_(std::move(memory)) {}
  void Copy(const Tensor& from, MemoryKind to, CopyDone done) override {
    const bool in = to == MemoryKind::kDevice;
    ++(in ? counts_->in : counts_->out);
    Tensor copy(in ? allocator() : Allocator::Cpu(), from.dtype(), from.shape());
    if (!copy.valid()) return done(ResourceExhausted("no memory for a copy of ", from.TypeAndShape()));
    if (from.bytes() > 0) std::memcpy(Here(copy.buffer()->data()), Here(from.buffer()->data()), from.bytes());
    done(std::move(copy));
  }
  bool runs_kernels() const override { return true; }
  absl::Status Run(absl::Status (*compute)(KernelContext&), KernelContext& ctx) override {
    ++counts_->runs;
    return compute(ctx);
  }
  absl::Status Sync() override {
    ++counts_->syncs;
    return std::exchange(failure, absl::OkStatus());
  }
  absl::Status failure;  // of the next Sync

 private:
  Counts* const counts_;
  const std::shared_ptr<Allocator> memory_;
};

// Kernels for it: one of two inputs, and one whose second input is in host memory.
absl::Status ComputeAdd(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, ctx.input(0).shape()));
  const float *a = On<float>(ctx.input(0)), *b = On<float>(ctx.input(1));
  for (int64_t i = 0; i < out->num_elements(); ++i) On<float>(*out)[i] = a[i] + b[i];
  return absl::OkStatus();
}
TROUPE_KERNEL("AddV2").Device("FAR").Type<float>("T").Function<ComputeAdd>();
absl::Status ComputeReshape(KernelContext& ctx) {
  const Tensor& dims = ctx.input(1);
  TensorShape shape;
  for (int64_t i = 0; i < dims.num_elements(); ++i) shape.AddDim(dims.data<int32_t>()[i]);
  ctx.set_output(0, ctx.TakeInput(0).Reshaped(shape));
  return absl::OkStatus();
}
TROUPE_KERNEL("Reshape").Device("FAR").Type<float>("T").HostMemory("shape").Function<ComputeReshape>();

struct Far {
  Far() {
    memory = std::make_shared<Allocator>("far", 64 << 20, std::make_shared<FarMemory>(&counts));
    device = std::make_shared<FarDevice>(&counts, memory);
    options.runtime = Runtime::Start({.threads = 2, .devices = {device}}).value();
  }
  Scope OnFar() const { return root.WithDevice("/device:FAR:0"); }
  Counts counts;
  std::shared_ptr<Allocator> memory;
  std::shared_ptr<FarDevice> device;
  SessionOptions options;
  Scope root = Scope::NewRootScope();
};

BOOST_FIXTURE_TEST_CASE(a_graph_is_cut_between_the_cpu_and_the_device, Far) {
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  const Output twice = ops::AddV2(OnFar().WithOpName("twice"), x, x);
  const Output four = ops::AddV2(OnFar().WithOpName("four"), twice, twice);
  const Output back = ops::Neg(root.WithOpName("back").WithDevice("/device:CPU:0"), four);
  const Output flat =
      ops::Reshape(OnFar().WithOpName("flat"), four, ops::Size(root.WithDevice("/device:CPU:0"), x) + Const(root, {0}));
  const Output with_constant = ops::AddV2(OnFar().WithOpName("with_constant"), four, Const(root, {{1.0f, 2.0f}}));
  {
    auto session = NewSession(root, options);
    std::vector<Tensor> out;
    for (int i = 0; i < 3; ++i) {
      const int64_t in = counts.in, to_host = counts.out;
      TROUPE_REQUIRE_OK(session->Run({{x.name(), Tensor::Of<float>({1.0f, 2.0f}, TensorShape({1, 2}))}},
                                     {back.name(), flat.name(), with_constant.name(), four.name()}, {}, &out));
      for (const Tensor& t : out) BOOST_TEST((t.memory() == MemoryKind::kHost));
      BOOST_TEST(out[0].data<float>()[1] == -8);
      BOOST_TEST(out[1].DebugString() == "float32 [2] [4 8]");
      BOOST_TEST(out[2].DebugString() == "float32 [1,2] [5 10]");
      BOOST_TEST(out[3].DebugString() == "float32 [1,2] [4 8]");
      // x and the constant in; four, flat and with_constant out, each once.
      BOOST_TEST(counts.in - in == 2);
      BOOST_TEST(counts.out - to_host == 3);
      BOOST_TEST(counts.syncs == i + 1);
    }
    BOOST_TEST(counts.runs >= 3 * 4);
    BOOST_TEST(memory->stats().peak_bytes_in_use > 0);
  }
  BOOST_TEST(counts.blocks == 0);
  BOOST_TEST(memory->stats().bytes_in_use == 0);
}

BOOST_FIXTURE_TEST_CASE(control_flow_runs_on_the_device, Far) {
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  const OutputList r = While(
      OnFar(), {Const(root.WithDevice("/device:CPU:0"), 0), x},
      [](const Scope& s, const OutputList& v) { return ops::Less(s.WithDevice("/device:CPU:0"), v[0], 5); },
      [](const Scope& s, const OutputList& v) -> OutputList {
        return {ops::Add(s.WithDevice("/device:CPU:0"), v[0], 1),
                ops::AddV2(s.WithDevice("/device:FAR:0"), v[1], v[1])};
      });
  const Output y = ops::Identity(root.WithDevice("/device:CPU:0"), r[1]);
  auto session = NewSession(root, options);
  BOOST_TEST(RunOne(*session, {{x.name(), Tensor::Vector({1.0f, 3.0f})}}, y).DebugString() == "float32 [2] [32 96]");
  session = nullptr;
  BOOST_TEST(counts.blocks == 0);
}

BOOST_FIXTURE_TEST_CASE(what_fails_there_is_the_steps_error, Far) {
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  const Output y = ops::AddV2(OnFar().WithOpName("y"), x, x);
  auto session = NewSession(root, options);
  const Feeds feeds = {{x.name(), Tensor::Vector({1.0f})}};
  RunOne(*session, feeds, y);
  std::vector<Tensor> out;
  device->failure = Internal("the queue broke");
  absl::Status s = session->Run(feeds, {y.name()}, {}, &out);
  BOOST_TEST((s.code() == absl::StatusCode::kInternal), s);
  BOOST_TEST(s.ToString().find("FAR:0: the queue broke") != std::string::npos, s);
  RunOne(*session, feeds, y);
  // Its memory has a limit of its own, and the error names who holds it.
  s = session->Run({{x.name(), Tensor(DType::kFloat, TensorShape({10 << 20}))}}, {y.name()}, {}, &out);
  BOOST_TEST((s.code() == absl::StatusCode::kResourceExhausted), s);
  BOOST_TEST(s.ToString().find("_arg_x_0/_ToDevice0' (_CopyToDevice) (40.0 MiB in 1 tensor)") != std::string::npos, s);
}

BOOST_FIXTURE_TEST_CASE(its_bytes_leave_only_by_a_copy, Far) {
  const Tensor far(memory.get(), DType::kFloat, TensorShape({4}));
  BOOST_TEST((far.memory() == MemoryKind::kDevice));
  BOOST_TEST(far.DebugString() == "float32 [4] in a device's memory");
  BOOST_TEST(!far.Clone().valid());
  BOOST_TEST(!Tensor::Scalar(1.0f).Clone(memory.get()).valid());
  BOOST_TEST((far.Slice(1, 2).memory() == MemoryKind::kDevice));
  BOOST_TEST((far.Reshaped(TensorShape({2, 2})).memory() == MemoryKind::kDevice));
  const Tensor words(memory.get(), DType::kString, TensorShape({2}));
  BOOST_TEST((words.memory() == MemoryKind::kHost));
  BOOST_TEST(memory->ChargeOf(*far.buffer()) == 64);
  BOOST_TEST(memory->ChargeOf(*Tensor::Scalar(1.0f).buffer()) == 0);
  BOOST_TEST(memory->stats().bytes_in_use == 64 + 128);
  Tensor kept = far;
  BOOST_TEST(counts.blocks == 1);
  memory->SetLimit(64);
  BOOST_TEST(!Tensor(memory.get(), DType::kFloat, TensorShape({1})).valid());
  BOOST_TEST(!Allocator::Cpu()->SetLimit(1));
}

BOOST_FIXTURE_TEST_CASE(devices_that_cannot_be_are_refused, Far) {
  const auto refused = [](std::vector<std::shared_ptr<Device>> devices, const char* why) {
    const auto runtime = Runtime::Start({.devices = std::move(devices)});
    BOOST_TEST(!runtime.ok());
    BOOST_TEST(runtime.status().ToString().find(why) != std::string::npos, runtime.status());
  };
  refused({nullptr}, "null");
  refused({device, device}, "twice");
  const auto named = [&](const char* name, const char* type) {
    return std::make_shared<Device>(name, type, 1, Allocator::Cpu(), std::make_shared<ComputeThreads>(1),
                                    std::make_shared<ResourceContainers>());
  };
  refused({named("/device:FAR:0", "FAR")}, "/device:FAR:0");
  refused({named("/job:localhost/replica:0/task:0/device:CPU:3", "CPU")}, "CPU");
  refused({named("/job:localhost/replica:0/task:0/device:FAR:3", "NEAR")}, "NEAR");
  refused({named("/job:localhost/replica:0/task:1/device:FAR:3", "FAR")}, "task:1");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace own_device_test
}  // namespace troupe
