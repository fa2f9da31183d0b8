// Gradients against finite differences, in float64.
#ifndef TROUPE_TESTS_AUTODIFF_NUMERIC_H_
#define TROUPE_TESTS_AUTODIFF_NUMERIC_H_

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "troupe/const.h"
#include "troupe/control_flow.h"
#include "troupe/emit.h"
#include "troupe/gradients.h"
#include "troupe/operators.h"
#include "troupe/session.h"
#include "troupe/variable.h"

namespace troupe::testing {

inline Output Op(const ScopeAt& at, std::string_view op, const std::vector<Input>& in, AttrMap attrs = {}) {
  return EmitOp(at, op, in, std::move(attrs)).output(0);
}
inline Output Source(const Scope& s, const std::string& name, const PartialTensorShape& shape = TensorShape(),
                     DType dtype = DType::kDouble) {
  return Op(s.WithOpName(name), "Placeholder", {}, {{"dtype", dtype}, {"shape", shape}});
}
inline Output SumAll(const Scope& s, const Output& x) {
  return Op(s, "Sum", {x, Op(s, "Range", {0, Op(s, "Rank", {x}), 1})});
}

inline std::vector<Tensor> RunGraph(const Graph& graph, const Feeds& feeds, const Names& fetches,
                                    const Names& before = {}) {
  auto session = Session::Create();
  BOOST_REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  absl::Status s = (*session)->Extend(graph);
  BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
  std::vector<Tensor> out;
  RunOptions options;
  options.timeout_ms = 20000;
  if (!before.empty()) {
    s = (*session)->Run(options, {}, {}, before, &out, nullptr);
    BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
  }
  s = (*session)->Run(options, feeds, fetches, {}, &out, nullptr);
  BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
  return out;
}

// dy/dx as built, against the differences of y, for every element of every x that is fed a float64.
// `y` may have any shape: its elements are added.
inline void CheckGradients(const Scope& s, const Output& y, const std::vector<Output>& xs, const Feeds& feeds,
                           const std::vector<Output>& grads, double tolerance = 1e-5) {
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
  auto session = Session::Create();
  BOOST_REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  absl::Status status = (*session)->Extend(*s.graph());
  BOOST_REQUIRE_MESSAGE(status.ok(), status.ToString());
  RunOptions options;
  options.timeout_ms = 20000;
  Names names;
  for (const Output& g : grads) names.push_back(g.name());
  std::vector<Tensor> got, out;
  status = (*session)->Run(options, feeds, names, {}, &got, nullptr);
  BOOST_REQUIRE_MESSAGE(status.ok(), status.ToString());
  const auto value = [&](const Feeds& f) {
    const absl::Status r = (*session)->Run(options, f, {y.name()}, {}, &out, nullptr);
    BOOST_REQUIRE_MESSAGE(r.ok(), r.ToString());
    double sum = 0;
    for (double v : out[0].flat<double>()) sum += v;
    return sum;
  };
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < xs.size(); ++i) {
    for (size_t f = 0; f < feeds.size(); ++f) {
      if (feeds[f].first != xs[i].node()->name()) continue;
      BOOST_TEST_REQUIRE((got[i].shape() == feeds[f].second.shape()), xs[i].name() << ": " << got[i].TypeAndShape());
      for (int64_t e = 0; e < got[i].num_elements(); ++e) {
        Feeds moved = feeds;
        moved[f].second = feeds[f].second.Clone();
        moved[f].second.data<double>()[e] += kStep;
        const double up = value(moved);
        moved[f].second.data<double>()[e] -= 2 * kStep;
        const double slope = (up - value(moved)) / (2 * kStep);
        const double g = got[i].data<double>()[e];
        BOOST_TEST(std::abs(g - slope) <= tolerance * std::max(1.0, std::abs(slope)),
                   xs[i].name() << "[" << e << "]: gradient " << g << ", slope " << slope);
      }
    }
  }
}

// An x on which y does not depend has zeros.
inline std::vector<Output> GradientsOrZeros(const Scope& s, const Output& y, const std::vector<Output>& xs) {
  GradientOptions options;
  options.unconnected = Unconnected::kZeros;
  return Gradients(s, {y}, xs, {}, options);
}

// As above, for the gradients that Gradients builds.
inline void CheckGradients(const Scope& s, const Output& y, const std::vector<Output>& xs, const Feeds& feeds) {
  CheckGradients(s, y, xs, feeds, GradientsOrZeros(s, y, xs));
}

}  // namespace troupe::testing

#endif  // TROUPE_TESTS_AUTODIFF_NUMERIC_H_
