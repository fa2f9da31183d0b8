#include "kernels/common/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "troupe/strings.h"

namespace troupe {
namespace {

struct Level {
  std::string_view name;
  bool available;
};

#if defined(__x86_64__)
// What older clang's __builtin_cpu_supports does not know by name.
bool HasF16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

const std::vector<Level>& Levels() {
  static const std::vector<Level>* levels = [] {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool has_v3 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") && HasF16c();
    const bool has_v4 = has_v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl");
    return new std::vector<Level>{{"v2", true}, {"v3", has_v3}, {"v4", has_v4}};
#else
    return new std::vector<Level>{{"v0", true}};
#endif
  }();
  return *levels;
}

}  // namespace

std::string_view IsaName() {
  static const std::string_view name = [] {
    const char* wish = std::getenv("TROUPE_ISA");
    std::string complaint;
    const std::string_view chosen = ChooseIsa(wish == nullptr ? "" : wish, &complaint);
    if (!complaint.empty()) std::fprintf(stderr, "%s\n", complaint.c_str());
    return chosen;
  }();
  return name;
}

int IsaLevel() {
  static const int level = LevelOf(IsaName());
  return level;
}

std::vector<std::string_view> AvailableIsas() {
  std::vector<std::string_view> names;
  for (const Level& l : Levels()) {
    if (l.available) names.push_back(l.name);
  }
  return names;
}

std::string_view ChooseIsa(std::string_view wish, std::string* complaint) {
  const std::vector<std::string_view> names = AvailableIsas();
  if (wish.empty()) return names.back();
  for (std::string_view n : names) {
    if (n == wish) return n;
  }
  bool known = false;
  for (const Level& l : Levels()) known |= l.name == wish;
  *complaint = known ? StrCat("TROUPE_ISA=", wish, ": this machine lacks that instruction level; using ", names.back(),
                              " (it has ", StrJoin(names, ", "), ")")
                     : StrCat("TROUPE_ISA=", wish, " is not an instruction level; using ", names.back(),
                              " (this machine has ", StrJoin(names, ", "), ")");
  return names.back();
}

}  // namespace troupe
