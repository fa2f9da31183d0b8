// The code of docs/guide/input.md.
#include "tests/docs/pages.h"
#include "troupe/dataset.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

std::vector<std::string> Files() {
  std::vector<std::string> paths = {"mem://guide_points0", "mem://guide_points1"};
  for (const std::string& path : paths) {
    std::string lines;
    for (int i = 0; i < 40; ++i) StrAppend(&lines, 0.1 * i, ",", 0.3 * i - 1, "\n");
    BOOST_REQUIRE(files::Write(path, lines).ok());
  }
  return paths;
}

// [data]
// Lines "x,y" in batches of 16, for ever, in another order each time.
Dataset Points(const std::vector<std::string>& files) {
  return Dataset::TextLines(files).Shuffle(/*buffer=*/100, /*seed=*/7).Repeat().Batch(16).Prefetch(2);
}
// [/data]

// [train]
absl::Status Fit(DatasetIterator* batches, Session* session, const Output& lines, const Operation& step, int steps) {
  Element batch;
  for (int i = 0; i < steps; ++i) {
    TROUPE_ASSIGN_OR_RETURN(const bool more, batches->Next(&batch));
    if (!more) break;
    TROUPE_RETURN_IF_ERROR(session->Run({{lines, batch[0]}}, {}, {step}, nullptr));
  }
  return absl::OkStatus();
}
// [/train]

// [graph]
struct Line {
  Output lines, w, b;
  Operation step, init;
};
Line Build(const Scope& root) {
  Line m;
  m.lines = ops::Placeholder(root, DType::kString, {.shape = {-1}});
  const Output none = Const(root, Tensor(DType::kFloat, {0}));  // both columns must be there
  const OutputList xy = ops::DecodeCSV(root, m.lines, {none, none});
  Variable w(root.WithOpName("w"), 0.0f), b(root.WithOpName("b"), 0.0f);
  const Output error = w * xy[0] + b - xy[1];
  m.step = train::Adam(0.1).Minimize(root, ops::Mean(root, error * error));
  m.init = GlobalVariablesInitializer(root);
  m.w = w;
  m.b = b;
  return m;
}
// [/graph]

BOOST_AUTO_TEST_CASE(training_from_a_data_set) {
  Scope root = Scope::NewRootScope();
  const Line m = Build(root);
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  const auto session = *Session::Create();
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  BOOST_REQUIRE(session->Run({}, {}, {m.init}, nullptr).ok());
  const Dataset data = Points(Files());
  const auto batches = *data.Iterate();
  const absl::Status fitted = Fit(batches.get(), session.get(), m.lines, m.step, 800);
  BOOST_REQUIRE_MESSAGE(fitted.ok(), fitted);
  std::vector<Tensor> out;
  BOOST_REQUIRE(session->Run({}, {m.w, m.b}, {}, &out).ok());
  BOOST_TEST(std::abs(out[0].scalar<float>() - 3) < 0.05f);
  BOOST_TEST(std::abs(out[1].scalar<float>() + 1) < 0.05f);

  // [position]
  const ResourceState position = batches->Save();
  const absl::StatusOr<std::unique_ptr<DatasetIterator>> later = data.Iterate(position);
  // [/position]
  BOOST_REQUIRE(later.ok());
  Element a, b;
  for (int i = 0; i < 20; ++i) {
    BOOST_REQUIRE((*later)->Next(&a).ok() && batches->Next(&b).ok());
    BOOST_TEST(a[0].DebugString() == b[0].DebugString());
  }
}

}  // namespace
}  // namespace troupe
