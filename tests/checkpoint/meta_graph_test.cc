// MetaGraphs: the collections by which TensorFlow knows loops and conditionals go through unharmed.
#include <boost/test/unit_test.hpp>

#include "tests/common/check_ok.h"
#include "tests/common/folder.h"
#include "tests/common/python.h"
#include "troupe/files.h"
#include "troupe/proto/meta_graph.pb.h"
#include "troupe/train/saver.h"
#include "troupe/troupe.h"

namespace troupe {
namespace meta_graph_test {

using testing::RunPython;

BOOST_AUTO_TEST_SUITE(meta_graph)

BOOST_AUTO_TEST_CASE(contexts_of_loops_and_conditionals_are_kept_byte_for_byte) {
  proto::MetaGraphDef meta;
  proto::NodeDef* const node = meta.mutable_graph_def()->add_node();
  node->set_name("n");
  node->set_op("NoOp");
  const std::vector<std::string> whiles = {std::string("\x0a\x01w\xff\x00\x80", 6), "second"}, conds = {"\x0a\x01c"};
  for (const std::string& w : whiles)
    (*meta.mutable_collection_def())["while_context"].mutable_bytes_list()->add_value(w);
  for (const std::string& c : conds)
    (*meta.mutable_collection_def())["cond_context"].mutable_bytes_list()->add_value(c);
  (*meta.mutable_collection_def())["of_the_program"].mutable_bytes_list()->add_value("means nothing here");
  REQUIRE_OK(files::Write("mem://contexts.meta", meta.SerializeAsString()));
  Graph graph;
  const auto saver = train::ReadMetaGraph("mem://contexts.meta", &graph);
  BOOST_REQUIRE_MESSAGE(saver.ok(), saver.status());
  REQUIRE_OK(train::WriteMetaGraph("mem://again.meta", graph));
  proto::MetaGraphDef again;
  BOOST_REQUIRE(again.ParseFromString(*files::Read("mem://again.meta")));
  const auto bytes = [&](const std::string& name) {
    const auto& list = again.collection_def().at(name).bytes_list().value();
    return std::vector<std::string>(list.begin(), list.end());
  };
  BOOST_TEST(bytes("while_context") == whiles);
  BOOST_TEST(bytes("cond_context") == conds);
  BOOST_TEST(again.collection_def().contains("of_the_program") == false);
}

// TensorFlow makes a gradient of a loop and of a conditional by their contexts, of a MetaGraph that
// has been here.
BOOST_AUTO_TEST_CASE(tensorflow_differentiates_a_loop_that_was_read_and_written_here) {
  const testing::Folder here;
  const std::string& folder = here.path();
  const auto written = RunPython(folder, R"py(
v1.disable_control_flow_v2()
x = v1.placeholder(tf.float32, [], name='x')
_, power = v1.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * x), [0, x], name='loop')
y = v1.cond(x > 0, lambda: power * 2, lambda: power * 3, name='branch')
tf.identity(y, name='y')
assert v1.get_collection('while_context') and v1.get_collection('cond_context')
v1.train.export_meta_graph('theirs.meta')
)py");
  if (!written) return;
  Graph graph;
  const auto saver = train::ReadMetaGraph(folder + "/theirs.meta", &graph);
  BOOST_REQUIRE_MESSAGE(saver.ok(), saver.status());
  REQUIRE_OK(train::WriteMetaGraph(folder + "/ours.meta", graph));
  const auto read = RunPython(folder, R"py(
v1.disable_control_flow_v2()
v1.train.import_meta_graph('ours.meta')
g = v1.get_default_graph()
x, y = g.get_tensor_by_name('x:0'), g.get_tensor_by_name('y:0')
gradient = v1.gradients(y, x)[0]
with v1.Session() as s:
  print([float(v) for v in s.run([y, gradient], {x: 2.0})])
  print([float(v) for v in s.run([y, gradient], {x: -1.0})])
)py");
  BOOST_REQUIRE(read.has_value());
  BOOST_TEST(*read == "[32.0, 64.0]\n[3.0, -12.0]\n");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace meta_graph_test
}  // namespace troupe
