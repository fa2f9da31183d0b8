// A step fails its check, and is told to end while its node's inputs are being written on a slow
// disk; then the program ends. Prints the files as they are written.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "tests/checkpoint/held_files.h"
#include "troupe/troupe.h"

int main() {
  using namespace troupe;
  const auto slow = std::make_shared<HeldFiles>([](std::string_view op, const std::string& path) {
    if (op == "MakeDirectory") std::this_thread::sleep_for(std::chrono::seconds(3));
    if (op != "Append") return;
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);
  });
  if (!files::RegisterFileSystem("slow", slow).ok()) return 3;
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  ops::Log(root.WithOpName("log"), x);
  const auto session = Session::Create().value();
  if (!session->Extend(*root.graph()).ok()) return 1;
  RunOptions checked;
  checked.check_numerics = true;
  checked.numerics_folder = "slow://dumps";
  checked.timeout_ms = 100;
  std::vector<Tensor> out;
  const absl::Status s = session->Run(checked, {{"x", Tensor::Scalar(-1.0f)}}, {"log"}, {}, &out, nullptr);
  std::printf("%s\n", s.ToString().c_str());
  std::fflush(stdout);
  return s.code() == absl::StatusCode::kDeadlineExceeded ? 0 : 2;
}
