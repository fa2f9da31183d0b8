// What the program prints and writes arrives whole, or the status says that it did not.
#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <unistd.h>

#include "tests/program/program_test.h"
#include "tests/sanitizers/sanitized.h"
#include "troupe/strings.h"

namespace troupe {
namespace output_test {

struct Fixture {
  Folder folder;
  // "y" = x, a matrix of float32; "done" has no output; "lists" holds 4294967295 empty lists.
  std::string graph = folder.Write(
      "graph.pbtxt", PlaceholderText("x", "DT_FLOAT") +
                         NodeDefText("y", "Identity", {"x"}, TypeAttrText("T", "DT_FLOAT")) +
                         NodeDefText("done", "NoOp", {}) +
                         NodeDefText("lists", "Const", {},
                                     TypeAttrText("dtype", "DT_FLOAT") +
                                         "attr { key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape { "
                                         "dim { size: 4294967295 } dim { size: 0 } } } } } "));
  // What numpy.save writes for zeros of float32.
  std::string Zeros(const std::string& shape, size_t elements) const {
    std::string header = StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': ", shape, ", }");
    header.resize(117, ' ');
    header += '\n';
    return folder.Write("zeros.npy",
                        std::string("\x93NUMPY\x01\x00v\x00", 10) + header + std::string(4 * elements, '\0'));
  }
};

BOOST_FIXTURE_TEST_SUITE(output, Fixture)

BOOST_AUTO_TEST_CASE(output_that_is_lost_is_a_failure) {
  // A pipe that nobody reads.
  int ends[2];
  BOOST_REQUIRE(::pipe(ends) == 0);
  BOOST_REQUIRE(::fcntl(9, F_GETFD) == -1);
  BOOST_REQUIRE(::dup2(ends[1], 9) == 9);
  ::close(ends[0]);
  ::close(ends[1]);
  struct Lost {
    const char* output;
    const char* why;
  };
  for (const Lost& lost : {Lost{"> /dev/full", "No space left on device"}, Lost{">&-", "Bad file descriptor"},
                           Lost{">&9", "Broken pipe"}}) {
    for (const std::vector<std::string>& arguments :
         std::vector<std::vector<std::string>>{{"run", graph, "--feed", "x=1", "--fetch", "y"},
                                               {"run", graph, "--feed", "x=1", "--fetch", "y", "--json"},
                                               {"run", graph, "--target", "done", "--repeat", "1"},
                                               {"ops"},
                                               {"ops", "--names"},
                                               {"graph", graph},
                                               {"graph", graph, "--dot"},
                                               {"--help"},
                                               {"run", "--help"},
                                               {"--version"}}) {
      const Ended e = RunProgram(arguments, {.before = "", .output = lost.output});
      BOOST_TEST(e.status == 1, StrJoin(arguments, " ") << " " << lost.output << ": " << e.status);
      BOOST_TEST(e.err ==
                 StrCat("troupe: INTERNAL: standard output: ", lost.why, "; what was printed is lost or incomplete\n"));
    }
    // Nothing to say, nothing lost; and a failure keeps its own status.
    BOOST_TEST(RunProgram({"run", graph, "--target", "done"}, {.before = "", .output = lost.output}).status == 0);
    BOOST_TEST(RunProgram({"frob"}, {.before = "", .output = lost.output}).status == 2);
  }
  ::close(9);
}

BOOST_AUTO_TEST_CASE(an_endless_output_ends_when_nobody_reads_it) {
  // Gigabytes of "[], [], ": they are neither kept nor printed to the end.
  for (const char* flag : {"--full", "--json"}) {
    const Ended e = RunProgram({"run", graph, "--fetch", "lists", flag}, {.before = "", .output = "> /dev/full"});
    BOOST_TEST(e.status == 1);
    BOOST_TEST((e.err.find("No space left on device") != std::string::npos), e.err);
  }
}

BOOST_AUTO_TEST_CASE(large_tensors_are_abbreviated) {
  const auto print = [&](const std::string& shape, size_t elements, std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), {"run", graph, "--feed", "x=@" + Zeros(shape, elements), "--fetch", "y"});
    const Ended e = RunProgram(flags);
    return e.status == 0 ? e.out : e.err;
  };
  BOOST_TEST(print("(1001,)", 1001) == "y float32 [1001]\n[0, 0, 0, ..., 0, 0, 0]\n");
  BOOST_TEST(print("(1000,)", 1000).size() == 17 + 3 * 1000 + 1);
  BOOST_TEST(print("(1001,)", 1001, {"--full"}).size() == 17 + 3 * 1001 + 1);
  BOOST_TEST((print("(1001,)", 1001, {"--json"}).find("...") == std::string::npos));
  BOOST_TEST(print("(600, 2)", 1200) ==
             "y float32 [600,2]\n[[0, 0],\n [0, 0],\n [0, 0],\n ...,\n [0, 0],\n [0, 0],\n [0, 0]]\n");
  BOOST_TEST(print("(2, 7, 100)", 1400) ==
             "y float32 [2,7,100]\n"
             "[[[0, 0, 0, ..., 0, 0, 0],\n  [0, 0, 0, ..., 0, 0, 0],\n  [0, 0, 0, ..., 0, 0, 0],\n  ...,\n"
             "  [0, 0, 0, ..., 0, 0, 0],\n  [0, 0, 0, ..., 0, 0, 0],\n  [0, 0, 0, ..., 0, 0, 0]],\n\n"
             " [[0, 0, 0, ..., 0, 0, 0],\n  [0, 0, 0, ..., 0, 0, 0],\n  [0, 0, 0, ..., 0, 0, 0],\n  ...,\n"
             "  [0, 0, 0, ..., 0, 0, 0],\n  [0, 0, 0, ..., 0, 0, 0],\n  [0, 0, 0, ..., 0, 0, 0]]]\n");
  const Ended lists = RunProgram({"run", graph, "--fetch", "lists"});
  BOOST_TEST(lists.status == 0, lists.err);
  BOOST_TEST(lists.out == "lists float32 [4294967295,0]\n[]\n");
}

