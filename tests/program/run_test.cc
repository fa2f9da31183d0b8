// troupe run: outputs, forms of values, files, and every exit status.
#include <boost/test/unit_test.hpp>
#include <map>

#include "tests/program/program_test.h"
#include "troupe/proto/meta_graph.pb.h"
#include "troupe/proto/saved_model.pb.h"
#include "troupe/strings.h"

namespace troupe {
namespace run_test {

const std::vector<std::string> kDtypes = {"FLOAT", "DOUBLE",    "HALF",       "BFLOAT16", "INT8",   "INT16",
                                          "INT32", "INT64",     "UINT8",      "UINT16",   "UINT32", "UINT64",
                                          "BOOL",  "COMPLEX64", "COMPLEX128", "STRING"};

// For each type a placeholder "x_TYPE" and an Identity "y_TYPE"; "sum" = x_FLOAT + x_FLOAT; "bad"
// asserts.
std::string Graph() {
  std::string g = "versions { producer: 27 }\n";
  for (const std::string& d : kDtypes) {
    g += PlaceholderText("x_" + d, "DT_" + d);
    g += NodeDefText("y_" + d, "Identity", {"x_" + d}, TypeAttrText("T", "DT_" + d));
  }
  g += NodeDefText("sum", "Add", {"x_FLOAT", "y_FLOAT"}, TypeAttrText("T", "DT_FLOAT"));
  g += NodeDefText("product", "MatMul", {"x_FLOAT", "x_FLOAT"}, TypeAttrText("T", "DT_FLOAT"));
  g += NodeDefText("done", "NoOp", {"^sum"});
  return g;
}

struct Fixture {
  Folder folder;
  std::string graph = folder.Write("graph.pbtxt", Graph());
  Ended Run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"run", graph});
    return RunProgram(arguments);
  }
  // What fetching y_TYPE gives when x_TYPE is fed with `value`.
  std::string Echo(const std::string& dtype, const std::string& value, bool json = false) const {
    std::vector<std::string> arguments = {"--feed", "x_" + dtype + "=" + value, "--fetch", "y_" + dtype};
    if (json) arguments.push_back("--json");
    const Ended e = Run(arguments);
    return e.status == 0 ? e.out : StrCat("status ", e.status, ": ", e.err);
  }
};

BOOST_FIXTURE_TEST_SUITE(run, Fixture)

BOOST_AUTO_TEST_CASE(a_sum_is_printed) {
  const Ended e = Run({"--feed", "x_FLOAT=[1, 2.5, -3]", "--fetch", "sum", "--fetch", "y_FLOAT:0"});
  BOOST_TEST(e.status == 0, e.err);
  BOOST_TEST(e.out == "sum float32 [3]\n[2, 5, -6]\ny_FLOAT:0 float32 [3]\n[1, 2.5, -3]\n");
  BOOST_TEST(e.err == "");
}

