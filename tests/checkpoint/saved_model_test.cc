// SavedModels: written, read, refused when they do not fit, and both ways with the real TensorFlow.
#include "troupe/train/saved_model.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "tests/common/check_ok.h"
#include "tests/common/folder.h"
#include "tests/common/python.h"
#include "troupe/faulty_files.h"
#include "troupe/files.h"
#include "troupe/proto/meta_graph.pb.h"
#include "troupe/proto/saved_model.pb.h"
#include "troupe/troupe.h"

namespace troupe::train {
namespace saved_model_test {

using testing::Folder;
using testing::RunPython;

// y = w x + number of lines in a file, which the init op reads.
struct Model {
  Scope root = Scope::NewRootScope();
  Output x, y, path;
  Operation init, load;
  std::unique_ptr<Saver> saver;
  std::unique_ptr<Session> session = *Session::Create();
  SavedModelOptions options;

  Model() {
    x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = PartialTensorShape({-1, 2})});
    const Variable w(root.WithOpName("w"), {{1.0f, 2.0f}, {3.0f, 4.0f}});
    path = Const(root.WithOpName("path"), Tensor::Scalar(std::string("nowhere")));
    const Variable text(root.WithOpName("text"), "", {.trainable = false, .collections = {kLocalVariables}});
    load = Operation(text.Assign(root.WithOpName("load"), ops::ReadFile(root, path)));
    y = ops::MatMul(root.WithOpName("y"), x, w);
    init = GlobalVariablesInitializer(root.WithOpName("init"));
    saver = std::make_unique<Saver>(root);
    REQUIRE_OK(root.status());
    REQUIRE_OK(session->Extend(*root.graph()));
    REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
    options.signatures["serving_default"] = {.inputs = {{"in", x}}, .outputs = {{"out", y}}};
  }
};

