#include "kernels/elementwise/bits.h"

namespace troupe {
namespace {

struct LogicalOrFn {
  static uint8_t Do(uint8_t x, uint8_t y) { return x | y; }
};
const OpRegistrar op = math::LogicalOp("LogicalOr").Doc("x or y, with broadcasting.");

}  // namespace

TROUPE_KERNEL("LogicalOr").Device("CPU").Factory(math::BinaryFactory<math::LogicalTable<LogicalOrFn>>);

}  // namespace troupe
