// HistogramSummary: how often values fall into buckets that grow by a tenth each.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/types.h"
#include "kernels/summary/summary.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::summary {
namespace {

TROUPE_OP("HistogramSummary")
    .Input("tag: string")
    .Input("values: T")
    .Output("summary: string")
    .Attr("T: realnumbertype = float")
    .Shape(shape_fn::Scalar)
    .NotDifferentiable(kWhyNoGradient)
    .Doc(
        "A Summary message with the histogram of all elements of `values`, and their number, sum, sum of squares, "
        "least and greatest. Values that are not finite are refused.");

constexpr double kGreatest = std::numeric_limits<double>::max();

// The upper ends of the buckets, which do not belong to them: 1e-12 and each a tenth more up to
// 1e20, the same below 0, and 0.
const std::vector<double>& Limits() {
  static const std::vector<double>* const limits = [] {
    std::vector<double> positive;
    for (double v = 1.0e-12; v < 1.0e20; v *= 1.1) positive.push_back(v);
    positive.push_back(kGreatest);
    auto* all = new std::vector<double>();
    for (auto it = positive.rbegin(); it != positive.rend(); ++it) all->push_back(-*it);
    all->push_back(0.0);
    all->insert(all->end(), positive.begin(), positive.end());
    return all;
  }();
  return *limits;
}

template <class T>
absl::Status ComputeHistogram(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const std::string tag, ScalarString(ctx, 0, "tag"));
  const std::vector<double>& limits = Limits();
  std::vector<double> counts(limits.size(), 0.0);
  double least = kGreatest, greatest = -kGreatest, sum = 0, squares = 0;
  const Tensor& values = ctx.input(1);
  const T* const from = values.data<T>();
  const int64_t n = values.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    const auto v = static_cast<double>(from[i]);
    if (!std::isfinite(v)) {
      return InvalidArgument(std::isnan(v) ? "NaN" : "Infinity", " in the histogram '", CEscape(tag), "', at element ",
                             i);
    }
    const auto at = static_cast<size_t>(std::upper_bound(limits.begin(), limits.end(), v) - limits.begin());
    counts[std::min(at, counts.size() - 1)] += 1.0;
    least = std::min(least, v);
    greatest = std::max(greatest, v);
    sum += v;
    squares += v * v;
  }
  proto::Summary summary;
  proto::Summary::Value* const value = summary.add_value();
  value->set_tag(tag);
  proto::HistogramProto* const histogram = value->mutable_histo();
  histogram->set_min(least);
  histogram->set_max(greatest);
  histogram->set_num(static_cast<double>(n));
  histogram->set_sum(sum);
  histogram->set_sum_squares(squares);
  // Empty buckets in a row are one.
  for (size_t i = 0; i < limits.size(); ++i) {
    if (counts[i] == 0.0) {
      while (i + 1 < limits.size() && counts[i + 1] == 0.0) ++i;
    }
    histogram->add_bucket_limit(limits[i]);
    histogram->add_bucket(counts[i]);
  }
  return SetSummary(ctx, summary);
}

TROUPE_KERNEL("HistogramSummary").Device("CPU").Type<float>("T").Function<ComputeHistogram<float>>();
TROUPE_KERNEL("HistogramSummary").Device("CPU").Type<double>("T").Function<ComputeHistogram<double>>();
TROUPE_KERNEL("HistogramSummary").Device("CPU").Type<Half>("T").Function<ComputeHistogram<Half>>();
TROUPE_KERNEL("HistogramSummary").Device("CPU").Type<BFloat16>("T").Function<ComputeHistogram<BFloat16>>();
TROUPE_KERNEL("HistogramSummary").Device("CPU").Type<int8_t>("T").Function<ComputeHistogram<int8_t>>();
TROUPE_KERNEL("HistogramSummary").Device("CPU").Type<int16_t>("T").Function<ComputeHistogram<int16_t>>();
TROUPE_KERNEL("HistogramSummary").Device("CPU").Type<int32_t>("T").Function<ComputeHistogram<int32_t>>();
TROUPE_KERNEL("HistogramSummary").Device("CPU").Type<int64_t>("T").Function<ComputeHistogram<int64_t>>();
TROUPE_KERNEL("HistogramSummary").Device("CPU").Type<uint8_t>("T").Function<ComputeHistogram<uint8_t>>();
TROUPE_KERNEL("HistogramSummary").Device("CPU").Type<uint16_t>("T").Function<ComputeHistogram<uint16_t>>();
TROUPE_KERNEL("HistogramSummary").Device("CPU").Type<uint32_t>("T").Function<ComputeHistogram<uint32_t>>();
TROUPE_KERNEL("HistogramSummary").Device("CPU").Type<uint64_t>("T").Function<ComputeHistogram<uint64_t>>();

}  // namespace
}  // namespace troupe::summary
