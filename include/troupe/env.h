// What the runtime and its kernels see of time and chance. A test, or a program that must repeat a
// run exactly, puts its own in the place of the process's (RuntimeOptions.env).
//
// Deadlines have a clock of their own, which a runtime drives with threads; files have an interface
// of their own, too (troupe/files.h).
//
// Thread rule: all methods are thread safe, in derived classes, too.
#ifndef TROUPE_ENV_H_
#define TROUPE_ENV_H_

#include <cstdint>

#include "troupe/export.h"

namespace TROUPE_EXPORT troupe {

class Env {
 public:
  virtual ~Env();
  // Nanoseconds of a clock that never goes back: what executors measure kernels and waits with.
  virtual int64_t NowNanos();
  // 64 bits that nobody can foresee: seeds of random streams without a seed, and the incarnations
  // of devices.
  virtual uint64_t Unforeseeable();

  // That of the process: the steady clock and the system's source of randomness. Lives for ever.
  static Env* Default();
};

}  // namespace troupe

#endif  // TROUPE_ENV_H_
