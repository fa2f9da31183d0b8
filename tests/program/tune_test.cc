// troupe tune, and the file of choices that it writes, in other processes.
#include <boost/test/unit_test.hpp>

#include "tests/program/program_test.h"
#include "troupe/strings.h"

namespace troupe {
namespace tune_test {

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// y = relu(x * w), x is [?,60] and w [60,80]; image * filter.
std::string Graph() {
  const std::string t = TypeAttrText("T", "DT_FLOAT");
  const auto shaped = [](const std::string& name, const std::string& sizes) {
    std::string shape;
    for (size_t at = 0; at < sizes.size();) {
      const size_t comma = std::min(sizes.find(',', at), sizes.size());
      shape += "dim { size: " + sizes.substr(at, comma - at) + " } ";
      at = comma + 1;
    }
    return NodeDefText(name, "Placeholder", {},
                       TypeAttrText("dtype", "DT_FLOAT") + "attr { key: 'shape' value { shape { " + shape + "} } } ");
  };
  const std::string slides =
      "attr { key: 'strides' value { list { i: [1, 1, 1, 1] } } } attr { key: 'padding' value { s: 'SAME' } } ";
  return shaped("x", "-1,60") + shaped("w", "60,80") + NodeDefText("product", "MatMul", {"x", "w"}, t) +
         NodeDefText("y", "Relu", {"product"}, t) + shaped("image", "1,20,20,16") + shaped("filter", "3,3,16,24") +
         NodeDefText("conv", "Conv2D", {"image", "filter"}, t + slides) + "versions { producer: 27 }";
}

struct Fixture {
  Folder folder;
  std::string graph = folder.Write("g.pbtxt", Graph()), cache = folder.Path("tuning.txt");
  Ended Tune(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"tune", graph, "--threads", "2"});
    return RunProgram(arguments);
  }
  // The bytes of y for an x of 30 rows, in a process with these variables.
  Ended Run(const std::string& variables, const std::string& out) const {
    std::string row = "[", x = "[", w = "[";
    for (int i = 0; i < 60; ++i) row += StrCat(i > 0 ? "," : "", 0.37 * (i % 11) - 1);
    for (int i = 0; i < 30; ++i) x += (i > 0 ? "," : "") + row + "]";
    row = "[";
    for (int i = 0; i < 80; ++i) row += StrCat(i > 0 ? "," : "", 0.11 * (i % 13) - 0.7);
    for (int i = 0; i < 60; ++i) w += (i > 0 ? "," : "") + row + "]";
    return RunProgram({"run", graph, "--threads", "2", "--feed", "x=" + x + "]", "--feed", "w=" + w + "]", "--fetch",
                       "y", "--out", folder.Path(out), "--repeat", "30"},
                      {.before = variables, .output = ""});
  }
};

BOOST_FIXTURE_TEST_SUITE(tune, Fixture)

BOOST_AUTO_TEST_CASE(ways_and_times_are_printed) {
  const Ended e = Tune({"--shape", "x=30,60", "--fetch", "y", "--fetch", "conv"});
  BOOST_TEST(e.status == 0, e.err);
  BOOST_TEST(Has(e.out, "matmul(m=30,n=80,k=60,ta=0,tb=0,bias=0,panels=0,threads=2)\n  node product (MatMul)\n"),
             e.out);
  BOOST_TEST(Has(e.out, "conv(n=1,h=20,w=20,c=16,kh=3,kw=3,oc=24,groups=1,"), e.out);
  BOOST_TEST(Has(e.out, "  node conv (Conv2D)\n"), e.out);
  BOOST_TEST(Has(e.out, " us  own"), e.out);
  BOOST_TEST(Has(e.out, " us  library"), e.out);
  BOOST_TEST(Has(e.out, "  (fixed choice)\n"), e.out);
  BOOST_TEST(Has(e.out, "\n2 problems after "), e.out);
  BOOST_TEST(!Has(e.out, "not chosen yet"), e.out);
}

BOOST_AUTO_TEST_CASE(what_is_open_in_a_shape_is_one) {
  const Ended e = Tune({"--fetch", "conv", "--json"});
  BOOST_TEST(e.status == 0, e.err);
  BOOST_TEST(Has(e.out, "\"nodes\": [\"conv (Conv2D)\"]"), e.out);
  BOOST_TEST(Has(e.out, "\"from_file\": false"), e.out);
  BOOST_TEST(Has(e.out, "\"step_us\": {\"fixed\": "), e.out);
}