BOOST_AUTO_TEST_CASE(values_of_every_type_are_read_and_printed) {
  struct Case {
    std::string dtype, value, printed;
  };
  const std::vector<Case> cases = {
      {"FLOAT", "3", "float32 []\n3"},
      {"FLOAT", " [ [1,2] , [3, 4.5e-1] ] ", "float32 [2,2]\n[[1, 2],\n [3, 0.45]]"},
      {"FLOAT", "[nan, inf, -inf, -0.0]", "float32 [4]\n[nan, inf, -inf, -0]"},
      // Beyond the largest number is infinity, never 0; below the smallest is 0.
      {"FLOAT", "[1e39, -1e39, 1e999, -1e999, 1e-999]", "float32 [5]\n[inf, -inf, inf, -inf, 0]"},
      {"DOUBLE", "[1e999, -1e999, 0.00001e999999999999999999999, 12345e-99999]", "float64 [4]\n[inf, -inf, inf, 0]"},
      {"DOUBLE", "[0e999, -1e-999, 1000000e303]", "float64 [3]\n[0, -0, inf]"},
      {"HALF", "[70000, -1e999]", "float16 [2]\n[inf, -inf]"},
      {"BFLOAT16", "1e999", "bfloat16 []\ninf"},
      {"COMPLEX64", "[1e999-1e999j, 1e999]", "complex64 [2]\n[inf-infj, inf+0j]"},
      {"FLOAT", "[NaN, nan, INF, Infinity, +inf, -Inf]", "float32 [6]\n[nan, nan, inf, inf, inf, -inf]"},
      {"FLOAT", "[]", "float32 [0]\n[]"},
      {"FLOAT", "[[],[]]", "float32 [2,0]\n[[],\n []]"},
      {"FLOAT", "[[[1],[2]],[[3],[4]]]", "float32 [2,2,1]\n[[[1],\n  [2]],\n\n [[3],\n  [4]]]"},
      {"DOUBLE", "0.1", "float64 []\n0.1"},
      {"HALF", "[1.5, 65504]", "float16 [2]\n[1.5, 65504]"},
      {"BFLOAT16", "[1.5, -2]", "bfloat16 [2]\n[1.5, -2]"},
      {"INT8", "[-128, 127]", "int8 [2]\n[-128, 127]"},
      {"INT32", "[7, 2.0, 1e3]", "int32 [3]\n[7, 2, 1000]"},
      {"INT64", "-9223372036854775808", "int64 []\n-9223372036854775808"},
      {"UINT64", "18446744073709551615", "uint64 []\n18446744073709551615"},
      {"BOOL", "[true, false, 1, 0]", "bool [4]\n[true, false, true, false]"},
      {"COMPLEX64", "[1+2j, -3.5j, 4, 1e-2-1e+2j]", "complex64 [4]\n[1+2j, 0-3.5j, 4+0j, 0.01-100j]"},
      {"STRING", "hello world", "string []\n\"hello world\""},
      {"STRING", "['a,b', \"c]\", bare]", "string [3]\n[\"a,b\", \"c]\", \"bare\"]"},
      {"STRING", "'line\\nbreak'", "string []\n\"line\\nbreak\""},
      {"STRING", "", "string []\n\"\""},
  };
  for (const Case& c : cases) {
    const std::string out = Echo(c.dtype, c.value);
    BOOST_TEST(out == StrCat("y_", c.dtype, " ", c.printed, "\n"), c.value << " gives " << out);
  }
}

BOOST_AUTO_TEST_CASE(values_that_are_none_are_mistakes_of_usage) {
  struct Case {
    std::string dtype, value, why;
  };
  const std::vector<Case> cases = {
      {"FLOAT", "one", "'one' is no float32"},
      {"FLOAT", "", "a value is missing"},
      {"FLOAT", "[1, 2", "a list needs ',' or ']' here"},
      {"FLOAT", "[1, 2]]", "there is more after the value"},
      {"FLOAT", "[[1, 2], [3]]", "a list has 1 entries, but the one before it has 2"},
      {"FLOAT", "[1, [2]]", "the lists are not equally deep"},
      {"FLOAT", "[[1], 2]", "the lists are not equally deep"},
      {"FLOAT", "['1']", "'1' is no float32"},
      {"INT32", "2.5", "'2.5' is no int32"},
      {"INT32", "2147483648", "'2147483648' is no int32"},
      {"UINT8", "[255, 256]", "'256' is no uint8"},
      {"UINT8", "-1", "'-1' is no uint8"},
      {"BOOL", "yes", "'yes' is no bool"},
      {"COMPLEX64", "1+2", "'1+2' is no complex64"},
      // What stands behind a number belongs to it, and every number has one sign at most.
      {"FLOAT", "1.5x", "'1.5x' is no float32"},
      {"FLOAT", "1 2", "'1 2' is no float32"},
      {"DOUBLE", "1e", "'1e' is no float64"},
      {"DOUBLE", "0x10", "'0x10' is no float64"},
      {"DOUBLE", "+-1", "'+-1' is no float64"},
      {"DOUBLE", "--1", "'--1' is no float64"},
      {"HALF", "nan(1)", "'nan(1)' is no float16"},
      {"DOUBLE", "nane", "'nane' is no float64"},
      {"INT32", "+-1", "'+-1' is no int32"},
      {"INT32", "nan", "'nan' is no int32"},
      {"INT64", "1e999", "'1e999' is no int64"},
      {"INT64", "inf", "'inf' is no int64"},
      {"COMPLEX128", "1e5x+2j", "'1e5x+2j' is no complex128"},
      {"STRING", "'open", "the string has no end"},
  };
  for (const Case& c : cases) {
    const Ended e = Run({"--feed", "x_" + c.dtype + "=" + c.value, "--fetch", "y_" + c.dtype});
    BOOST_TEST(e.status == 2, c.value << ": " << e.out << e.err);
    BOOST_TEST((e.err.find(c.why) != std::string::npos), c.value << ": " << e.err);
    BOOST_TEST(e.out == "");
  }
}

