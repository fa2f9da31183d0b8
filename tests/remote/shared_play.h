// What the tests of memory between processes share: steps that use it, and what of it is left.
#ifndef TROUPE_TESTS_REMOTE_SHARED_PLAY_H_
#define TROUPE_TESTS_REMOTE_SHARED_PLAY_H_

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/remote/processes.h"

namespace troupe {

inline constexpr uint32_t kSlot = 4096;

// Files of pools that this process has open.
inline int OpenPools() {
  int pools = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    if (std::filesystem::read_symlink(entry.path(), ignored).string().starts_with("/memfd:troupe-pool")) ++pools;
  }
  return pools;
}

// Places where this process has a pool in its memory, its own or another's.
inline int Mappings() {
  int mappings = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) mappings += line.find("/memfd:troupe-pool") != std::string::npos;
  return mappings;
}

// 20,000 bytes each way: five pieces, of which two are under way.
struct SharedPlay : RemotePlay {
  static constexpr int64_t kFloats = 5000;
  // `lease`: of so many bytes tensors are leased.
  explicit SharedPlay(uint64_t lease = uint64_t{1} << 20) {
    for (const std::string& name : processes->names) {
      Out(name).set_limits(
          {.big = 8, .piece = 16, .under_way = 1, .share = true, .slot = kSlot, .slots = 2, .lease = lease});
    }
  }
  FreightOut& Out(const std::string& task) { return processes->StepsOf(task).freight().out; }
  FreightIn& In(const std::string& task) { return processes->StepsOf(task).freight().in; }
  void RunOnce(float first = 1) {
    Tensor x(DType::kFloat, TensorShape({kFloats}));
    for (int64_t i = 0; i < kFloats; ++i) x.data<float>()[i] = first + static_cast<float>(i);
    answer.reset();
    session->RunAsync({}, {{"x", x}}, {"back"}, {}, [this](absl::Status s, std::vector<Tensor> out) {
      answer = std::move(s);
      outputs = std::move(out);
    });
    stage.Play();
    BOOST_REQUIRE_MESSAGE(State() == "OK", Message());
    BOOST_REQUIRE(outputs.at(0).num_elements() == kFloats);
    int64_t wrong = 0;
    for (int64_t i = 0; i < kFloats; ++i) wrong += outputs.at(0).data<float>()[i] != -first - static_cast<float>(i);
    BOOST_TEST(wrong == 0);
    for (const std::string& name : processes->names) {
      BOOST_TEST(Out(name).size() == 0u, name);
      BOOST_TEST(Out(name).under_way() == 0, name);
      BOOST_TEST(Out(name).slots_taken() == 0u, name);
      BOOST_TEST(Out(name).leases().leased() == 0u, name);
      BOOST_TEST(In(name).size() == 0u, name);
    }
  }
};

}  // namespace troupe

#endif  // TROUPE_TESTS_REMOTE_SHARED_PLAY_H_
