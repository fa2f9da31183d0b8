// The code of docs/guide/checkpoints.md.
#include "tests/docs/pages.h"
#include "troupe/checkpoint.h"
#include "troupe/files.h"
#include "troupe/train/global_step.h"
#include "troupe/train/saver.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

const std::string kFolder = "mem://guide/run";

// [train]
absl::Status Train(int64_t until, std::vector<float>* losses) {
  Scope root = Scope::NewRootScope();
  Variable step = train::GetOrCreateGlobalStep(root);
  Variable w(root.WithOpName("w"), 5.0f);
  Output loss = ops::Square(root, w - 1.0f);
  Operation update = train::Adam(0.1).Minimize(root, loss, {}, step);
  Operation init = GlobalVariablesInitializer(root);
  train::Saver saver(root);  // after Minimize: slots are variables, too
  if (!root.ok()) return root.status();

  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create());
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  absl::StatusOr<std::string> last = train::LatestCheckpoint(kFolder);
  if (last.ok()) {
    TROUPE_RETURN_IF_ERROR(saver.Restore(*session, *last));
  } else if (absl::IsNotFound(last.status())) {
    TROUPE_RETURN_IF_ERROR(session->Run({}, {}, {init}, nullptr));
  } else {
    return last.status();  // there is one, and it cannot be read
  }
  for (;;) {
    TROUPE_ASSIGN_OR_RETURN(Tensor now, session->Get(step));
    if (now.scalar<int64_t>() >= until) return absl::OkStatus();
    std::vector<Tensor> out;
    TROUPE_RETURN_IF_ERROR(session->Run({}, {loss}, {update}, &out));
    losses->push_back(out[0].scalar<float>());
    if (losses->size() % 10 == 0) {
      TROUPE_ASSIGN_OR_RETURN(now, session->Get(step));
      TROUPE_RETURN_IF_ERROR(saver.Save(*session, kFolder + "/model", now.scalar<int64_t>()).status());
    }
  }
}
// [/train]

BOOST_AUTO_TEST_CASE(training_goes_on_from_a_checkpoint) {
  std::vector<float> begin, rest, whole;
  absl::Status s = Train(20, &begin);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  s = Train(40, &rest);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(begin.size() == 20u);
  BOOST_TEST(rest.size() == 20u);
  BOOST_TEST(rest[0] < begin[19]);

  // [read]
  absl::StatusOr<std::unique_ptr<CheckpointReader>> reader = CheckpointReader::Open(kFolder + "/model-40");
  if (!reader.ok()) return;  // the status names the file and what is wrong with it
  for (const CheckpointReader::Entry& e : (*reader)->entries()) {
    std::printf("%s %s %s\n", e.name.c_str(), std::string(Name(e.dtype)).c_str(), e.shape.DebugString().c_str());
  }
  absl::StatusOr<Tensor> w = (*reader)->Read("w");
  // [/read]
  BOOST_REQUIRE_MESSAGE(w.ok(), w.status());
  BOOST_TEST((*reader)->entries().size() == 6u);

  Scope root = Scope::NewRootScope();
  Variable other(root.WithOpName("scale"), 0.0f), more(root.WithOpName("offset"), 0.5f);
  Operation init = GlobalVariablesInitializer(root);
  std::unique_ptr<Session> session = *Session::Create();
  // [names]
  train::Saver saver(root, {train::Saved("w", other), train::Saved(more)});  // `other` is called "w" in checkpoints
  std::vector<std::string> skipped;
  s = session->Extend(*root.graph());
  if (s.ok()) s = session->Run({}, {}, {init}, nullptr);
  if (s.ok()) {
    s = saver.Restore(*session, kFolder + "/model-40", {.missing = train::Missing::kSkip, .skipped = &skipped});
  }
  // [/names]
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(session->Get(other)->scalar<float>() == w->scalar<float>());
  BOOST_TEST(session->Get(more)->scalar<float>() == 0.5f);
  BOOST_TEST(skipped.size() == 1u);

  // [meta]
  s = saver.Save(*session, "mem://guide/export/model", {.graph = root.graph()}).status();
  Graph graph;
  absl::StatusOr<train::Saver> again = train::ReadMetaGraph("mem://guide/export/model.meta", &graph);
  std::unique_ptr<Session> later = *Session::Create();
  if (s.ok() && again.ok()) s = later->Extend(graph);
  if (s.ok() && again.ok()) s = again->Restore(*later, "mem://guide/export/model");
  // [/meta]
  BOOST_REQUIRE_MESSAGE(s.ok() && again.ok(), s << again.status());
  BOOST_TEST(later->Get("scale/Read:0")->scalar<float>() == w->scalar<float>());

  // [files]
  s = files::Write("mem://guide/notes", "the rate was 0.1");  // whole, or not at all
  absl::StatusOr<std::string> text = files::Read("mem://guide/notes");
  // [/files]
  BOOST_REQUIRE_MESSAGE(s.ok() && text.ok(), s);
  BOOST_TEST(*text == "the rate was 0.1");
}

}  // namespace
}  // namespace troupe
