// Both directions with the real TensorFlow: its Saver restores what ours saved, and ours what it
// saved. Needs a Python with TensorFlow, which TROUPE_TENSORFLOW_PYTHON names (python3 otherwise);
// skipped, with a line that says so, where there is none.
#include <boost/test/unit_test.hpp>

#include "tests/common/check_ok.h"
#include "tests/common/folder.h"
#include "tests/common/python.h"
#include "troupe/checkpoint.h"
#include "troupe/files.h"
#include "troupe/records.h"
#include "troupe/train/global_step.h"
#include "troupe/train/saver.h"
#include "troupe/troupe.h"

namespace troupe {
namespace tensorflow_test {

using testing::Folder;
using testing::RunPython;

BOOST_AUTO_TEST_CASE(tensorflow_restores_what_was_saved_here) {
  const Folder folder;
  const Scope root = Scope::NewRootScope();
  const Variable w(root.WithOpName("layer/w"), {{1.5f, -2.0f}, {0.25f, 8.0f}});
  const Variable names(root.WithOpName("names"), {"one", "", "three"});
  const Variable a(root.WithOpName("part_0"), {{1.0, 2.0}, {3.0, 4.0}}), b(root.WithOpName("part_1"), {{5.0, 6.0}});
  const Variable step = train::GetOrCreateGlobalStep(root);
  const Output y = ops::MatMul(root.WithOpName("y"), w, w);
  train::Saver saver(root,
                     {w, names, step, train::Saved("whole", a, "3 2 0,2:-"), train::Saved("whole", b, "3 2 2,1:-")});
  const Operation init = GlobalVariablesInitializer(root);
  REQUIRE_OK(root.status());
  const auto session = *Session::Create();
  REQUIRE_OK(session->Extend(*root.graph()));
  REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  REQUIRE_OK(session->Set(step, Tensor::Scalar(int64_t{42})));
  for (int i = 1; i <= 2; ++i) {  // the second one replaces a checkpoint of its own name
    REQUIRE_OK(saver.Save(*session, folder.path() + "/m", {.global_step = 42, .graph = root.graph()}).status());
  }
  const auto printed = RunPython(folder.path(), R"(
path = v1.train.latest_checkpoint('.')
print(path)
with tf.Graph().as_default(), v1.Session() as s:
  w = v1.get_variable('layer/w', [2, 2])
  names = v1.get_variable('names', [3], tf.string, initializer=v1.constant_initializer(['', '', '']))
  step = v1.get_variable('global_step', [], tf.int64)
  whole = v1.get_variable('whole', [3, 2], tf.float64)
  v1.train.Saver().restore(s, path)
  for v in [w, names, step, whole]:
    print(s.run(v).tolist())
with tf.Graph().as_default(), v1.Session() as s:
  saver = v1.train.import_meta_graph(path + '.meta')
  print([v.name for v in v1.global_variables()])
  saver.restore(s, path)
  print(s.run('y:0').tolist())
  saver.save(s, './again', global_step=43)
print(sorted(n for n, _ in tf.train.list_variables('./again-43')))
)");
  if (!printed.has_value()) return;
  BOOST_TEST(*printed ==
             "./m-42\n[[1.5, -2.0], [0.25, 8.0]]\n[b'one', b'', b'three']\n42\n[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]\n"
             "['layer/w:0', 'names:0', 'part_0:0', 'part_1:0', 'global_step:0']\n"
             "[[1.75, -19.0], [2.375, 63.5]]\n['global_step', 'layer/w', 'names', 'whole']\n");
  // What its Saver wrote with our nodes comes back.
  REQUIRE_OK(session->Set(w, Tensor::Of<float>({0, 0, 0, 0}, {2, 2})));
  REQUIRE_OK(saver.Restore(*session, *train::LatestCheckpoint(folder.path())));
  BOOST_TEST(*train::LatestCheckpoint(folder.path()) == folder.path() + "/again-43");
  BOOST_TEST(session->Get(w)->DebugString() == "float32 [2,2] [1.5 -2 0.25 8]");
}

BOOST_AUTO_TEST_CASE(what_tensorflow_saved_is_restored_and_trained_on) {
  const Folder folder;
  const auto printed = RunPython(folder.path(), R"(
for resource in [False, True]:
  with tf.Graph().as_default(), v1.Session() as s:
    v1.set_random_seed(1)
    w = v1.get_variable('w', [3, 2], use_resource=resource, initializer=v1.constant_initializer(0.5))
    part = v1.get_variable('part', [6, 2], use_resource=resource, partitioner=v1.fixed_size_partitioner(3),
                           initializer=v1.ones_initializer())
    step = v1.train.get_or_create_global_step()
    x = v1.placeholder(tf.float32, [None, 3], name='x')
    y = tf.matmul(tf.tanh(tf.matmul(x, w)), tf.transpose(tf.convert_to_tensor(part)))
    loss = tf.reduce_mean(tf.square(y - 1.0), name='loss')
    train = v1.train.MomentumOptimizer(0.05, 0.9).minimize(loss, step, name='train')
    s.run(v1.global_variables_initializer())
    feed = {x: [[1, 2, 3], [4, 5, -6]]}
    for _ in range(3):
      s.run(train, feed)
    saver = v1.train.Saver(sharded=resource)
    saver.save(s, './ref-model' if not resource else './res-model', global_step=step)
    print(*['%.6g' % s.run([loss, train], feed)[0] for _ in range(3)])
)");
  if (!printed.has_value()) return;
  std::istringstream lines(*printed);
  for (const char* model : {"ref-model-3", "res-model-3"}) {
    Graph graph;
    auto saver = train::ReadMetaGraph(StrCat(folder.path(), "/", model, ".meta"), &graph);
    REQUIRE_OK(saver.status());
    const auto session = *Session::Create();
    REQUIRE_OK(session->Extend(graph));
    REQUIRE_OK(saver->Restore(*session, StrCat(folder.path(), "/", model)));
    const Tensor x = Tensor::Of<float>({1, 2, 3, 4, 5, -6}, {2, 3});
    for (int i = 0; i < 3; ++i) {
      std::vector<Tensor> out;
      REQUIRE_OK(session->Run({{"x:0", x}}, {"loss:0"}, {"train"}, &out));
      double want = 0;
      lines >> want;
      BOOST_TEST(out[0].scalar<float>() == static_cast<float>(want), boost::test_tools::tolerance(1e-4f));
    }
    // Its own nodes save.
    const auto saved = saver->Save(*session, folder.path() + "/ours", 6);
    REQUIRE_OK(saved.status());
    const auto reader = CheckpointReader::Open(*saved);
    REQUIRE_OK(reader.status());
    BOOST_REQUIRE((*reader)->Find("part") != nullptr);
    BOOST_TEST((*reader)->Find("part")->slices.size() == 3u);
    BOOST_TEST((*reader)->Read("part")->TypeAndShape() == "float32 [6,2]");
    BOOST_TEST((*reader)->Read("global_step")->scalar<int64_t>() == 6);
  }
}

BOOST_AUTO_TEST_CASE(tensorflow_reads_our_record_files) {
  const Folder folder;
  for (const auto& [form, name] :
       {std::pair(files::Compression::kNone, ""), std::pair(files::Compression::kZlib, "ZLIB"),
        std::pair(files::Compression::kGzip, "GZIP")}) {
    const auto writer = *files::RecordWriter::Create(StrCat(folder.path(), "/records", name), form);
    for (int i = 0; i < 100; ++i)
      REQUIRE_OK(writer->Write(std::string(static_cast<size_t>(i * i), static_cast<char>(i))));
    REQUIRE_OK(writer->Close());
  }
  const auto printed = RunPython(folder.path(), R"(
for kind in ['', 'ZLIB', 'GZIP']:
  records = list(v1.io.tf_record_iterator('records' + kind, v1.io.TFRecordOptions(getattr(v1.io.TFRecordCompressionType, kind or 'NONE'))))
  print(len(records), all(r == bytes([i]) * (i * i) for i, r in enumerate(records)))
)");
  if (printed.has_value()) BOOST_TEST(*printed == "100 True\n100 True\n100 True\n");
}

}  // namespace tensorflow_test
}  // namespace troupe
