// troupe run on the folder of a SavedModel: signatures, keys, variables.
#include <boost/test/unit_test.hpp>

#include "tests/program/program_test.h"
#include "troupe/train/saved_model.h"
#include "troupe/troupe.h"

namespace troupe {
namespace saved_model_test {

// y = w x, and twice that, with two signatures or one.
struct Fixture {
  Folder folder;
  std::string model = folder.Path("model"), single = folder.Path("single"), none = folder.Path("none");
  Fixture() {
    const Scope root = Scope::NewRootScope();
    const Output x = ops::Placeholder(root.WithOpName("node_x"), DType::kFloat, {.shape = {-1}});
    const Variable w(root.WithOpName("w"), 3.0f);
    const Output y = ops::Mul(root.WithOpName("node_y"), w, x), twice = ops::Mul(root.WithOpName("twice"), y, 2.0f);
    const Output more = w.AssignAdd(root.WithOpName("more"), 1.0f);
    train::Saver saver(root);
    auto session = *Session::Create();
    BOOST_REQUIRE(session->Extend(*root.graph()).ok());
    BOOST_REQUIRE(session->Run({}, {}, {w.initializer()}, nullptr).ok());
    BOOST_REQUIRE(session->Run({}, {}, {more}, nullptr).ok());  // w = 4, which no initializer gives
    train::SavedModelOptions options;
    const auto write = [&](const std::string& path) {
      const absl::Status s = train::WriteSavedModel(path, *session, *root.graph(), &saver, options);
      BOOST_REQUIRE_MESSAGE(s.ok(), s);
    };
    write(none);
    options.signatures["other"] = {.inputs = {{"in", x}}, .outputs = {{"out", y}, {"double", twice}}};
    write(single);
    options.signatures["serving_default"] = {.inputs = {{"x", x}}, .outputs = {{"y", y}}};
    write(model);
  }
};

BOOST_FIXTURE_TEST_SUITE(saved_model, Fixture)

BOOST_AUTO_TEST_CASE(feeds_and_fetches_are_the_keys_of_the_signature) {
  const Ended e = RunProgram({"run", model, "--feed", "x=[1,2]", "--fetch", "y"});
  BOOST_TEST(e.status == 0, e.err);
  BOOST_TEST(e.out == "y float32 [2]\n[4, 8]\n");
  const Ended named = RunProgram({"run", model, "--signature", "other", "--feed", "in=[1]", "--fetch", "double"});
  BOOST_TEST(named.status == 0, named.err);
  BOOST_TEST(named.out == "double float32 [1]\n[8]\n");
  const Ended json = RunProgram({"run", model, "--tags", "serve", "--feed", "x=[1]", "--fetch", "y", "--json"});
  BOOST_TEST(json.out.find("\"name\": \"y\"") != std::string::npos, json.out + json.err);
}

BOOST_AUTO_TEST_CASE(without_a_fetch_all_outputs_are_fetched) {
  const Ended e = RunProgram({"run", single, "--feed", "in=[2]"});
  BOOST_TEST(e.status == 0, e.err);
  BOOST_TEST(e.out == "double float32 [1]\n[16]\nout float32 [1]\n[8]\n");
}

BOOST_AUTO_TEST_CASE(names_of_the_graph_are_taken_too) {
  const Ended e = RunProgram({"run", none, "--feed", "node_x=[1]", "--fetch", "node_y:0"});
  BOOST_TEST(e.status == 0, e.err);
  BOOST_TEST(e.out == "node_y:0 float32 [1]\n[4]\n");
  const Ended mixed = RunProgram({"run", model, "--feed", "x=[1]", "--fetch", "twice"});
  BOOST_TEST(mixed.out == "twice float32 [1]\n[8]\n", mixed.err);
}

BOOST_AUTO_TEST_CASE(mistakes_are_told) {
  const Ended signature = RunProgram({"run", model, "--signature", "third", "--feed", "x=[1]"});
  BOOST_TEST(signature.status == 1);
  BOOST_TEST(signature.err.find("there is no signature 'third'; the model has 'other' (in -> double, out), "
                                "'serving_default' (x -> y)") != std::string::npos,
             signature.err);
  const Ended tags = RunProgram({"run", model, "--tags", "train,gpu", "--feed", "x=[1]"});
  BOOST_TEST(tags.status == 1);
  BOOST_TEST(tags.err.find("no graph has the tags {train gpu}; there are {serve}") != std::string::npos, tags.err);
  const Ended key = RunProgram({"run", model, "--feed", "z=[1]"});
  BOOST_TEST(key.status == 1);
  BOOST_TEST(key.err.find("the graph has no node 'z'") != std::string::npos, key.err);
  const Ended empty = RunProgram({"run", folder.Path(""), "--feed", "x=[1]"});
  BOOST_TEST(empty.status == 1);
  BOOST_TEST(empty.err.find("cannot be read") != std::string::npos, empty.err);
  const std::string graph = folder.Write("graph.pbtxt", PlaceholderText("x", "DT_FLOAT"));
  const Ended no_folder = RunProgram({"run", graph, "--signature", "s", "--feed", "x=1", "--fetch", "x"});
  BOOST_TEST(no_folder.status == 2);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace saved_model_test
}  // namespace troupe
