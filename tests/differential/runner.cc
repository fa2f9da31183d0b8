// Runs files of compositions for tools/differential: a line a difference.
//
//   differential_runner FILE [MODE...]
//
// Before each case comes "case NAME", so that who reads knows where a crash was; at the end "done".
// Differences: "wrong<TAB>CASE<TAB>MODE<TAB>WHAT".
#include <cstdio>
#include <fstream>

#include "tests/differential/composition.h"

int main(int argc, char** argv) {
  using namespace troupe::test;
  if (argc < 2) {
    std::fprintf(stderr, "differential_runner FILE [MODE...]\n");
    return 2;
  }
  std::ifstream file(argv[1], std::ios::binary);
  for (;;) {
    const auto c = ReadComposition(file);
    if (!c.ok()) {
      if (c.status().code() == absl::StatusCode::kNotFound) break;
      std::fprintf(stderr, "differential_runner: %s\n", c.status().ToString().c_str());
      return 1;
    }
    std::printf("case %s\n", c->name.c_str());
    for (const Mode& mode : Modes()) {
      bool wanted = argc == 2;
      for (int i = 2; i < argc; ++i) wanted |= mode.name == argv[i];
      if (!wanted) continue;
      for (std::string what : RunComposition(*c, mode)) {
        for (char& ch : what) ch = ch == '\n' || ch == '\t' ? ' ' : ch;
        std::printf("wrong\t%s\t%s\t%s\n", c->name.c_str(), mode.name.c_str(), what.c_str());
      }
    }
    std::fflush(stdout);
  }
  std::printf("done\n");
  return 0;
}
