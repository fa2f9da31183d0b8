// Runs programs with the real TensorFlow, where there is one: the Python that
// TROUPE_TENSORFLOW_PYTHON names, or python3.
//
// Thread rule: any thread; it waits for the program.
#ifndef TROUPE_TESTS_COMMON_PYTHON_H_
#define TROUPE_TESTS_COMMON_PYTHON_H_

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "tests/common/shell.h"
#include "troupe/strings.h"

namespace troupe::testing {

// What the Python `program` prints, run in `folder`. It ends with 77 where it does not find `what`;
// then there is no result, and a line says so. A program that fails ends the test case with the end
// of what it said.
inline std::optional<std::string> RunPythonProgram(const std::string& folder, const std::string& program,
                                                   const char* what) {
  const char* const named = std::getenv("TROUPE_TENSORFLOW_PYTHON");
  const std::string python = named != nullptr ? named : "python3";
  std::ofstream(folder + "/program.py") << program;
  const ShellResult ran =
      RunShell(StrCat("cd '", folder, "' && TF_CPP_MIN_LOG_LEVEL=3 timeout -k 15 120 '", python,
                      "' program.py 2>errors || { c=$?; [ $c = 77 ] || tail -30 errors; exit $c; }"));
  if (ran.code == 77 || ran.code == 127 || ran.code == 126) {
    std::printf("skipped: '%s' has no %s (TROUPE_TENSORFLOW_PYTHON names a Python that has)\n", python.c_str(), what);
    return std::nullopt;
  }
  BOOST_REQUIRE_MESSAGE(ran.code == 0, "Python ended with " << ran.code << ": " << ran.out);
  return ran.out;
}

// The same for a program with graphs as in TensorFlow 1, which finds TensorFlow as `tf` and its
// first version as `v1`.
inline std::optional<std::string> RunPython(const std::string& folder, const std::string& program) {
  return RunPythonProgram(folder,
                          "import sys\ntry:\n  import tensorflow as tf\nexcept Exception:\n  sys.exit(77)\n"
                          "v1 = tf.compat.v1\nv1.disable_eager_execution()\n" +
                              program,
                          "TensorFlow");
}

}  // namespace troupe::testing

#endif  // TROUPE_TESTS_COMMON_PYTHON_H_
