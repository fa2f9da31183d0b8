// Picking one of a *_isa.cc file's tables at start.
//
//   TROUPE_ISA_TABLE(GemmTileTable, kGemmTiles)     declares the table of every level, and
//   const GemmTileTable& PickkGemmTiles()           which returns the one for this processor.
#ifndef TROUPE_KERNELS_NN_ISA_PICK_H_
#define TROUPE_KERNELS_NN_ISA_PICK_H_

namespace troupe {

// The x86-64 level (2, 3 or 4) that the hot families run at in this process; 0 elsewhere.
int IsaLevelForTables();

}  // namespace troupe

#if defined(__x86_64__)
#define TROUPE_ISA_TABLE(Type, name)                                 \
  namespace troupe {                                                 \
  namespace v2 {                                                     \
  extern const Type name;                                            \
  }                                                                  \
  namespace v3 {                                                     \
  extern const Type name;                                            \
  }                                                                  \
  namespace v4 {                                                     \
  extern const Type name;                                            \
  }                                                                  \
  inline const Type& Pick##name() {                                  \
    const int level = IsaLevelForTables();                           \
    return level >= 4 ? v4::name : level == 3 ? v3::name : v2::name; \
  }                                                                  \
  }
#else
#define TROUPE_ISA_TABLE(Type, name)                   \
  namespace troupe {                                   \
  namespace v0 {                                       \
  extern const Type name;                              \
  }                                                    \
  inline const Type& Pick##name() { return v0::name; } \
  }
#endif

#endif  // TROUPE_KERNELS_NN_ISA_PICK_H_
