// What tests of wrong programs share.
#ifndef TROUPE_TESTS_API_WRONG_CODE_H_
#define TROUPE_TESTS_API_WRONG_CODE_H_

#include <boost/test/unit_test.hpp>
#include <string>

#include "troupe/emit.h"
#include "troupe/troupe.h"

namespace troupe {

// The error says so.
inline void Has(const absl::Status& status, const std::string& part) {
  BOOST_TEST(status.ToString().find(part) != std::string::npos, status.ToString() << " should have: " << part);
}

inline Output Feed(const Scope& s, const std::string& name, DType dtype = DType::kFloat,
                   const PartialTensorShape& shape = TensorShape()) {
  return EmitOp(s.WithOpName(name), "Placeholder", {}, {{"dtype", dtype}, {"shape", shape}}).output(0);
}

}  // namespace troupe

#endif  // TROUPE_TESTS_API_WRONG_CODE_H_
