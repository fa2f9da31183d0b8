// troupe run --check_numerics, and the folder that it leaves, run again.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>

#include <sys/wait.h>

#include "tests/program/program_test.h"
#include "troupe/strings.h"

namespace troupe {
namespace numerics_test {

constexpr const char* kGraph = R"(
versions { producer: 27 }
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "b" op: "Cast" input: "x" attr { key: "SrcT" value { type: DT_FLOAT } }
  attr { key: "DstT" value { type: DT_BFLOAT16 } } }
node { name: "part/y" op: "RealDiv" input: "b" input: "b" attr { key: "T" value { type: DT_BFLOAT16 } } }
node { name: "v" op: "VariableV2" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape {} } } }
node { name: "zero" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 1 } } } }
node { name: "init" op: "Assign" input: "v" input: "zero" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "huge" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 3e38 } } } }
node { name: "train" op: "ApplyGradientDescent" input: "v" input: "huge" input: "x"
  attr { key: "T" value { type: DT_FLOAT } } }
)";

Ended Replay(const std::string& script, const std::string& flags = "") {
  const Folder folder;
  const std::string command = StrCat("PATH=" TROUPE_BINARY_DIR "/bin:$PATH sh '", script, "' ", flags, " > '",
                                     folder.Path("out"), "' 2> '", folder.Path("err"), "'");
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, folder.Read("out"), folder.Read("err")};
}

struct Fixture {
  Folder folder;
  std::string graph = folder.Write("graph.pbtxt", kGraph), dumps = folder.Path("dumps");
  std::string OnlyDump() const { return folder.Path("dumps/" + folder.List("dumps").at(0)); }
};

BOOST_FIXTURE_TEST_SUITE(numerics, Fixture)

BOOST_AUTO_TEST_CASE(a_node_is_replayed) {
  const Ended e = RunProgram({"run", graph, "--feed", "x=[2,0]", "--fetch", "part/y", "--numerics_folder", dumps});
  BOOST_TEST(e.status == 1);
  BOOST_TEST(e.err.find("node 'part/y' (RealDiv)") != std::string::npos, e.err);
  const Ended again = Replay(OnlyDump() + "/replay.sh");
  BOOST_TEST(again.status == 0, again.err);
  // The sign of what 0 / 0 is differs between processors.
  BOOST_TEST((again.out == "part/y:0 bfloat16 [2]\n[1, nan]\n" || again.out == "part/y:0 bfloat16 [2]\n[1, -nan]\n"),
             again.out);
  const Ended checked = Replay(OnlyDump() + "/replay.sh", "--check_numerics");
  BOOST_TEST(checked.status == 1);
  BOOST_TEST(
      checked.err.find("output 0 (bfloat16 [2]) has 1 NaN, 0 +Inf and 0 -Inf among 2 elements, the first at [1]") !=
          std::string::npos,
      checked.err);
}

BOOST_AUTO_TEST_CASE(an_update_is_replayed_with_the_variable_as_it_was) {
  const Ended e =
      RunProgram({"run", graph, "--init", "init", "--feed", "x=-2", "--target", "train", "--numerics_folder", dumps});
  BOOST_TEST(e.status == 1);
  BOOST_TEST(e.err.find("the new value of variable 'v'") != std::string::npos, e.err);
  const Ended again = Replay(OnlyDump() + "/replay.sh");
  BOOST_TEST(again.status == 0, again.err);
  BOOST_TEST(again.out == "train:0 float32 []\ninf\n");
  const Ended checked = Replay(OnlyDump() + "/replay.sh", "--check_numerics");
  BOOST_TEST(checked.status == 1);
  BOOST_TEST(checked.err.find("has 0 NaN, 1 +Inf and 0 -Inf among 1 element") != std::string::npos, checked.err);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace numerics_test
}  // namespace troupe
