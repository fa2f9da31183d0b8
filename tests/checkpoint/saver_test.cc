// Savers: training goes on bit for bit, old checkpoints go, misses are told, and "checkpoint" never
// names one that cannot be read, wherever a process is stopped.
#include "troupe/train/saver.h"

#include <boost/test/unit_test.hpp>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/check_ok.h"
#include "tests/common/folder.h"
#include "troupe/faulty_files.h"
#include "troupe/files.h"
#include "troupe/train/global_step.h"
#include "troupe/troupe.h"

extern char** environ;

namespace troupe {
namespace saver_test {

using testing::Folder;

// A small model: two layers' variables, Adam's slots, a global step.
struct Model {
  Scope root = Scope::NewRootScope();
  Variable step;
  Output loss;
  Operation update, init;
  std::unique_ptr<train::Saver> saver;
  std::unique_ptr<Session> session;

  explicit Model(const train::SaverOptions& options = {}, bool resource = true, int devices = 1, int width = 8) {
    step = train::GetOrCreateGlobalStep(root);
    VariableOptions kind;
    kind.use_resource = resource;
    const Scope second = devices > 1 ? root.WithDevice("/cpu:1") : root;
    std::vector<float> start(static_cast<size_t>(4 * width));
    for (size_t i = 0; i < start.size(); ++i) start[i] = static_cast<float>(i % 7) * 0.125f - 0.4f;
    const Tensor w0 = Tensor::Of<float>(absl::Span<const float>(start), {4, width});
    const Tensor v0 = Tensor::Of<float>(absl::Span<const float>(start), {width, 4});
    const Variable w(root.WithOpName("layer1/w"), w0, kind), v(second.WithOpName("layer2/w"), v0, kind);
    // A batch that depends on the step, so that a step which is lost or done twice shows.
    const Output at = ops::Cast(root, step, DType::kFloat);
    const Output x = ops::Sin(
        root, ops::Add(root, ops::Mul(root, at, 0.1f), Const(root, {{0.f, 1.f, 2.f, 3.f}, {4.f, 3.f, 2.f, 1.f}})));
    const Output y = ops::MatMul(root, ops::Tanh(root, ops::MatMul(root, x, w)), v);
    loss = ops::Mean(root.WithOpName("loss"), ops::Square(root, y - x));
    update = train::Adam(0.05).Minimize(root, loss, {}, step);
    init = GlobalVariablesInitializer(root);
    saver = std::make_unique<train::Saver>(root, options);
    REQUIRE_OK(root.status());
    SessionOptions so;
    so.runtime_options.threads = 1;
    so.runtime_options.cpu_devices = devices;
    session = *Session::Create(so);
    REQUIRE_OK(session->Extend(*root.graph()));
  }
  void Init() { REQUIRE_OK(session->Run({}, {}, {init}, nullptr)); }
  float Train() {
    std::vector<Tensor> out;
    REQUIRE_OK(session->Run({}, {loss}, {update}, &out));
    return out[0].scalar<float>();
  }
  int64_t Step() { return session->Get(step)->scalar<int64_t>(); }
};

std::vector<float> Curve(int steps) {
  Model m;
  m.Init();
  std::vector<float> losses;
  for (int i = 0; i < steps; ++i) losses.push_back(m.Train());
  return losses;
}

BOOST_AUTO_TEST_CASE(training_goes_on_bit_for_bit) {
  for (const bool resource : {true, false}) {
    for (const bool sharded : {false, true}) {
      const train::SaverOptions options{.sharded = sharded};
      Model a(options, resource, sharded ? 2 : 1);
      a.Init();
      std::vector<float> losses;
      std::string path;
      for (int i = 0; i < 12; ++i) {
        if (i == 5) {
          const auto saved = a.saver->Save(*a.session, "mem://curve/model", 5);
          REQUIRE_OK(saved.status());
          path = *saved;
        }
        losses.push_back(a.Train());
      }
      BOOST_TEST(path == "mem://curve/model-5");
      BOOST_TEST(losses[11] < losses[0]);
      BOOST_TEST(files::Exists("mem://curve/model-5.data-00001-of-00002") == sharded);
      Model b(options, resource, sharded ? 2 : 1);
      REQUIRE_OK(b.saver->Restore(*b.session, *train::LatestCheckpoint("mem://curve")));
      BOOST_TEST(b.Step() == 5);
      for (int i = 5; i < 12; ++i) BOOST_TEST(b.Train() == losses[static_cast<size_t>(i)], "step " << i);
      // All variables are there: Adam's slots and powers, too.
      const auto reader = *CheckpointReader::Open(path);
      BOOST_TEST(reader->entries().size() == a.root.graph()->collection(kGlobalVariables).size());
      BOOST_TEST(reader->Find("layer1/w/Adam") != nullptr);
      BOOST_TEST(reader->Find("global_step") != nullptr);
      const auto names = files::List("mem://curve");
      REQUIRE_OK(names.status());
      for (const std::string& name : *names) {
        BOOST_TEST(name.find("temp") == std::string::npos, name);
        CHECK_OK(files::Delete("mem://curve/" + name));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(old_checkpoints_go) {
  Model m({.max_to_keep = 2});
  m.Init();
  for (int i = 1; i <= 4; ++i) {
    REQUIRE_OK(m.saver->Save(*m.session, "mem://keep/m", {.global_step = i, .graph = m.root.graph()}).status());
  }
  const auto names = [] { return StrJoin(*files::List("mem://keep"), " "); };
  BOOST_TEST(names() ==
             "checkpoint m-3.data-00000-of-00001 m-3.index m-3.meta m-4.data-00000-of-00001 m-4.index m-4.meta");
  BOOST_TEST(StrJoin(m.saver->checkpoints(), " ") == "mem://keep/m-3 mem://keep/m-4");
  BOOST_TEST(*train::LatestCheckpoint("mem://keep") == "mem://keep/m-4");
  BOOST_TEST(StrJoin(*train::AllCheckpoints("mem://keep"), " ") == "mem://keep/m-3 mem://keep/m-4");
  const std::string state = *files::Read("mem://keep/checkpoint");
  BOOST_TEST(state.find("model_checkpoint_path: \"m-4\"\nall_model_checkpoint_paths: \"m-3\"\n") == 0u, state);
  // Another process goes on with the list. One that is saved again is not listed twice.
  Model n({.max_to_keep = 2});
  n.Init();
  REQUIRE_OK(n.saver->Save(*n.session, "mem://keep/m", 4).status());
  REQUIRE_OK(n.saver->Save(*n.session, "mem://keep/m", 5).status());
  BOOST_TEST(StrJoin(*train::AllCheckpoints("mem://keep"), " ") == "mem://keep/m-4 mem://keep/m-5");
  BOOST_TEST(!files::Exists("mem://keep/m-3.index"));
  // In no time at all, one in so many hours is kept for good.
  Model h({.max_to_keep = 1, .keep_checkpoint_every_n_hours = 0});
  h.Init();
  for (int i = 1; i <= 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    REQUIRE_OK(h.saver->Save(*h.session, "mem://hours/m", i).status());
  }
  for (int i = 1; i <= 3; ++i) BOOST_TEST(CheckpointExists(StrCat("mem://hours/m-", i)));
  BOOST_TEST(h.saver->checkpoints().size() == 1u);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_told_before_anything_changes) {
  Model m;
  m.Init();
  m.Train();
  REQUIRE_OK(m.saver->Save(*m.session, "mem://fit/m").status());
  const Scope root = Scope::NewRootScope();
  const Variable good(root.WithOpName("layer1/w"), Const(root, 0.0f, TensorShape({4, 8})));
  const Variable scope(root.WithOpName("model/layer2/w"), Const(root, 0.0f, TensorShape({8, 4})));
  const Variable shape(root.WithOpName("layer2/w"), Const(root, 0.0f, TensorShape({8, 5})));
  const Variable type(root.WithOpName("global_step"), 0);
  train::Saver saver(root);
  const Operation init = GlobalVariablesInitializer(root);
  REQUIRE_OK(root.status());
  const auto session = *Session::Create();
  REQUIRE_OK(session->Extend(*root.graph()));
  REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  const absl::Status strict = saver.Restore(*session, "mem://fit/m");
  BOOST_TEST(absl::IsNotFound(strict), strict);
  for (const char* part :
       {"there is no 'model/layer2/w' (most like it: 'layer2/w'", "'layer2/w' has shape [8,4] there and [8,5] here",
        "'global_step' is int64 there and int32 here"}) {
    BOOST_TEST(strict.ToString().find(part) != std::string::npos, strict);
  }
  BOOST_TEST(session->Get(good)->data<float>()[0] == 0.0f);
  std::vector<std::string> skipped;
  REQUIRE_OK(saver.Restore(*session, "mem://fit/m", {.missing = train::Missing::kSkip, .skipped = &skipped}));
  BOOST_TEST(StrJoin(skipped, " ") == "global_step layer2/w model/layer2/w");
  BOOST_TEST(session->Get(good)->data<float>()[0] != 0.0f);
  // By another name it is the one that is meant.
  train::Saver named(root, {train::Saved("layer2/w", scope)});
  REQUIRE_OK(root.status());
  REQUIRE_OK(session->Extend(*root.graph()));
  REQUIRE_OK(named.Restore(*session, "mem://fit/m"));
  BOOST_TEST(session->Get(scope)->data<float>()[1] != 0.0f);
  BOOST_TEST(absl::IsNotFound(saver.Restore(*session, "mem://fit/none")));

  const Scope other = Scope::NewRootScope();
  const Variable one(other.WithOpName("one"), 1.0f), two(other.WithOpName("two"), 2.0f);
  const train::Saver twice(other, {train::Saved("x", one), train::Saved("x", two)});
  BOOST_TEST(absl::IsInvalidArgument(other.status()), other.status());
  train::Saver empty;
  BOOST_TEST(absl::IsFailedPrecondition(empty.Save(*session, "mem://fit/x").status()));
  BOOST_TEST(absl::IsFailedPrecondition(empty.Restore(*session, "mem://fit/x")));
}

BOOST_AUTO_TEST_CASE(slices_of_one_tensor_are_one_in_the_checkpoint) {
  const Scope root = Scope::NewRootScope();
  const Variable a(root.WithOpName("part_0"), {{1.0f, 2.0f}, {3.0f, 4.0f}}),
      b(root.WithOpName("part_1"), {{5.0f, 6.0f}});
  train::Saver saver(root, {train::Saved("whole", a, "3 2 0,2:-"), train::Saved("whole", b, "3 2 2,1:-")});
  const Operation init = GlobalVariablesInitializer(root);
  REQUIRE_OK(root.status());
  const auto session = *Session::Create();
  REQUIRE_OK(session->Extend(*root.graph()));
  REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  REQUIRE_OK(saver.Save(*session, "mem://slices/m").status());
  const auto reader = *CheckpointReader::Open("mem://slices/m");
  BOOST_TEST(reader->Read("whole")->DebugString() == "float32 [3,2] [1 2 3 4 5 6]");
  REQUIRE_OK(session->Set(b, Tensor::Of<float>({0, 0}, {1, 2})));
  REQUIRE_OK(saver.Restore(*session, "mem://slices/m"));
  BOOST_TEST(session->Get(b)->DebugString() == "float32 [1,2] [5 6]");
  REQUIRE_OK(session->Set(b, Tensor::Of<float>({0, 0}, {1, 2})));
  REQUIRE_OK(saver.Restore(*session, "mem://slices/m", {.missing = train::Missing::kSkip}));
  BOOST_TEST(session->Get(b)->DebugString() == "float32 [1,2] [5 6]");
}

// A slice that does not fit is found before another device's variables are restored.
BOOST_AUTO_TEST_CASE(a_slice_of_another_tensor_does_not_fit) {
  auto file = *CheckpointWriter::Create("mem://other_slices/m");
  REQUIRE_OK(file->Add("whole", Tensor::Vector<float>({7, 7, 7})));
  REQUIRE_OK(file->Add("table", Tensor::Of<float>({0, 1, 2, 3, 4, 5}, {6, 1})));
  REQUIRE_OK(file->Finish());
  const std::string slice = "4 1 0,2:-", problem = "'table' has shape [6,1] there, and is a slice of [4,1] here";
  for (int round = 0; round < 5; ++round) {
    Scope root = Scope::NewRootScope();
    const Variable whole(root.WithOpName("whole").WithDevice("/cpu:0"), Const(root, {1.0f, 2.0f, 3.0f}));
    const Variable part(root.WithOpName("part").WithDevice("/cpu:1"), Const(root, -1.0f, TensorShape({2, 1})));
    const Operation init = GlobalVariablesInitializer(root);
    train::Saver saver(root, {train::Saved(whole), train::Saved("table", part, slice)}, {.sharded = true});
    REQUIRE_OK(root.status());
    SessionOptions options;
    options.runtime_options.threads = 2;
    options.runtime_options.cpu_devices = 2;
    const auto session = *Session::Create(options);
    REQUIRE_OK(session->Extend(*root.graph()));
    REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
    const absl::Status s = saver.Restore(*session, "mem://other_slices/m");
    BOOST_TEST(absl::IsNotFound(s), s);
    BOOST_TEST(s.message().find(problem) != std::string::npos, s);
    BOOST_TEST(session->Get(whole)->flat<float>()[0] == 1.0f);
    std::vector<std::string> skipped;
    REQUIRE_OK(
        saver.Restore(*session, "mem://other_slices/m", {.missing = train::Missing::kSkip, .skipped = &skipped}));
    BOOST_TEST(skipped == std::vector<std::string>{"table"});
    BOOST_TEST(session->Get(whole)->flat<float>()[0] == 7.0f);
    BOOST_TEST(session->Get(part)->flat<float>()[0] == -1.0f);
  }
}

BOOST_AUTO_TEST_CASE(a_meta_graph_carries_its_saver) {
  Model m;
  m.Init();
  for (int i = 0; i < 3; ++i) m.Train();
  REQUIRE_OK(m.saver->Save(*m.session, "mem://meta/m", {.global_step = 3, .graph = m.root.graph()}).status());
  const float next = m.Train();
  Graph graph;
  auto saver = train::ReadMetaGraph("mem://meta/m-3.meta", &graph);
  REQUIRE_OK(saver.status());
  BOOST_TEST(graph.collection(kGlobalVariables) == m.root.graph()->collection(kGlobalVariables),
             boost::test_tools::per_element());
  const auto session = *Session::Create();
  REQUIRE_OK(session->Extend(graph));
  REQUIRE_OK(saver->Restore(*session, "mem://meta/m-3"));
  std::vector<Tensor> out;
  REQUIRE_OK(session->Run({}, {m.loss.name()}, {m.update.name()}, &out));
  BOOST_TEST(out[0].scalar<float>() == next);
  REQUIRE_OK(saver->Save(*session, "mem://meta/again", 4).status());
  BOOST_TEST(*train::LatestCheckpoint("mem://meta") == "mem://meta/again-4");
  for (const std::string& bad :
       {std::string(), std::string("no graph"), files::Read("mem://meta/m-3.meta")->substr(0, 900)}) {
    REQUIRE_OK(files::Write("mem://meta/bad.meta", bad));
    Graph none;
    const auto refused = train::ReadMetaGraph("mem://meta/bad.meta", &none);
    BOOST_TEST(!refused.ok());
    BOOST_TEST(refused.status().ToString().find("mem://meta/bad.meta") != std::string::npos, refused.status());
  }
}

// A step that adds random numbers to a variable.
struct Walk {
  Scope root = Scope::NewRootScope();
  Variable at;
  Output go;
  Operation init;
  std::unique_ptr<train::Saver> saver;
  std::unique_ptr<Session> session;

  explicit Walk(const train::SaverOptions& options = {}, int devices = 1) {
    at = Variable(root.WithOpName("at"), {0.0f, 0.0f, 0.0f});
    const Scope second = devices > 1 ? root.WithDevice("/cpu:1") : root;
    const Output noise =
        ops::RandomStandardNormal(second.WithOpName("noise"), Tensor::Vector<int32_t>({3}), DType::kFloat);
    const Output more = ops::RandomUniform(root.WithOpName("more"), Tensor::Vector<int32_t>({3}), DType::kFloat,
                                           {.seed = 3, .seed2 = 4});
    go = at.AssignAdd(root, noise * more);
    init = GlobalVariablesInitializer(root);
    saver = std::make_unique<train::Saver>(root, options);
    REQUIRE_OK(root.status());
    SessionOptions so;
    so.runtime_options.cpu_devices = devices;
    session = *Session::Create(so);
    REQUIRE_OK(session->Extend(*root.graph()));
  }
  void Go() { REQUIRE_OK(session->Run({}, {}, {go}, nullptr)); }
  std::string At() { return session->Get(at)->DebugString(); }
};

BOOST_AUTO_TEST_CASE(random_streams_and_the_programs_own_tensors_belong_to_a_checkpoint) {
  for (const bool sharded : {false, true}) {
    Walk a({.sharded = sharded}, 2);
    REQUIRE_OK(a.session->Run({}, {}, {a.init}, nullptr));
    for (int i = 0; i < 3; ++i) a.Go();
    train::SaveOptions options{.global_step = 3, .graph = a.root.graph()};
    options.extra = {{"place", Tensor::Vector<int64_t>({7, 8})}};
    const auto path = a.saver->Save(*a.session, "mem://walk/m", options);
    REQUIRE_OK(path.status());
    const auto reader = *CheckpointReader::Open(*path);
    BOOST_TEST(reader->Read("place")->DebugString() == "int64 [2] [7 8]");
    for (int i = 0; i < 3; ++i) a.Go();
    Walk b({.sharded = sharded}, 2);
    REQUIRE_OK(b.saver->Restore(*b.session, *path));
    for (int i = 0; i < 3; ++i) b.Go();
    BOOST_TEST(b.At() == a.At());
    // In the session that has gone on, too.
    REQUIRE_OK(a.saver->Restore(*a.session, *path));
    for (int i = 0; i < 3; ++i) a.Go();
    BOOST_TEST(b.At() == a.At());
    // By the Saver of the MetaGraph.
    Graph graph;
    auto saver = train::ReadMetaGraph(*path + ".meta", &graph);
    REQUIRE_OK(saver.status());
    SessionOptions so;
    so.runtime_options.cpu_devices = 2;
    const auto session = *Session::Create(so);
    REQUIRE_OK(session->Extend(graph));
    REQUIRE_OK(saver->Restore(*session, *path));
    REQUIRE_OK(saver->Save(*session, "mem://walk/again").status());
    for (int i = 0; i < 3; ++i) REQUIRE_OK(session->Run({}, {}, {a.go}, nullptr));
    BOOST_TEST(session->Get("at/Read")->DebugString() == a.At());
    BOOST_TEST((*CheckpointReader::Open("mem://walk/again"))->entries().size() == reader->entries().size() - 1);
    // Where the second device is missing.
    Walk c({.sharded = sharded});
    const absl::Status strict = c.saver->Restore(*c.session, *path);
    BOOST_TEST(absl::IsNotFound(strict), strict);
    std::vector<std::string> skipped;
    REQUIRE_OK(c.saver->Restore(*c.session, *path, {.missing = train::Missing::kSkip, .skipped = &skipped}));
    BOOST_TEST(StrJoin(skipped, " ") == "noise");
    // Variables alone.
    Walk d({.sharded = sharded, .session_state = false}, 2);
    REQUIRE_OK(d.saver->Restore(*d.session, *path));
    for (int i = 0; i < 3; ++i) d.Go();
    BOOST_TEST(d.At() != a.At());
    REQUIRE_OK(d.saver->Save(*d.session, "mem://walk/alone").status());
    BOOST_TEST((*CheckpointReader::Open("mem://walk/alone"))->entries().size() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(state_that_cannot_be_read_is_refused) {
  Walk a;
  for (const auto& [name, value] : {std::pair<std::string, Tensor>("_troupe/state", Tensor::Scalar(1.0f)),
                                    {"_troupe/state", Tensor(DType::kString, {1, 3})},
                                    {"_troupe/state/5/key", Tensor::Scalar(1.0f)},
                                    {"_troupe/state/x", Tensor::Scalar(1.0f)}}) {
    const auto writer = *CheckpointWriter::Create("mem://unread/m");
    REQUIRE_OK(writer->Add("at", Tensor::Vector<float>({1, 2, 3})));
    REQUIRE_OK(writer->Add(name, value));
    if (name != "_troupe/state") REQUIRE_OK(writer->Add("_troupe/state", Tensor(DType::kString, {1, 4})));
    REQUIRE_OK(writer->Finish());
    const absl::Status s = a.saver->Restore(*a.session, "mem://unread/m");
    BOOST_TEST(absl::IsDataLoss(s), s);
    BOOST_TEST(s.ToString().find("_troupe/state") != std::string::npos, s);
  }
}

BOOST_AUTO_TEST_CASE(a_variable_without_a_value_is_named) {
  Walk a;
  const absl::Status s = a.saver->Save(*a.session, "mem://novalue/m").status();
  BOOST_TEST(absl::IsFailedPrecondition(s), s);
  BOOST_TEST(s.ToString().find("'at'") != std::string::npos, s);
  BOOST_TEST(!CheckpointExists("mem://novalue/m"));
}

BOOST_AUTO_TEST_CASE(a_damaged_list_of_checkpoints_is_refused) {
  REQUIRE_OK(files::MakeDirectory("mem://list"));
  BOOST_TEST(absl::IsNotFound(train::LatestCheckpoint("mem://list").status()));
  REQUIRE_OK(files::Write("mem://list/checkpoint", "model_checkpoint_path: "));
  BOOST_TEST(absl::IsDataLoss(train::LatestCheckpoint("mem://list").status()));
  REQUIRE_OK(files::Write("mem://list/checkpoint", "model_checkpoint_path: 'gone'\n some_new_field: 3"));
  BOOST_TEST(absl::IsNotFound(train::LatestCheckpoint("mem://list").status()));
}

// Every tensor of the newest checkpoint, and the step that its name says.
int64_t NewestStep(const std::string& folder) {
  const auto last = train::LatestCheckpoint(folder);
  BOOST_REQUIRE_MESSAGE(last.ok(), last.status());
  const auto reader = CheckpointReader::Open(*last);
  BOOST_REQUIRE_MESSAGE(reader.ok(), reader.status());
  for (const auto& entry : (*reader)->entries()) CHECK_OK((*reader)->Read(entry.name).status());
  return (*reader)->Read("global_step")->scalar<int64_t>();
}

BOOST_AUTO_TEST_CASE(a_save_that_is_stopped_anywhere_leaves_a_good_checkpoint) {
  using files::FaultyFiles;
  const auto disk = std::make_shared<FaultyFiles>();
  REQUIRE_OK(files::RegisterFileSystem("saver", disk));
  int faults = 0, news = 0;
  for (const bool numbered : {true, false}) {
    Model m({.max_to_keep = 1, .sharded = numbered});
    m.Init();
    for (const auto fault : {FaultyFiles::Fault::kError, FaultyFiles::Fault::kShortWrite, FaultyFiles::Fault::kDie}) {
      for (const auto names : {FaultyFiles::Names::kLost, FaultyFiles::Names::kKept}) {
        for (int n = 1;; ++n) {
          const auto save = [&] { return m.saver->Save(*m.session, "saver://d/m", numbered ? m.Step() : -1); };
          REQUIRE_OK(save().status());
          const int64_t before = m.Step();
          m.Train();
          const int64_t count = disk->operations();
          disk->FailAt(n, fault);
          const absl::Status s = save().status();
          const bool reached = disk->operations() - count >= n;
          disk->Crash(names);
          const int64_t newest = NewestStep("saver://d");
          BOOST_TEST((newest == before || newest == before + 1), "stopped at " << n << ": step " << newest);
          news += newest == before + 1 ? 1 : 0;
          faults += reached ? 1 : 0;
          if (s.ok() && !reached) {
            BOOST_TEST(newest == before + 1);
            break;
          }
        }
      }
    }
  }
  BOOST_TEST(faults > 150);
  BOOST_TEST(news > 12);
}

// The process that is killed: goes on from the newest checkpoint, saves after each step, and writes
// its losses. It ends after step TROUPE_SAVER_STEPS.
BOOST_AUTO_TEST_CASE(child_that_trains_and_saves, *boost::unit_test::disabled()) {
  const char* const folder = std::getenv("TROUPE_SAVER_FOLDER");
  const char* const steps = std::getenv("TROUPE_SAVER_STEPS");
  BOOST_REQUIRE_MESSAGE(folder != nullptr && steps != nullptr,
                        "TROUPE_SAVER_FOLDER and TROUPE_SAVER_STEPS name a folder and the last step");
  const int last_step = std::atoi(steps);
  Model m({.max_to_keep = 2});
  const auto last = train::LatestCheckpoint(folder);
  if (last.ok()) {
    REQUIRE_OK(m.saver->Restore(*m.session, *last));
  } else {
    BOOST_REQUIRE(absl::IsNotFound(last.status()));
    m.Init();
  }
  while (m.Step() < last_step) {
    const int64_t step = m.Step();
    const float loss = m.Train();
    REQUIRE_OK(files::Write(StrCat(folder, "/loss-", step), StrCat(loss)));
    REQUIRE_OK(m.saver->Save(*m.session, StrCat(folder, "/m"), step % 2 == 0 ? m.Step() : -1).status());
  }
}

BOOST_AUTO_TEST_CASE(a_process_that_is_killed_goes_on_where_it_was) {
  constexpr int kKills = 12;
  const Folder folder;
  std::mt19937 draw(7);
  int kills = 0, last_step = 0;
  bool done = false;
  for (int round = 0; round < 200 && !done; ++round) {
    // Only the process after the last kill has an end, so that a fast one is killed as often.
    const int end = kills < kKills ? 1'000'000 : last_step + 5;
    std::vector<std::string> env;
    for (char** e = environ; *e != nullptr; ++e) env.push_back(*e);
    env.push_back("TROUPE_SAVER_FOLDER=" + folder.path());
    env.push_back(StrCat("TROUPE_SAVER_STEPS=", end));
    std::vector<char*> envp;
    for (std::string& e : env) envp.push_back(e.data());
    envp.push_back(nullptr);
    std::string self = "/proc/self/exe", only = "--run_test=child_that_trains_and_saves";
    char* argv[] = {self.data(), only.data(), nullptr};
    pid_t child = 0;
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    BOOST_REQUIRE_EQUAL(::posix_spawn(&child, self.c_str(), &files, nullptr, argv, envp.data()), 0);
    posix_spawn_file_actions_destroy(&files);
    // After it has saved something, at a random instant of the next few saves.
    const auto steps = [&] {
      int n = 0;
      while (files::Exists(StrCat(folder.path(), "/loss-", n))) ++n;
      return n;
    };
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    int status = 0;
    pid_t ended = 0;
    while (steps() <= last_step && ended == 0 && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ended = ::waitpid(child, &status, WNOHANG);
    }
    if (ended == 0 && kills < kKills) {
      std::this_thread::sleep_for(std::chrono::microseconds(draw() % 20000));
      ::kill(child, SIGKILL);
    }
    if (ended == 0) BOOST_REQUIRE_EQUAL(::waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
      BOOST_REQUIRE_EQUAL(WTERMSIG(status), SIGKILL);
      ++kills;
    } else {
      BOOST_REQUIRE_EQUAL(WEXITSTATUS(status), 0);
      done = true;
    }
    last_step = std::max(last_step, steps());
    if (const auto last = train::LatestCheckpoint(folder.path()); last.ok()) {
      const int64_t newest = NewestStep(folder.path());
      BOOST_TEST(newest + 1 >= steps(), "step " << newest << " after " << steps() << " losses");
    } else {
      BOOST_TEST(absl::IsNotFound(last.status()), last.status());
      BOOST_TEST(!files::Exists(folder.path() + "/checkpoint"));
    }
  }
  BOOST_TEST(kills == kKills);
  BOOST_REQUIRE(done);
  BOOST_TEST(last_step > kKills);
  const std::vector<float> want = Curve(last_step);
  for (int i = 0; i < last_step; ++i) {
    const auto loss = files::Read(StrCat(folder.path(), "/loss-", i));
    BOOST_REQUIRE_MESSAGE(loss.ok(), loss.status());
    BOOST_TEST(*loss == StrCat(want[static_cast<size_t>(i)]), "step " << i);
  }
}

}  // namespace saver_test
}  // namespace troupe
