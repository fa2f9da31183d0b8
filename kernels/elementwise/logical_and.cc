#include "kernels/elementwise/bits.h"

namespace troupe {
namespace {

struct LogicalAndFn {
  static uint8_t Do(uint8_t x, uint8_t y) { return x & y; }
};
const OpRegistrar op = math::LogicalOp("LogicalAnd").Doc("x and y, with broadcasting.");

}  // namespace

TROUPE_KERNEL("LogicalAnd").Device("CPU").Factory(math::BinaryFactory<math::LogicalTable<LogicalAndFn>>);

}  // namespace troupe
