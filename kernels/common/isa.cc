#include "kernels/math/isa_dispatch.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdio>
#include <cstdlib>

#include "troupe/strings.h"

namespace troupe::math {
namespace {

struct Level {
  std::string_view name;
  bool available;
  HotLoops loops;
};

#define TROUPE_MAKE_LEVEL(ns, condition)  \
  [] {                                    \
    Level level{#ns, (condition), {}};    \
    ns::FillArithmetic(&level.loops);     \
    ns::FillComparisons(&level.loops);    \
    ns::FillGradients(&level.loops);      \
    ns::FillUnary(&level.loops);          \
    ns::FillTranscendental(&level.loops); \
    ns::FillReductions(&level.loops);     \
    ns::FillConversions(&level.loops);    \
    return level;                         \
  }()

// Filling a table is storing addresses only, but the functions that do it are compiled for their level: only available ones are called.
#define TROUPE_LEVEL_IF(ns, condition) ((condition) ? TROUPE_MAKE_LEVEL(ns, true) : Level{#ns, false, {}})

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
    return new std::vector<Level>{TROUPE_LEVEL_IF(v2, true), TROUPE_LEVEL_IF(v3, has_v3), TROUPE_LEVEL_IF(v4, has_v4)};
#else
    return new std::vector<Level>{TROUPE_LEVEL_IF(v0, true)};
#endif
  }();
  return *levels;
}

const Level& Chosen() {
  static const Level* level = [] {
    const char* wish = std::getenv("TROUPE_ISA");
    std::string complaint;
    const std::string_view name = ChooseIsa(wish == nullptr ? "" : wish, &complaint);
    if (!complaint.empty()) std::fprintf(stderr, "%s\n", complaint.c_str());
    for (const Level& l : Levels()) {
      if (l.name == name) return &l;
    }
    return &Levels().front();
  }();
  return *level;
}

}  // namespace

const HotLoops& Hot() { return Chosen().loops; }
std::string_view IsaName() { return Chosen().name; }

std::vector<std::string_view> AvailableIsas() {
  std::vector<std::string_view> names;
  for (const Level& l : Levels()) {
    if (l.available) names.push_back(l.name);
  }
  return names;
}

const HotLoops* HotLoopsOf(std::string_view isa) {
  for (const Level& l : Levels()) {
    if (l.available && l.name == isa) return &l.loops;
  }
  return nullptr;
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

}  // namespace troupe::math
