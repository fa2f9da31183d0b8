// A device of the program's own, beside the CPU: it has a type, a kernel for that type, and says
// how its kernels are run. This one plays an analogue computer that multiplies matrices with some
// eight bits of precision, and counts what it does.
#include <atomic>
#include <cmath>
#include <cstdio>

#include "troupe/device.h"
#include "troupe/kernel.h"
#include "troupe/troupe.h"

using namespace troupe;

namespace {

class Analogue : public Device {
 public:
  // Its memory is the host's: no copy is needed between it and the CPU.
  Analogue()
      : Device("/job:localhost/replica:0/task:0/device:ANALOGUE:0", "ANALOGUE", 1, Allocator::Cpu(),
               std::make_shared<ComputeThreads>(1), std::make_shared<ResourceContainers>()) {}
  bool runs_kernels() const override { return true; }
  absl::Status Run(absl::Status (*compute)(KernelContext&), KernelContext& ctx) override {
    ++runs;
    return compute(ctx);
  }
  std::atomic<int> runs{0};
};

// To 1/128 of the next power of two.
float Coarse(float x) {
  int exponent = 0;
  const float mantissa = std::frexp(x, &exponent);
  return std::ldexp(std::round(mantissa * 128) / 128, exponent);
}

absl::Status ComputeProduct(KernelContext& ctx) {
  const Tensor &a = ctx.input(0), &b = ctx.input(1);
  if (a.rank() != 2 || b.rank() != 2 || a.dim(1) != b.dim(0))
    return absl::InvalidArgumentError("the matrices do not fit together");
  TROUPE_ASSIGN_OR_RETURN(Tensor* const y, ctx.AllocateOutput(0, TensorShape({a.dim(0), b.dim(1)})));
  for (int64_t i = 0; i < a.dim(0); ++i) {
    for (int64_t j = 0; j < b.dim(1); ++j) {
      float sum = 0;
      for (int64_t k = 0; k < a.dim(1); ++k)
        sum += Coarse(a.data<float>()[i * a.dim(1) + k]) * Coarse(b.data<float>()[k * b.dim(1) + j]);
      y->data<float>()[i * b.dim(1) + j] = Coarse(sum);
    }
  }
  return absl::OkStatus();
}
TROUPE_KERNEL("MatMul").Device("ANALOGUE").Type<float>("T").Function<ComputeProduct>();

absl::Status Run() {
  const auto device = std::make_shared<Analogue>();
  SessionOptions options;
  options.runtime_options.threads = 2;
  options.runtime_options.devices = {device};
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  const Output coarse = ops::MatMul(root.WithDevice("/device:ANALOGUE:0"), x, x);
  const Output exact = ops::MatMul(root.WithDevice("/cpu:0"), x, x);
  const Output error = ops::Abs(root, ops::Sub(root, coarse, exact));
  TROUPE_RETURN_IF_ERROR(root.status());
  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(options));
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  std::vector<Tensor> out;
  const Tensor value = Tensor::Of<float>({1.001f, 2, 3, 4.002f}, TensorShape({2, 2}));
  TROUPE_RETURN_IF_ERROR(session->Run({{x, value}}, {exact, error}, {}, &out));
  float most = 0;
  for (int64_t i = 0; i < 4; ++i) most = std::max(most, out[1].data<float>()[i] / out[0].data<float>()[i]);
  std::printf("%d kernels on %s, off by %.4f at most\n", device->runs.load(), device->name().c_str(), most);
  if (device->runs == 0 || most == 0 || most > 0.02f) return absl::InternalError("the device did not do its work");
  return session->Close();
}

}  // namespace

int main() {
  const absl::Status status = Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() && std::fflush(stdout) == 0 ? 0 : 1;
}