BOOST_AUTO_TEST_CASE(the_elements_at_the_edges_are_the_tensors) {
  std::string value = "[";
  for (int i = 0; i < 40; ++i) {
    StrAppend(&value, i > 0 ? ",[" : "[");
    for (int j = 0; j < 30; ++j) StrAppend(&value, j > 0 ? "," : "", 100 * i + j);
    value += ']';
  }
  const Ended e = RunProgram({"run", graph, "--feed", "x=" + value + "]", "--fetch", "y"});
  BOOST_TEST(e.status == 0, e.err);
  BOOST_TEST(e.out ==
             "y float32 [40,30]\n[[0, 1, 2, ..., 27, 28, 29],\n [100, 101, 102, ..., 127, 128, 129],\n"
             " [200, 201, 202, ..., 227, 228, 229],\n ...,\n [3700, 3701, 3702, ..., 3727, 3728, 3729],\n"
             " [3800, 3801, 3802, ..., 3827, 3828, 3829],\n [3900, 3901, 3902, ..., 3927, 3928, 3929]]\n");
}

BOOST_AUTO_TEST_CASE(a_file_is_written_whole_or_not_at_all) {
  const std::string big = Zeros("(1001,)", 1001), out = folder.Path("out");
  BOOST_TEST(RunProgram({"run", graph, "--feed", "x=2.5", "--fetch", "y", "--out", out}).status == 0);
  const std::string before = folder.Read("out/0.npy");
  BOOST_TEST(before.size() == 132u);
  // A file may have 512 bytes here (or 1024, by the shell), as on a disk that is nearly full.
  const std::vector<std::string> run = {"run", graph, "--feed", "x=@" + big, "--fetch", "y", "--out", out};
  const Ended e = RunProgram(run, {.before = "ulimit -f 1;", .output = ""});
  BOOST_TEST(e.status == 1, e.err);
  BOOST_TEST(e.err == StrCat("troupe: INTERNAL: ", out, "/0.npy: cannot be written: File too large\n"));
  BOOST_TEST((folder.Read("out/0.npy") == before));
  BOOST_TEST((folder.List("out") == std::vector<std::string>{"0.npy"}));
  const Ended traced =
      RunProgram({"run", graph, "--feed", "x=@" + big, "--fetch", "y", "--out", out, "--trace", folder.Path("out/t")},
                 {.before = "ulimit -f 1;", .output = ""});
  BOOST_TEST(traced.status == 1);
  BOOST_TEST(RunProgram(run).status == 0);
  BOOST_TEST(folder.Read("out/0.npy").size() == 128u + 4004u);
  // A device is no file that could be replaced.
  const Ended full = RunProgram({"run", graph, "--feed", "x=1", "--fetch", "y", "--trace", "/dev/full"});
  BOOST_TEST(full.status == 1);
  BOOST_TEST((full.err.find("/dev/full: cannot be written: No space left on device") != std::string::npos), full.err);
}

// AddressSanitizer's own memory is beyond any such limit.
#if !TROUPE_TEST_ASAN
BOOST_AUTO_TEST_CASE(memory_that_cannot_be_had_is_a_sentence) {
  // As many bytes as the loader needs and a few more: where they end is not the same everywhere,
  // but it is never a signal.
  for (int megabytes : {80, 90, 98, 105, 115, 1000}) {
    const Ended e = RunProgram({"run", graph, "--feed", "x=1", "--fetch", "y", "--threads", "4"},
                               {.before = StrCat("ulimit -v ", 1024 * megabytes, ";"), .output = ""});
    if (e.status == 0) {
      BOOST_TEST(e.out == "y float32 []\n1\n");
    } else if (e.status != 127) {  // the loader's own failure
      BOOST_TEST(e.status == 1, megabytes << " MB: " << e.status << " " << e.err);
      BOOST_TEST(e.err.find("troupe: ") != std::string::npos, e.err);
    }
  }
}
#endif

BOOST_AUTO_TEST_SUITE_END()

}  // namespace output_test
}  // namespace troupe
