// troupe run --trace: the file is JSON, and has a row for each kind of work.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <boost/test/unit_test.hpp>
#include <map>
#include <set>

#include "tests/program/program_test.h"
#include "troupe/strings.h"

namespace troupe {
namespace trace_test {

using google::protobuf::Value;

// A queue is filled and emptied, a tensor saved, two matrices multiplied.
std::string Graph() {
  const std::string text = TypeAttrText("dtype", "DT_STRING");
  std::string g = "versions { producer: 27 }\n";
  g += PlaceholderText("x", "DT_FLOAT");
  g += NodeDefText("product", "MatMul", {"x", "x"}, TypeAttrText("T", "DT_FLOAT"));
  g += NodeDefText("queue", "FIFOQueueV2", {}, "attr { key: \"component_types\" value { list { type: DT_FLOAT } } }");
  const std::string types = "attr { key: \"Tcomponents\" value { list { type: DT_FLOAT } } }";
  g += NodeDefText("put", "QueueEnqueueV2", {"queue", "product"}, types);
  g += NodeDefText("take", "QueueDequeueV2", {"queue", "^put"},
                   "attr { key: \"component_types\" value { list { type: DT_FLOAT } } }");
  g += NodeDefText("prefix", "Placeholder", {}, text);
  g += NodeDefText("names", "Placeholder", {}, text);
  g += NodeDefText("slices", "Placeholder", {}, text);
  g += NodeDefText("save", "SaveV2", {"prefix", "names", "slices", "take"},
                   "attr { key: \"dtypes\" value { list { type: DT_FLOAT } } }");
  return g;
}

const Value& Field(const Value& v, const std::string& name) {
  static const Value none;
  const auto it = v.struct_value().fields().find(name);
  return it == v.struct_value().fields().end() ? none : it->second;
}

BOOST_AUTO_TEST_SUITE(trace)

BOOST_AUTO_TEST_CASE(it_has_rows_for_executor_kernels_queues_and_checkpointer) {
  const Folder folder;
  const Ended e =
      RunProgram({"run", folder.Write("graph.pbtxt", Graph()), "--feed", "x=[[1,2],[3,4]]", "--feed",
                  StrCat("prefix=\"", folder.Path("saved"), "\""), "--feed", "names=[\"t\"]", "--feed", "slices=[\"\"]",
                  "--fetch", "product", "--target", "save", "--trace", folder.Path("trace.json")});
  BOOST_REQUIRE_MESSAGE(e.status == 0, e.err);
  Value file;
  const auto parsed = google::protobuf::util::JsonStringToMessage(folder.Read("trace.json"), &file);
  BOOST_REQUIRE_MESSAGE(parsed.ok(), parsed.ToString());
  std::map<double, std::string> rows;
  std::map<std::string, std::set<std::string>> nodes;  // by row
  std::map<std::string, double> ends;                  // of the last event of a row
  for (const Value& event : Field(file, "traceEvents").list_value().values()) {
    if (Field(event, "name").string_value() == "thread_name")
      rows[Field(event, "tid").number_value()] = Field(Field(event, "args"), "name").string_value();
  }
  double turns = 0;
  for (const Value& event : Field(file, "traceEvents").list_value().values()) {
    if (Field(event, "ph").string_value() != "X") continue;
    BOOST_REQUIRE(rows.contains(Field(event, "tid").number_value()));
    const std::string& row = rows[Field(event, "tid").number_value()];
    nodes[row].insert(Field(Field(event, "args"), "node").string_value());
    turns += Field(Field(event, "args"), "nodes").number_value();
    const double start = Field(event, "ts").number_value(), length = Field(event, "dur").number_value();
    BOOST_TEST(start >= 0);
    BOOST_TEST(length >= 0);
    if (row != "executor: kernels in its turn") BOOST_TEST(start >= ends[row] - 0.01, row);  // no two at one time
    ends[row] = start + length;
  }
  BOOST_TEST(nodes["executor"].size() == 1u);
  BOOST_TEST(turns > 0);
  BOOST_TEST(nodes["queues"].contains("put"));
  BOOST_TEST(nodes["queues"].contains("take"));
  BOOST_TEST((nodes["checkpointer"] == std::set<std::string>{"save"}));
  bool product = nodes["executor: kernels in its turn"].contains("product");
  for (const auto& [row, names] : nodes) product |= row.starts_with("thread ") && names.contains("product");
  BOOST_TEST(product);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace trace_test
}  // namespace troupe
