// Running what graph/train builds.
#ifndef TROUPE_TESTS_TRAIN_RUN_H_
#define TROUPE_TESTS_TRAIN_RUN_H_

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "graph/train/build.h"
#include "troupe/const.h"
#include "troupe/operators.h"
#include "troupe/session.h"
#include "troupe/variable.h"

namespace troupe::testing {

using train::Build;

// A session over the scope's graph with its variables initialized.
inline std::unique_ptr<Session> Start(const Scope& s) {
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
  const Operation init = GlobalVariablesInitializer(s);
  auto session = Session::Create();
  BOOST_REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  absl::Status status = (*session)->Extend(*s.graph());
  BOOST_REQUIRE_MESSAGE(status.ok(), status.ToString());
  std::vector<Tensor> out;
  status = (*session)->Run({}, {}, {init.name()}, &out);
  BOOST_REQUIRE_MESSAGE(status.ok(), status.ToString());
  return *std::move(session);
}

inline std::vector<Tensor> Fetch(Session& session, const std::vector<Output>& outs, const Feeds& feeds = {},
                                 const Names& targets = {}) {
  Names names;
  for (const Output& o : outs) names.push_back(o.name());
  std::vector<Tensor> values;
  const absl::Status status = session.Run(feeds, names, targets, &values);
  BOOST_REQUIRE_MESSAGE(status.ok(), status.ToString());
  return values;
}

inline std::vector<double> Doubles(const Tensor& t) {
  std::vector<double> v;
  for (int64_t i = 0; i < t.num_elements(); ++i)
    v.push_back(t.dtype() == DType::kFloat ? t.data<float>()[i] : t.data<double>()[i]);
  return v;
}

inline void CheckNear(const std::vector<double>& got, const std::vector<double>& want, double tolerance,
                      const std::string& what) {
  BOOST_REQUIRE_MESSAGE(got.size() == want.size(), what << ": " << got.size() << " values, not " << want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    BOOST_CHECK_MESSAGE(std::abs(got[i] - want[i]) <= tolerance * std::max(1.0, std::abs(want[i])),
                        what << "[" << i << "]: " << got[i] << ", not " << want[i]);
  }
}

}  // namespace troupe::testing

#endif  // TROUPE_TESTS_TRAIN_RUN_H_