BOOST_AUTO_TEST_CASE(a_file_is_written_and_read) {
  const Ended first = Tune({"--shape", "x=30,60", "--fetch", "y", "--cache", cache});
  BOOST_TEST(first.status == 0, first.err);
  std::string text = folder.Read("tuning.txt");
  BOOST_TEST(Has(text, "troupe tuning 1\nprocessor "), text);
  BOOST_TEST(Has(text, "\nmatmul(m=30,"), text);
  // Another way is named: it is taken as it stands there, and new problems are added.
  BOOST_REQUIRE(Has(text, "threads=2) "));
  const size_t at = text.find("threads=2) ") + 11;
  text.replace(at, text.find(' ', at) - at, "library");
  folder.Write("tuning.txt", text);
  const Ended second = Tune({"--shape", "x=30,60", "--fetch", "y", "--fetch", "conv", "--cache", cache, "--json"});
  BOOST_TEST(second.status == 0, second.err);
  BOOST_TEST(Has(second.out, "\"chosen\": \"library\", \"from_file\": true"), second.out);
  BOOST_TEST(Has(second.out, "\"from_file\": false"), second.out);
  text = folder.Read("tuning.txt");
  BOOST_TEST(Has(text, "threads=2) library "), text);
  BOOST_TEST(Has(text, "\nconv(n=1,"), text);
}

BOOST_AUTO_TEST_CASE(with_one_file_all_runs_have_the_same_bits) {
  const std::string on = "export TROUPE_TUNE_CACHE='" + cache + "';";
  const Ended tried = Run(on, "0");
  BOOST_TEST(tried.status == 0, tried.err);
  BOOST_TEST(tried.err == "");
  BOOST_REQUIRE(folder.Has("tuning.txt"));  // written at the end, at the latest
  const std::string kept = folder.Read("tuning.txt");
  BOOST_TEST(Has(kept, "\nmatmul(m=30,"), kept);
  for (const char* out : {"1", "2", "3"}) {
    // The last one may try, but knows all problems.
    const std::string mode = *out == '3' ? "" : "export TROUPE_TUNE=fixed;";
    const Ended e = Run(on + mode, out);
    BOOST_TEST(e.status == 0, e.err);
    BOOST_TEST(e.err == "");
    BOOST_TEST((folder.Read(StrCat(out, "/0.npy")) == folder.Read("1/0.npy")));
    BOOST_TEST(folder.Read("tuning.txt") == kept);
  }
  BOOST_TEST(folder.Read("1/0.npy").size() > 30 * 80 * sizeof(float));
}

BOOST_AUTO_TEST_CASE(what_is_wrong_with_the_environment_is_said_once) {
  const std::string on = "export TROUPE_TUNE_CACHE='" + cache + "';";
  folder.Write("tuning.txt", "troupe tuning 1\nprocessor Abacus\n");
  const Ended other = Run(on, "0");
  BOOST_TEST(other.status == 0, other.err);
  BOOST_TEST(Has(other.err, "TROUPE_TUNE_CACHE is not used: " + cache +
                                ": the choices were measured with processor "
                                "'Abacus', but this is '"),
             other.err);
  BOOST_TEST(folder.Read("tuning.txt") == "troupe tuning 1\nprocessor Abacus\n");
  folder.Write("tuning.txt", "something else\n");
  const Ended damaged = Run(on, "1");
  BOOST_TEST(damaged.status == 0, damaged.err);
  BOOST_TEST(damaged.err == "TROUPE_TUNE_CACHE is not used: " + cache +
                                ": line 1: 'troupe tuning 1' must stand here, not 'something else'\n");
  BOOST_TEST(folder.Read("tuning.txt") == "something else\n");
  const Ended word = Run("export TROUPE_TUNE=perhaps;", "2");
  BOOST_TEST(word.status == 0, word.err);
  BOOST_TEST(word.err == "TROUPE_TUNE=perhaps is none of off, fixed, same_bits and on\n");
  const Ended nowhere = Run("export TROUPE_TUNE_CACHE='" + folder.Path("none/tuning.txt") + "';", "3");
  BOOST_TEST(nowhere.status == 0, nowhere.err);
  BOOST_TEST(Has(nowhere.err, "TROUPE_TUNE_CACHE: choices are not kept: "), nowhere.err);
}

BOOST_AUTO_TEST_CASE(mistakes) {
  const auto check = [&](const std::vector<std::string>& arguments, int status, const std::string& err) {
    const Ended e = Tune(arguments);
    BOOST_TEST(e.status == status, e.err);
    BOOST_TEST(Has(e.err, err), e.err);
  };
  check({}, 2, "troupe: there is nothing to compute");
  check({"--fetch", "y", "--shape", "x"}, 2, "--shape x: must be NAME=SIZE,SIZE,...");
  check({"--fetch", "y", "--shape", "x=3,"}, 2, "--shape x=3,: sizes are numbers");
  check({"--fetch", "y", "--shape", "x=-3"}, 2, "--shape x=-3: sizes are numbers");
  check({"--fetch", "y", "--shape", "z=3"}, 1, "--shape z=3: the graph has no node 'z'");
  check({"--fetch", "y", "--shape", "x:7=3"}, 1, "--shape x:7=3: node 'x' has 1 outputs");
  check({"--fetch", "y", "--shape", "x=3,7"}, 1, "x");
  folder.Write("tuning.txt", "troupe tuning 1\nnonsense\n");
  check({"--fetch", "y", "--cache", cache}, 1, "tuning.txt: line 2: 'processor ...' must stand here");
  BOOST_TEST(folder.Read("tuning.txt") == "troupe tuning 1\nnonsense\n");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tune_test
}  // namespace troupe