BOOST_AUTO_TEST_CASE(numpy_files_go_round_for_every_type) {
  const std::map<std::string, std::string> values = {{"BOOL", "[[true, false]]"},
                                                     {"COMPLEX64", "[[1+2j, 3]]"},
                                                     {"COMPLEX128", "[[1+2j, 3]]"},
                                                     {"FLOAT", "[[0.1, 2.5]]"},
                                                     {"DOUBLE", "[[0.1, 1e300]]"}};
  for (const std::string& d : kDtypes) {
    if (d == "STRING") continue;
    const auto it = values.find(d);
    const std::string value = it == values.end() ? "[[1, 2]]" : it->second;
    const std::string printed = Echo(d, value);
    const Ended written = Run({"--feed", "x_" + d + "=" + value, "--fetch", "y_" + d, "--out", folder.Path("out")});
    BOOST_TEST(written.status == 0, written.err);
    BOOST_TEST((written.out.find("0.npy") != std::string::npos), written.out);
    const Ended back = Run({"--feed", "x_" + d + "=@" + folder.Path("out/0.npy"), "--fetch", "y_" + d});
    BOOST_TEST(back.status == 0, back.err);
    BOOST_TEST(back.out == printed);
  }
}

// As numpy.save writes numpy.array([[1, 2], [3, 4]], "<i4").
std::string NumpyFile() {
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2), }";
  header.resize(117, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00v\x00", 10);
  bytes += header;
  for (int i = 1; i <= 4; ++i) bytes += std::string{static_cast<char>(i), 0, 0, 0};
  return bytes;
}

BOOST_AUTO_TEST_CASE(files_are_numpys) {
  const std::string file = folder.Write("a.npy", NumpyFile());
  BOOST_TEST(Echo("INT32", "@" + file) == "y_INT32 int32 [2,2]\n[[1, 2],\n [3, 4]]\n");
  BOOST_TEST(Run({"--feed", "x_INT32=[[1,2],[3,4]]", "--fetch", "y_INT32", "--out", folder.Path("o")}).status == 0);
  BOOST_TEST((folder.Read("o/0.npy") == NumpyFile()));
  // Other number types are converted where no value changes.
  BOOST_TEST(Echo("FLOAT", "@" + file) == "y_FLOAT float32 [2,2]\n[[1, 2],\n [3, 4]]\n");
  BOOST_TEST(Echo("BOOL", "@" + file).find("status 1: troupe: INVALID_ARGUMENT: --feed x_BOOL=@") == 0u);
}

