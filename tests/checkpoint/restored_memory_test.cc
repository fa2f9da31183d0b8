// The memory limit counts variables wherever their values come from: a checkpoint of either format,
// whole or in slices, Set, a snapshot.
#include <boost/test/unit_test.hpp>

#include "graph/checkpoint/first_format.h"
#include "tests/common/check_ok.h"
#include "troupe/state_snapshot.h"
#include "troupe/train/saver.h"
#include "troupe/troupe.h"

namespace troupe {
namespace restored_memory_test {

constexpr int64_t kRows = 1 << 18, kBytes = 4 * kRows;  // of 'w': 1 MiB

struct Limited {
  Scope root = Scope::NewRootScope();
  Variable w;
  train::Saver saver, slices;
  std::shared_ptr<Runtime> runtime;
  std::unique_ptr<Session> session;

  Limited(int64_t limit, bool resource, bool wire)
      : w(root.WithOpName("w"), ops::Fill(root, Const(root, Tensor::Vector<int64_t>({kRows})), 1.0f),
          {.use_resource = resource}),
        saver(root),
        slices(root, {train::Saved("halves", w, StrCat(2 * kRows, " ", kRows, ",", kRows))}) {
    REQUIRE_OK(root.status());
    SessionOptions options;
    runtime = Runtime::Start({.threads = 1, .memory_limit = limit}).value();
    options.runtime = runtime;
    options.wire_messages = wire;
    session = *Session::Create(options);
    REQUIRE_OK(session->Extend(*root.graph()));
  }
  int64_t InUse() const { return runtime->devices()[0].memory.bytes_in_use; }
};

BOOST_AUTO_TEST_CASE(the_memory_limit_counts_variables_that_are_restored) {
  const Tensor value = Tensor::Of<float>(std::vector<float>(kRows, 2.0f), TensorShape({kRows}));
  const Tensor both = Tensor::Of<float>(std::vector<float>(2 * kRows, 2.0f), TensorShape({2 * kRows}));
  auto writer = *CheckpointWriter::Create("mem://limit/bundle");
  REQUIRE_OK(writer->Add("w", value));
  REQUIRE_OK(writer->Add("halves", both));
  REQUIRE_OK(writer->Finish());
  writer = *CheckpointWriter::Create("mem://limit/slices");
  for (const int64_t from : {int64_t{0}, kRows})
    REQUIRE_OK(writer->AddSlice("halves", both.shape(), TensorSlice({{from, kRows}}), value));
  REQUIRE_OK(writer->Finish());
  REQUIRE_OK(WriteFirstFormat("mem://limit/first", {{"w", value.shape(), TensorSlice::Full(1), value},
                                                    {"halves", both.shape(), TensorSlice::Full(1), both}}));
  std::string bytes;
  {
    Limited m(0, true, false);
    REQUIRE_OK(m.session->Set(m.w, value));
    bytes = *m.session->SnapshotState()->ToBytes();
  }
  const StateSnapshot snapshot = *StateSnapshot::FromBytes(bytes);

  using Way = std::pair<std::string, std::function<absl::Status(Limited&)>>;
  std::vector<Way> ways = {
      {"Set", [&](Limited& m) { return m.session->Set(m.w, value); }},
  };
  for (const auto missing : {train::Missing::kStrict, train::Missing::kSkip}) {
    const std::string skip = missing == train::Missing::kSkip ? ", skipping" : "";
    for (const char* path : {"mem://limit/bundle", "mem://limit/first"})
      ways.push_back(
          {StrCat(path, skip), [=](Limited& m) { return m.saver.Restore(*m.session, path, {.missing = missing}); }});
    for (const char* path : {"mem://limit/bundle", "mem://limit/first", "mem://limit/slices"}) {
      ways.push_back({StrCat("a slice of ", path, skip),
                      [=](Limited& m) { return m.slices.Restore(*m.session, path, {.missing = missing}); }});
    }
  }
  for (const bool resource : {true, false}) {
    for (const bool wire : {false, true}) {
      std::vector<Way> all = ways;
      if (resource) all.push_back({"RestoreState", [&](Limited& m) { return m.session->RestoreState(snapshot); }});
      for (const auto& [name, way] : all) {
        // A value that is fed as bytes is made where they arrive.
        if (wire && (name == "Set" || name.ends_with("skipping"))) continue;
        Limited tight(kBytes / 2, resource, wire);
        const absl::Status s = way(tight);
        BOOST_TEST(absl::IsResourceExhausted(s), name << ": " << s);
        BOOST_TEST(tight.InUse() < kBytes, name);
        Limited wide(8 * kBytes, resource, wire);
        REQUIRE_OK(way(wide));
        BOOST_TEST(wide.InUse() >= kBytes, name << ": " << wide.InUse() << " bytes in use");
        BOOST_TEST(wide.session->Get(wide.w)->data<float>()[kRows - 1] == 2.0f, name);
      }
    }
  }
}

}  // namespace restored_memory_test
}  // namespace troupe