BOOST_AUTO_TEST_CASE(a_model_is_written_and_read) {
  const std::string folder = "mem://saved_model/1";
  Model m;
  REQUIRE_OK(files::MakeDirectory("mem://saved_model"));
  REQUIRE_OK(files::Write("mem://saved_model/words.txt", "a word"));
  m.options.assets = {{m.path, "mem://saved_model/words.txt"}};
  m.options.init_op = m.load.name();
  REQUIRE_OK(WriteSavedModel(folder, *m.session, *m.root.graph(), m.saver.get(), m.options));
  BOOST_TEST(files::Exists(folder + "/variables/variables.index"));
  BOOST_TEST(*files::Read(folder + "/assets/words.txt") == "a word");
  BOOST_TEST((WriteSavedModel(folder, *m.session, *m.root.graph(), m.saver.get(), m.options).code() ==
              absl::StatusCode::kAlreadyExists));
  REQUIRE_OK(files::Delete("mem://saved_model/words.txt"));

  Graph graph;
  auto read = ReadSavedModel(folder, &graph);
  REQUIRE_OK(read.status());
  const auto session = *Session::Create();
  REQUIRE_OK(session->Extend(graph));
  REQUIRE_OK(read->Load(*session));
  const ModelSignature& serve = read->signatures.at("serving_default");
  BOOST_TEST(serve.method == "tensorflow/serving/predict");
  std::vector<Tensor> out;
  REQUIRE_OK(
      session->Run({{serve.inputs.at("in"), Tensor::Of<float>({1, 1}, {1, 2})}}, {serve.outputs.at("out")}, {}, &out));
  BOOST_TEST(out[0].DebugString() == "float32 [1,2] [4 6]");
  REQUIRE_OK(session->Run({}, {"text/Read"}, {}, &out));
  BOOST_TEST(out[0].scalar<std::string>() == "a word");
  // The checkpoint has the variables and nothing else.
  const auto reader = *CheckpointReader::Open(folder + "/variables/variables");
  BOOST_REQUIRE_EQUAL(reader->entries().size(), 1u);
  BOOST_TEST(reader->entries()[0].name == "w");
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  Model m;
  const std::string folder = "mem://saved_model/bad";
  const auto write = [&](const SavedModelOptions& options) {
    return WriteSavedModel(folder, *m.session, *m.root.graph(), m.saver.get(), options);
  };
  SavedModelOptions bad = m.options;
  bad.signatures["more"] = {.inputs = {{"in", "gone:0"}}, .outputs = {}};
  const absl::Status gone = write(bad);
  BOOST_TEST(absl::IsNotFound(gone), gone);
  BOOST_TEST(gone.message().find("'in' of signature 'more'") != std::string::npos, gone);
  bad = m.options, bad.init_op = "gone";
  BOOST_TEST(absl::IsNotFound(write(bad)));
  bad = m.options, bad.assets = {{m.path, "mem://a/x"}, {m.path, "mem://b/x"}};
  BOOST_TEST(absl::IsInvalidArgument(write(bad)));
  bad.assets.pop_back();
  BOOST_TEST(absl::IsNotFound(write(bad)));
  // Nothing of these is taken for a model.
  Graph graph;
  BOOST_TEST(absl::IsNotFound(ReadSavedModel(folder, &graph).status()));
  REQUIRE_OK(write(m.options));
  const absl::Status tags = ReadSavedModel(folder, &graph, {"train", "gpu"}).status();
  BOOST_TEST(absl::IsNotFound(tags), tags);
  BOOST_TEST(tags.message().find("{train gpu}; there are {serve}") != std::string::npos, tags);
  // Damage: of the file, and of what it names.
  const std::string path = folder + "/saved_model.pb", good = *files::Read(path);
  const auto read = [&](const std::string& bytes) {
    REQUIRE_OK(files::Write(path, bytes));
    Graph into;
    return ReadSavedModel(folder, &into).status();
  };
  BOOST_TEST(absl::IsDataLoss(read(good.substr(0, good.size() / 2))));
  BOOST_TEST(absl::IsDataLoss(read("")));
  const auto change = [&](const std::function<void(proto::MetaGraphDef*)>& f) {
    proto::SavedModel model;
    BOOST_REQUIRE(model.ParseFromString(good));
    f(model.mutable_meta_graphs(0));
    return read(model.SerializeAsString());
  };
  BOOST_TEST(absl::IsDataLoss(change([](auto* g) {
    (*(*g->mutable_signature_def())["serving_default"].mutable_outputs())["out"].set_name("gone:0");
  })));
  BOOST_TEST(absl::IsDataLoss(change(
      [](auto* g) { (*g->mutable_collection_def())["saved_model_main_op"].mutable_node_list()->add_value("gone"); })));
  BOOST_TEST(absl::IsDataLoss(change([](auto* g) { g->mutable_saver_def()->set_restore_op_name("gone"); })));
  REQUIRE_OK(read(good));
}

// Wherever the writing stops, what is there is a whole model or none.
BOOST_AUTO_TEST_CASE(a_write_that_is_stopped_anywhere_leaves_no_half_model) {
  using files::FaultyFiles;
  const auto disk = std::make_shared<FaultyFiles>();
  REQUIRE_OK(files::RegisterFileSystem("model", disk));
  Model m;
  int stopped = 0;
  for (int n = 1;; ++n) {
    const std::string folder = StrCat("model://d/", n);
    disk->FailAt(n, FaultyFiles::Fault::kDie);
    const absl::Status s = WriteSavedModel(folder, *m.session, *m.root.graph(), m.saver.get(), m.options);
    disk->Crash(FaultyFiles::Names::kLost);
    Graph graph;
    auto read = ReadSavedModel(folder, &graph);
    if (!read.ok()) {
      BOOST_TEST(absl::IsNotFound(read.status()), read.status());
      BOOST_TEST(!s.ok());
      ++stopped;
      continue;
    }
    const auto session = *Session::Create();
    REQUIRE_OK(session->Extend(graph));
    REQUIRE_OK(read->Load(*session));
    if (s.ok()) break;
  }
  BOOST_TEST(stopped >= 8);
}

