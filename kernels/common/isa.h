// Selects the instruction level of the hot loops, and declares tables of functions that are
// compiled once for each level.
//
// The best level that the processor has is picked at the first use. The environment variable
// TROUPE_ISA=v2|v3|v4 forces a level (callgrind, for one, cannot run AVX-512); a level that the
// machine lacks, or another word, is reported once on stderr and the best level is used.
//
// A file *_isa.cc is compiled once a level, into the namespace of that level, and defines a table:
//
//   TROUPE_ISA_TABLE(GemmTileTable, kGemmTiles, PickGemmTiles)    declares the table of every level,
//   const GemmTileTable& PickGemmTiles()                          and which of them this process uses;
//   const GemmTileTable& PickGemmTiles(3)                         or that of another level.
//
// Thread rule: all functions are thread safe.
#ifndef TROUPE_KERNELS_COMMON_ISA_H_
#define TROUPE_KERNELS_COMMON_ISA_H_

#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// The x86-64 level (2, 3 or 4) that the hot loops run at in this process; 0 elsewhere.
int IsaLevel();
// "v2", "v3" or "v4" ("v0" where there is one level only).
std::string_view IsaName();
// The levels that this machine can run, lowest first.
std::vector<std::string_view> AvailableIsas();
// The number in such a name.
inline int LevelOf(std::string_view isa) { return isa[1] - '0'; }
// The level that IsaName() chooses for this value of TROUPE_ISA ("" = not set), and a sentence in
// `complaint` when the value cannot be honoured.
std::string_view ChooseIsa(std::string_view wish, std::string* complaint);

}  // namespace troupe

#if defined(__x86_64__)
#define TROUPE_ISA_TABLE(Type, name, pick)                                                         \
  namespace troupe {                                                                               \
  namespace v2 {                                                                                   \
  extern const Type name;                                                                          \
  }                                                                                                \
  namespace v3 {                                                                                   \
  extern const Type name;                                                                          \
  }                                                                                                \
  namespace v4 {                                                                                   \
  extern const Type name;                                                                          \
  }                                                                                                \
  inline const Type& pick(int level = IsaLevel()) {                                                \
    return level >= 4 ? ::troupe::v4::name : level == 3 ? ::troupe::v3::name : ::troupe::v2::name; \
  }                                                                                                \
  }
#else
#define TROUPE_ISA_TABLE(Type, name, pick)              \
  namespace troupe {                                    \
  namespace v0 {                                        \
  extern const Type name;                               \
  }                                                     \
  inline const Type& pick(int = 0) { return v0::name; } \
  }
#endif

#endif  // TROUPE_KERNELS_COMMON_ISA_H_
