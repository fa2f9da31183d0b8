#include "troupe/env.h"

#include <random>

#include "graph/core/clock.h"

namespace troupe {

Env::~Env() = default;

int64_t Env::NowNanos() { return troupe::NowNanos(); }

uint64_t Env::Unforeseeable() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

Env* Env::Default() {
  static Env* env = new Env;
  return env;
}

}  // namespace troupe
