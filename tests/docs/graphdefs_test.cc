// The code of docs/guide/graphdefs.md.
#include <google/protobuf/text_format.h>

#include "tests/docs/pages.h"
#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/registration.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

const std::string kModel = TROUPE_SOURCE_DIR "/docs/guide/model.pbtxt";

// What is in docs/guide/model.pbtxt.
void BuildModel(const Scope& root) {
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = {-1}});
  const Output target = ops::Placeholder(root.WithOpName("target"), DType::kFloat, {.shape = {-1}});
  const Variable w(root.WithOpName("w"), 0.5f);
  const Variable b(root.WithOpName("b"), 0.0f);
  const Output y = ops::AddV2(root.WithOpName("y"), w * x, b);
  ops::Mean(root.WithOpName("loss"), ops::Square(root, y - target));
  w.AssignAdd(root.WithOpName("more"), 1.0f);
  GlobalVariablesInitializer(root.WithOpName("init"));
}

BOOST_AUTO_TEST_CASE(the_model_is_what_its_program_exports) {
  const Scope root = Scope::NewRootScope();
  BuildModel(root);
  proto::GraphDef def;
  const absl::Status s = root.ToGraphDef(&def);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  if (std::getenv("TROUPE_WRITE_MODEL") != nullptr) std::ofstream(kModel) << def.DebugString();
  BOOST_TEST(def.DebugString() == ReadSource("docs/guide/model.pbtxt"));
}

BOOST_AUTO_TEST_CASE(a_file_is_run) {
  const std::string path = kModel;
  std::vector<Tensor> out;
  // [run]
  proto::GraphDef def;
  absl::Status s = ReadGraphDef(path, &def);  // binary or text
  std::unique_ptr<Session> session = *Session::Create();
  if (s.ok()) s = session->Extend(def);
  if (s.ok()) s = session->Run({}, {}, {"init"}, nullptr);
  if (s.ok()) s = session->Run({{"x", Tensor::Vector<float>({1, 2})}}, {"y"}, {}, &out);
  // [/run]
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(out[0].DebugString() == "float32 [2] [0.5 1]");
}

BOOST_AUTO_TEST_CASE(an_imported_graph_is_extended_and_trained) {
  proto::GraphDef def;
  BOOST_REQUIRE(ReadGraphDef(kModel, &def).ok());
  // [import]
  Scope root = Scope::NewRootScope();
  absl::StatusOr<ImportResult> imported = ImportGraphDef(def, {.return_outputs = {"loss:0"}}, root.graph());
  if (!imported.ok()) std::cerr << imported.status() << "\n";
  Output loss = imported->return_outputs[0];
  Variable w = Variable::Find(root, "w"), b = Variable::Find(root, "b");
  Operation step = train::Adam(0.1).Minimize(root.WithOpName("adam"), loss, {w, b});
  Operation init = VariablesInitializer(root, {w, b});
  Operation more = GlobalVariablesInitializer(root);  // Adam's own variables: the file's are not listed
  // [/import]
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  std::unique_ptr<Session> session = *Session::Create();
  absl::Status s = session->Extend(*root.graph());
  if (s.ok()) s = session->Run({}, {}, {init, more}, nullptr);
  const Feeds feeds = {{"x", Tensor::Vector<float>({-1, 0, 1})}, {"target", Tensor::Vector<float>({-3, -1, 1})}};
  for (int i = 0; i < 300 && s.ok(); ++i) s = session->Run(feeds, {}, {step}, nullptr);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(std::abs(session->Get(w)->scalar<float>() - 2) < 0.01f);
  BOOST_TEST(std::abs(session->Get(b)->scalar<float>() + 1) < 0.01f);

  // [set]
  s = session->Set(w, Tensor::Scalar(3.0f));
  // [/set]
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(session->Get(w)->scalar<float>() == 3);
}

BOOST_AUTO_TEST_CASE(an_input_is_replaced) {
  proto::GraphDef def;
  BOOST_REQUIRE(ReadGraphDef(kModel, &def).ok());
  // [map]
  Scope root = Scope::NewRootScope();
  Output mine = ops::Placeholder(root.WithOpName("mine"), DType::kFloat, {.shape = {-1}});
  ImportOptions options;
  options.prefix = "model";                     // "y" becomes "model/y"
  options.input_map = {{"x:0", mine / 10.0f}};  // stands for x from here on
  absl::StatusOr<ImportResult> imported = ImportGraphDef(def, options, root.graph());
  // [/map]
  BOOST_REQUIRE_MESSAGE(imported.ok(), imported.status());
  std::unique_ptr<Session> session = *Session::Create();
  absl::Status s = session->Extend(*root.graph());
  std::vector<Tensor> out;
  if (s.ok()) s = session->Run({}, {}, {"model/init"}, nullptr);
  if (s.ok()) s = session->Run({{mine, Tensor::Vector<float>({10})}}, {"model/y"}, {}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(out[0].DebugString() == "float32 [1] [0.5]");
}

BOOST_AUTO_TEST_CASE(a_graph_is_exported) {
  const std::string folder = (std::filesystem::temp_directory_path() / "troupe_guide_export").string();
  std::filesystem::create_directories(folder);
  const Scope root = Scope::NewRootScope();
  BuildModel(root);
  // [export]
  proto::GraphDef def;
  absl::Status s = root.ToGraphDef(&def);
  if (s.ok()) {
    std::ofstream(folder + "/model.pb", std::ios::binary) << def.SerializeAsString();
    std::ofstream(folder + "/model.pbtxt") << def.DebugString();  // as text
  }
  // [/export]
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  for (const char* name : {"/model.pb", "/model.pbtxt"}) {
    proto::GraphDef read;
    BOOST_TEST(ReadGraphDef(folder + name, &read).ok());
    BOOST_TEST(read.DebugString() == def.DebugString());
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace troupe