// A .npy file of int16 numbers, little-endian or not.
std::string Int16File(const std::string& shape, bool columns, bool big_endian, const std::vector<int>& values) {
  std::string header = StrCat("{'descr': '", big_endian ? ">" : "<",
                              "i2', 'fortran_order': ", columns ? "True" : "False", ", 'shape': ", shape, ", }");
  header.resize(117, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00v\x00", 10);
  bytes += header;
  for (int v : values) {
    const char low = static_cast<char>(v & 0xff), high = static_cast<char>(v >> 8);
    bytes += big_endian ? std::string{high, low} : std::string{low, high};
  }
  return bytes;
}

BOOST_AUTO_TEST_CASE(files_of_either_order_are_read) {
  const auto echo = [&](const std::string& bytes) { return Echo("INT32", "@" + folder.Write("o.npy", bytes)); };
  const std::string want = "y_INT32 int32 [2,3]\n[[1, 2, 3],\n [257, -2, 6]]\n";
  BOOST_TEST(echo(Int16File("(2, 3)", false, false, {1, 2, 3, 257, -2, 6})) == want);
  BOOST_TEST(echo(Int16File("(2, 3)", false, true, {1, 2, 3, 257, -2, 6})) == want);
  BOOST_TEST(echo(Int16File("(2, 3)", true, false, {1, 257, 2, -2, 3, 6})) == want);
  BOOST_TEST(echo(Int16File("(2, 3)", true, true, {1, 257, 2, -2, 3, 6})) == want);
  BOOST_TEST(echo(Int16File("(2, 1, 2)", true, false, {1, 3, 2, 4})) ==
             "y_INT32 int32 [2,1,2]\n[[[1, 2]],\n\n [[3, 4]]]\n");
  BOOST_TEST(echo(Int16File("(3,)", true, false, {1, 2, 3})) == "y_INT32 int32 [3]\n[1, 2, 3]\n");
  BOOST_TEST(echo(Int16File("(0, 3)", true, true, {})) == "y_INT32 int32 [0,3]\n[]\n");
  // The parts of a complex number are numbers of their own.
  std::string complex = Int16File("()", false, true, {});
  complex.replace(complex.find("'>i2'"), 5, "'>c8'");
  complex += std::string("\x3f\x80\x00\x00\xc0\x00\x00\x00", 8);
  BOOST_TEST(Echo("COMPLEX64", "@" + folder.Write("c.npy", complex)) == "y_COMPLEX64 complex64 []\n1-2j\n");
}

BOOST_AUTO_TEST_CASE(a_number_of_a_file_that_has_no_place_is_no_infinity) {
  std::string file = Int16File("(1,)", false, false, {});
  file.replace(file.find("'<i2'"), 5, "'<f8'");
  const std::string large = file + std::string("\x9c\x75\x00\x88\x3c\xe4\x37\x7e", 8);  // 1e300
  BOOST_TEST(Echo("DOUBLE", "@" + folder.Write("d.npy", large)) == "y_DOUBLE float64 [1]\n[1e+300]\n");
  const std::string refused = Echo("FLOAT", "@" + folder.Path("d.npy"));
  BOOST_TEST((refused.find("element 0 of the float64 tensor is no float32") != std::string::npos), refused);
  const std::string infinite = file + std::string("\x00\x00\x00\x00\x00\x00\xf0\x7f", 8);
  BOOST_TEST(Echo("FLOAT", "@" + folder.Write("i.npy", infinite)) == "y_FLOAT float32 [1]\n[inf]\n");
}

BOOST_AUTO_TEST_CASE(bad_files_are_failures) {
  const auto echo = [&](const std::string& bytes) { return Echo("INT32", "@" + folder.Write("b.npy", bytes)); };
  const auto edited = [](const std::string& from, const std::string& to) {
    std::string bytes = NumpyFile();
    bytes.replace(bytes.find(from), from.size(), to);
    return bytes;
  };
  const auto says = [](const std::string& out, const std::string& why) {
    return out.starts_with("status 1: ") && out.find(why) != std::string::npos;
  };
  BOOST_TEST(says(echo(""), "b.npy: not a .npy file"));
  BOOST_TEST(says(echo(NumpyFile().substr(0, 50)), "the header is cut off"));
  BOOST_TEST(says(echo(NumpyFile().substr(0, 140)), "it holds 12 bytes of elements, but int32 [2,2] takes 16"));
  BOOST_TEST(says(echo(edited("<i4", "<U4")), "its type '<U4' has no counterpart here"));
  BOOST_TEST(says(echo(edited("False", "Maybe")), "fortran_order is neither True nor False"));
  BOOST_TEST(says(echo(edited("(2, 2)", "(2,-2)")), "dimension -2 is negative"));
  BOOST_TEST(says(echo(edited("'shape'", "'shapf'")), "the header lacks descr, fortran_order or shape"));
  BOOST_TEST(says(Echo("INT32", "@" + folder.Path("none.npy")), "No such file or directory"));
  // A folder opens like a file, and throws when it is read.
  BOOST_TEST(says(Echo("INT32", "@" + folder.Path(".")), "/.: it cannot be read"));
  const Ended of_folder = RunProgram({"run", folder.Path(".")});
  BOOST_TEST(of_folder.status == 1);
  BOOST_TEST(of_folder.err.find("/.: it cannot be read") != std::string::npos, of_folder.err);
}

BOOST_AUTO_TEST_CASE(json_is_one_object) {
  BOOST_TEST(Echo("FLOAT", "[[1, 2.5], [nan, -inf]]", true) ==
             "{\"fetches\": [\n  {\"name\": \"y_FLOAT\", \"dtype\": \"float32\", \"shape\": [2, 2], \"values\": [[1, "
             "2.5], [NaN, -Infinity]]}\n]}\n");
  BOOST_TEST(Echo("STRING", "['a\"\\n', '\\xff', '\xc3\xa9']", true) ==
             "{\"fetches\": [\n  {\"name\": \"y_STRING\", \"dtype\": \"string\", \"shape\": [3], \"values\": "
             "[\"a\\\"\\n\", \"\\u00ff\", \"\xc3\xa9\"]}\n]}\n");
  BOOST_TEST(Echo("COMPLEX64", "1-2j", true) ==
             "{\"fetches\": [\n  {\"name\": \"y_COMPLEX64\", \"dtype\": \"complex64\", \"shape\": [], \"values\": [1, "
             "-2]}\n]}\n");
}

BOOST_AUTO_TEST_CASE(json_names_files_and_tells_the_time) {
  const std::string out = folder.Path("o");
  const Ended e = Run({"--feed", "x_FLOAT=1", "--feed", "x_STRING=s", "--fetch", "sum", "--fetch", "y_STRING", "--out",
                       out, "--json", "--repeat", "20"});
  BOOST_TEST(e.status == 0, e.err);
  BOOST_TEST((e.out.find("{\"name\": \"sum\", \"dtype\": \"float32\", \"shape\": [], \"file\": \"" + out +
                         "/0.npy\"}") != std::string::npos),
             e.out);
  BOOST_TEST((e.out.find("{\"name\": \"y_STRING\", \"dtype\": \"string\", \"shape\": [], \"values\": \"s\"}") !=
              std::string::npos),
             e.out);
  BOOST_TEST(folder.Has("o/0.npy"));
  BOOST_TEST(!folder.Has("o/1.npy"));
  BOOST_TEST((e.out.find("\"timing\": {\"nodes\": 35, \"import_and_first_run_s\": ") != std::string::npos), e.out);
  for (const char* key : {"\"run_us\": {\"median\": ", "\"min\": ", "\"max\": "})
    BOOST_TEST((e.out.find(key) != std::string::npos), e.out);
}

BOOST_AUTO_TEST_CASE(targets_run_without_fetches) {
  const Ended e = Run({"--feed", "x_FLOAT=1", "--target", "done", "--threads", "2", "--repeat", "3"});
  BOOST_TEST(e.status == 0, e.err);
  BOOST_TEST((e.out.find("35 nodes; import and first run ") == 0), e.out);
}

BOOST_AUTO_TEST_CASE(memory_is_predicted_and_measured) {
  std::string rows;
  for (int i = 0; i < 100; ++i) {
    std::string row;
    for (int k = 0; k < 100; ++k) StrAppend(&row, k > 0 ? ",1" : "1");
    StrAppend(&rows, i > 0 ? ",[" : "[", row, "]");
  }
  const std::string feed = StrCat("x_FLOAT=[", rows, "]");
  const Ended text = Run({"--feed", feed, "--fetch", "product", "--memory", "--threads", "1"});
  BOOST_TEST(text.status == 0, text.err);
  BOOST_TEST(text.out.find("a step's tensors take at most 40000 bytes by their shapes, ") != std::string::npos,
             text.out);
  BOOST_TEST(text.out.find("  most when node 'product' runs; the largest are then:\n"
                           "  40000 of node 'product' (MatMul)\n") != std::string::npos,
             text.out);
  const Ended json = Run({"--feed", feed, "--fetch", "product", "--memory", "--json", "--threads", "1"});
  BOOST_TEST(json.status == 0, json.err);
  const std::string before = "\"memory\": {\"predicted_bytes\": 40000, \"measured_bytes\": ";
  const size_t at = json.out.find(before);
  BOOST_REQUIRE_MESSAGE(at != std::string::npos, json.out);
  const int measured = std::stoi(json.out.substr(at + before.size()));
  BOOST_TEST((measured >= 40000 && measured < 100000), measured);
  BOOST_TEST(json.out.find("\"holders\": [{\"what\": \"node 'product' (MatMul)\", \"bytes\": 40000}]}}\n") !=
                 std::string::npos,
             json.out);
  const Ended elsewhere = Run({"--feed", feed, "--fetch", "product", "--memory", "--server", "troupe://127.0.0.1:1"});
  BOOST_TEST(elsewhere.status == 2, elsewhere.err);
}

BOOST_AUTO_TEST_CASE(a_trace_is_written) {
  const Ended e = Run({"--feed", "x_FLOAT=[[1]]", "--fetch", "product", "--trace", folder.Path("trace.json")});
  BOOST_TEST(e.status == 0, e.err);
  const std::string trace = folder.Read("trace.json");
  BOOST_TEST((trace.find("\"node\": \"product\"") != std::string::npos), trace);
}

BOOST_AUTO_TEST_CASE(a_failed_run_ends_with_1_and_its_reason) {
  const auto fails = [&](const std::vector<std::string>& arguments, const std::string& why) {
    const Ended e = Run(arguments);
    BOOST_TEST(e.status == 1, e.out << e.err);
    BOOST_TEST((e.err.find(why) != std::string::npos), e.err);
    BOOST_TEST(e.out == "");
  };
  fails({"--fetch", "sum"}, "x_FLOAT");
  fails({"--fetch", "nobody"}, "nobody");
  fails({"--target", "nobody"}, "nobody");
  fails({"--feed", "nobody=1", "--fetch", "sum"}, "the graph has no node 'nobody'");
  fails({"--feed", "x_FLOAT:1=1", "--fetch", "sum"}, "has 1 output");
  fails({"--feed", "x_FLOAT=[1,2]", "--fetch", "product"}, "product");
  fails({"--feed", "x_FLOAT=1", "--fetch", "sum", "--out", graph + "/below"}, "graph.pbtxt/below");
  const Ended none = RunProgram({"run", folder.Path("none.pb"), "--fetch", "x"});
  BOOST_TEST(none.status == 1);
  BOOST_TEST(none.err == "troupe: NOT_FOUND: " + folder.Path("none.pb") + ": No such file or directory\n");
  const Ended bad =
      RunProgram({"run", folder.Write("bad.pbtxt", "node { name: 'n' op: 'Identity' input: 'm' }"), "--fetch", "n"});
  BOOST_TEST(bad.status == 1);
  BOOST_TEST((bad.err.find("node 'n' (Identity): input 'm': there is no node 'm'") != std::string::npos), bad.err);
}

BOOST_AUTO_TEST_CASE(mistakes_of_usage_end_with_2) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"nothing"},
                                             {"run"},
                                             {"run", graph, "--oops"},
                                             {"run", graph, "--feed", "x", "--fetch", "sum"},
                                             {"run", graph, "--feed", "=1", "--fetch", "sum"},
                                             {"run", graph, "--feed", "^x=1", "--fetch", "sum"},
                                             {"run", graph, "--fetch", "sum", "--repeat", "many"},
                                             {"run", graph, "--fetch", "sum", "--threads", "-1"}}) {
    const Ended e = RunProgram(arguments);
    BOOST_TEST(e.status == 2, StrJoin(arguments, " "));
    BOOST_TEST(e.err != "");
  }
  const std::string commands =
      "the commands are run, tune, ops, graph, checkpoint, trace, serve, status, cluster and play (troupe --help says more)\n";
  BOOST_TEST(RunProgram({}).err == "troupe: name a command: " + commands);
  BOOST_TEST(RunProgram({"frob", "--help"}).err == "troupe: there is no command 'frob'; " + commands);
  const Ended nothing = Run({});
  BOOST_TEST(nothing.status == 2);
  BOOST_TEST((nothing.err.find("name a --fetch or a --target. The graph's sinks (nodes whose outputs nobody uses) "
                               "are:\n  y_DOUBLE (Identity)\n") != std::string::npos),
             nothing.err);
  BOOST_TEST((nothing.err.find("  done (NoOp, no output: a --target)") != std::string::npos), nothing.err);
}

