// Runs a command of the shell, and reads what it prints.
//
// Thread rule: any thread; it waits for the command.
#ifndef TROUPE_TESTS_COMMON_SHELL_H_
#define TROUPE_TESTS_COMMON_SHELL_H_

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <string>

#include <sys/wait.h>

namespace troupe::testing {

struct ShellResult {
  std::string out;
  int code = -1;  // its exit status; -1 when it did not end by itself
};

inline ShellResult RunShell(const std::string& command) {
  FILE* const pipe = ::popen(command.c_str(), "r");
  BOOST_REQUIRE(pipe != nullptr);
  ShellResult result;
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) result.out.append(buffer, n);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  return result;
}

}  // namespace troupe::testing

#endif  // TROUPE_TESTS_COMMON_SHELL_H_
