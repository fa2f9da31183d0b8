// Runs programs with the real TensorFlow, where there is one: the Python that
// TROUPE_TENSORFLOW_PYTHON names, or python3.
#ifndef TROUPE_TESTS_COMMON_PYTHON_H_
#define TROUPE_TESTS_COMMON_PYTHON_H_

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include <sys/wait.h>

#include "troupe/strings.h"

namespace troupe::testing {

// What `program` prints, run in `folder` with graphs as in TensorFlow 1; it finds TensorFlow as
// `tf` and its first version as `v1`. None, and a line that says so, where there is no TensorFlow.
// A program that fails ends the test case with the end of what it said.
inline std::optional<std::string> RunPython(const std::string& folder, const std::string& program) {
  const char* const named = std::getenv("TROUPE_TENSORFLOW_PYTHON");
  const std::string python = named != nullptr ? named : "python3";
  std::ofstream(folder + "/program.py")
      << "import sys\ntry:\n  import tensorflow as tf\nexcept Exception:\n  sys.exit(77)\n"
      << "v1 = tf.compat.v1\nv1.disable_eager_execution()\n"
      << program;
  const std::string command = StrCat("cd '", folder, "' && TF_CPP_MIN_LOG_LEVEL=3 timeout 120 '", python,
                                     "' program.py 2>errors || { c=$?; [ $c = 77 ] || tail -5 errors; exit $c; }");
  FILE* const pipe = ::popen(command.c_str(), "r");
  BOOST_REQUIRE(pipe != nullptr);
  std::string out;
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  const int status = ::pclose(pipe);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code == 77 || code == 127 || code == 126) {
    std::printf("skipped: '%s' has no TensorFlow (TROUPE_TENSORFLOW_PYTHON names a Python that has)\n", python.c_str());
    return std::nullopt;
  }
  BOOST_REQUIRE_MESSAGE(code == 0, "Python ended with " << code << ": " << out);
  return out;
}

}  // namespace troupe::testing

#endif  // TROUPE_TESTS_COMMON_PYTHON_H_