BOOST_AUTO_TEST_CASE(what_is_no_graph_is_called_by_its_name) {
  proto::MetaGraphDef meta;
  // As TensorFlow writes it: the list of ops is not UTF-8 where a GraphDef has a string.
  meta.mutable_meta_info_def()->set_meta_graph_version("1");
  for (int i = 0; i < 200; ++i) {
    auto* op = meta.mutable_meta_info_def()->mutable_stripped_op_list()->add_op();
    op->set_name("AnOpWithALongName");
    op->set_is_stateful(true);
  }
  proto::NodeDef* node = meta.mutable_graph_def()->add_node();
  node->set_name("n");
  node->set_op("NoOp");
  proto::SavedModel model;
  model.set_saved_model_schema_version(1);
  *model.add_meta_graphs() = meta;
  const auto refusal = [&](const std::string& name, const std::string& bytes) {
    const Ended e = RunProgram({"run", folder.Write(name, bytes), "--target", "n"});
    BOOST_TEST(e.status == 1);
    return e.err;
  };
  const std::string is_meta = "a MetaGraphDef, not a GraphDef; write its field graph_def to a file of its own\n";
  const std::string is_model =
      "a SavedModel, not a GraphDef; `troupe run` takes its folder, or write the field graph_def of one of its "
      "meta_graphs to a file of its own\n";
  const std::string begin = "troupe: INVALID_ARGUMENT: ";
  BOOST_TEST(refusal("m.pb", meta.SerializeAsString()) == begin + folder.Path("m.pb") + ": " + is_meta);
  BOOST_TEST(refusal("m.pbtxt", meta.DebugString()) == begin + folder.Path("m.pbtxt") + ": " + is_meta);
  BOOST_TEST(refusal("s.pb", model.SerializeAsString()) == begin + folder.Path("s.pb") + ": " + is_model);
  // 3 GiB of nothing, of which the disk holds a block.
  folder.Write("long.pb", "");
  std::filesystem::resize_file(folder.Path("long.pb"), uintmax_t{3} << 30);
  const Ended e = RunProgram({"graph", folder.Path("long.pb")});
  BOOST_TEST(e.status == 1);
  BOOST_TEST(e.err == begin + folder.Path("long.pb") +
                          ": the file has 3221225472 bytes, but a GraphDef has less than 2 GiB (2147483648): feed or "
                          "assign large constants instead\n");
}

