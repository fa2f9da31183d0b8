// Variables and ops on them without a graph runtime.
#ifndef TROUPE_TESTS_STATE_STATE_TEST_UTIL_H_
#define TROUPE_TESTS_STATE_STATE_TEST_UTIL_H_

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "kernels/state/variable_slot.h"
#include "troupe/evaluate.h"

namespace troupe {

inline absl::StatusOr<std::vector<Tensor>> Try(std::string_view op, std::vector<Tensor> inputs, AttrMap attrs = {},
                                               const EvaluateOptions& options = {}) {
  return EvaluateOp(op, std::move(inputs), std::move(attrs), {}, options);
}

// The outputs; an error fails the test with its text.
inline std::vector<Tensor> Run(std::string_view op, std::vector<Tensor> inputs, AttrMap attrs = {},
                               const EvaluateOptions& options = {}) {
  absl::StatusOr<std::vector<Tensor>> r = Try(op, std::move(inputs), std::move(attrs), options);
  BOOST_REQUIRE_MESSAGE(r.ok(), std::string(op) << ": " << r.status().ToString());
  return *std::move(r);
}

// A status of this code whose text holds `part`.
template <class R>
void CheckFails(const R& r, absl::StatusCode code, const std::string& part) {
  BOOST_REQUIRE_MESSAGE(!r.ok(), "must fail with '" << part << "'");
  BOOST_TEST(r.status().ToString().find(part) != std::string::npos, r.status().ToString());
  BOOST_TEST((r.status().code() == code), r.status().ToString());
}

inline std::string FreshName() {
  static int n = 0;
  return "variable_" + std::to_string(n++);
}

// A handle (resource or reference) of a new variable, uninitialised.
inline Tensor NewVariable(bool by_ref, DType dtype, const PartialTensorShape& shape, std::string name = FreshName()) {
  return Run(by_ref ? "VariableV2" : "VarHandleOp", {}, {{"dtype", dtype}, {"shape", shape}, {"shared_name", name}})[0];
}
inline VariableSlot* SlotOf(const Tensor& handle) {
  return static_cast<const ResourceHandle*>(handle.raw())->As<VariableSlot>();
}
inline Tensor NewVariable(bool by_ref, const Tensor& value) {
  Tensor handle = NewVariable(by_ref, value.dtype(), value.shape());
  BOOST_REQUIRE(SlotOf(handle)->Assign(value.Clone()).ok());
  return handle;
}
inline Tensor ValueOf(const Tensor& handle) {
  absl::StatusOr<Tensor> v = SlotOf(handle)->Read();
  BOOST_REQUIRE_MESSAGE(v.ok(), v.status().ToString());
  return *std::move(v);
}

// Values as text: "float32 [2] [1 2]".
inline std::string Text(const Tensor& t) { return t.DebugString(100); }

}  // namespace troupe

#endif  // TROUPE_TESTS_STATE_STATE_TEST_UTIL_H_
