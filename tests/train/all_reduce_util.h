// Graphs that reduce values of several devices of one process, and what must come of them.
//
// Thread rule: one thread.
#ifndef TROUPE_TESTS_TRAIN_ALL_REDUCE_UTIL_H_
#define TROUPE_TESTS_TRAIN_ALL_REDUCE_UTIL_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/common/check_ok.h"
#include "tests/train/run.h"
#include "troupe/train/all_reduce.h"

namespace troupe::testing {

using train::AllReduceOptions;
using Algorithm = AllReduceOptions::Algorithm;

constexpr Algorithm kBoth[] = {AllReduceOptions::kRing, AllReduceOptions::kTree};

inline std::string DeviceOf(size_t replica) { return StrCat("/device:CPU:", replica); }
inline std::vector<std::string> DevicesOf(size_t replicas) {
  std::vector<std::string> devices;
  for (size_t r = 0; r < replicas; ++r) devices.push_back(DeviceOf(r));
  return devices;
}
inline std::unique_ptr<Session> StartOn(const Scope& s, size_t devices) {
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
  SessionOptions options;
  options.runtime_options.threads = 2;
  options.runtime_options.cpu_devices = static_cast<int>(devices);
  auto session = Session::Create(options);
  BOOST_REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  REQUIRE_OK((*session)->Extend(*s.graph()));
  return *std::move(session);
}
inline Output FedOn(const Scope& s, size_t replica, DType type, const PartialTensorShape& shape = {}) {
  return Build(s.WithDevice(DeviceOf(replica)), "Placeholder", {}, {{"dtype", type}, {"shape", shape}});
}
inline std::string BytesOf(const Tensor& t) { return {static_cast<const char*>(t.raw()), t.bytes()}; }

// Element j of replica r: small whole numbers, so that their sums are exact in all types.
template <class T>
Tensor ValueOf(size_t replica, const TensorShape& shape) {
  Tensor t(kDTypeOf<T>, shape);
  for (int64_t j = 0; j < t.num_elements(); ++j)
    t.data<T>()[j] = static_cast<T>(static_cast<float>((static_cast<int64_t>(replica) * 3 + j) % 7));
  return t;
}
// The sum, or the mean as the type has it.
template <class T>
Tensor Expected(size_t replicas, const TensorShape& shape, bool mean) {
  Tensor t(kDTypeOf<T>, shape);
  for (int64_t j = 0; j < t.num_elements(); ++j) {
    float sum = 0;
    for (size_t r = 0; r < replicas; ++r) sum += static_cast<float>((static_cast<int64_t>(r) * 3 + j) % 7);
    T value = static_cast<T>(sum);
    if (mean) value = static_cast<T>(value / static_cast<T>(static_cast<float>(replicas)));
    t.data<T>()[j] = value;
  }
  return t;
}

}  // namespace troupe::testing

#endif  // TROUPE_TESTS_TRAIN_ALL_REDUCE_UTIL_H_