BOOST_AUTO_TEST_CASE(unknown_ops_that_are_needed_end_with_3_and_are_listed_at_once) {
  const std::string path = folder.Write(
      "u.pbtxt", NodeDefText("a", "Zork", {}) + NodeDefText("b", "Frobnicate", {"a"}) + NodeDefText("c", "NoOp", {}));
  const Ended e = RunProgram({"run", path, "--fetch", "b"});
  BOOST_TEST(e.status == 3);
  BOOST_TEST(e.err ==
             "troupe: NOT_FOUND: the step needs 2 ops that do not exist here: 'Frobnicate' (node 'b'), 'Zork' (node "
             "'a')\n");
  BOOST_TEST(RunProgram({"run", path, "--target", "c"}).status == 0);
  const Ended shown = RunProgram({"graph", path});
  BOOST_TEST(shown.status == 0);
  BOOST_TEST(shown.out.find("Frobnicate") != std::string::npos, shown.out);
  BOOST_TEST(RunProgram({"graph", path, "--after", "prune", "--fetch", "b"}).status == 3);
}

BOOST_AUTO_TEST_CASE(help_ends_with_0) {
  const Ended e = RunProgram({"run", "--help"});
  BOOST_TEST(e.out.find("INT:INT") == std::string::npos, e.out);  // what the parser says of its own checks
  BOOST_TEST(e.status == 0);
  for (const char* option : {"--feed", "--fetch", "--target", "--init", "--out", "--repeat", "--threads", "--timeout",
                             "--memory_limit", "--trace", "--json", "--full", "--load"}) {
    BOOST_TEST((e.out.find(option) != std::string::npos), option);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace run_test
}  // namespace troupe