BOOST_AUTO_TEST_CASE(tensorflow_serves_what_was_written_here) {
  const Folder folder;
  Model m;
  std::ofstream(folder.path() + "/words.txt") << "a word";
  m.options.assets = {{m.path, folder.path() + "/words.txt"}};
  m.options.init_op = m.load.name();
  REQUIRE_OK(WriteSavedModel(folder.path() + "/export", *m.session, *m.root.graph(), m.saver.get(), m.options));
  std::filesystem::remove(folder.path() + "/words.txt");
  const auto printed = RunPython(folder.path(), R"(
with tf.Graph().as_default(), v1.Session() as s:
  meta = v1.saved_model.load(s, ['serve'], 'export')
  sig = meta.signature_def['serving_default']
  x, y = sig.inputs['in'], sig.outputs['out']
  print(x.name, x.dtype, [d.size for d in x.tensor_shape.dim], sig.method_name)
  print(s.run(y.name, {x.name: [[1., 1.]]}).tolist())
  print(s.run('text/Read:0'))
)");
  if (!printed.has_value()) return;
  BOOST_TEST(*printed == "x:0 1 [-1, 2] tensorflow/serving/predict\n[[4.0, 6.0]]\nb'a word'\n");
}

BOOST_AUTO_TEST_CASE(what_tensorflow_exported_is_served_here) {
  const Folder folder;
  const auto printed = RunPython(folder.path(), R"(
for resource in [False, True]:
  with tf.Graph().as_default(), v1.Session() as s:
    x = v1.placeholder(tf.float32, [None, 2], name='x')
    w = v1.get_variable('w', [2, 2], use_resource=resource, initializer=v1.constant_initializer([[1, 2], [3, 4]]))
    y = tf.matmul(x, w, name='y')
    seen = v1.get_variable('seen', [], tf.int32, use_resource=True, collections=['local_variables'],
                           initializer=v1.zeros_initializer())
    main = v1.assign(seen, 7, name='main')
    s.run(v1.global_variables_initializer())
    builder = v1.saved_model.Builder('export%d' % resource)
    builder.add_meta_graph_and_variables(s, ['serve'], main_op=main.op if hasattr(main, 'op') else main,
      signature_def_map={'serving_default': v1.saved_model.predict_signature_def({'in': x}, {'out': y})})
    builder.save(as_text=resource)
print('done')
)");
  if (!printed.has_value()) return;
  BOOST_TEST(*printed == "done\n");
  for (const char* name : {"/export0", "/export1"}) {
    Graph graph;
    auto model = ReadSavedModel(folder.path() + name, &graph);
    REQUIRE_OK(model.status());
    const auto session = *Session::Create();
    REQUIRE_OK(session->Extend(graph));
    REQUIRE_OK(model->Load(*session));
    const ModelSignature& serve = model->signatures.at("serving_default");
    std::vector<Tensor> out;
    REQUIRE_OK(session->Run({{serve.inputs.at("in"), Tensor::Of<float>({1, 1}, {1, 2})}}, {serve.outputs.at("out")}, {},
                            &out));
    BOOST_TEST(out[0].DebugString() == "float32 [1,2] [4 6]");
    REQUIRE_OK(session->Run({}, {"seen/Read/ReadVariableOp"}, {}, &out));
    BOOST_TEST(out[0].scalar<int32_t>() == 7);
  }
}

// It is read, and refused when a step needs it.
BOOST_AUTO_TEST_CASE(a_model_of_functions_is_told) {
  const Folder folder;
  const auto printed = RunPython(folder.path(), R"(
import subprocess
program = '''
import tensorflow as tf
class M(tf.Module):
  def __init__(self):
    self.w = tf.Variable(2.0)
  @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
  def __call__(self, x):
    return self.w * x
m = M()
tf.saved_model.save(m, "export", signatures=m.__call__)
'''
subprocess.run([sys.executable, '-c', program], check=True, capture_output=True)
print('done')
)");
  if (!printed.has_value()) return;
  BOOST_TEST(*printed == "done\n");
  Graph graph;
  auto model = ReadSavedModel(folder.path() + "/export", &graph);
  REQUIRE_OK(model.status());
  BOOST_TEST(model->signatures.at("serving_default").inputs.at("x").text() == "serving_default_x:0");
  const auto session = *Session::Create();
  REQUIRE_OK(session->Extend(graph));
  const absl::Status s = model->Load(*session);
  BOOST_TEST(absl::IsNotFound(s), s);
  BOOST_TEST(s.message().find("StatefulPartitionedCall") != std::string::npos, s);
}

}  // namespace saved_model_test
}  // namespace troupe::train
