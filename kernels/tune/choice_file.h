// The text of a file of choices, and the machine that it belongs to.
//
//   troupe tuning 1
//   processor AMD EPYC 9B14 96-Core Processor
//   loops v4
//   library oneDNN 2.6.0 level 251
//   matmul(m=8,n=100,k=784,...) own:rows:2 own:rows:2=11.27 own=19.3 library:rows:2=14.01
//   end
//
// A line is a problem, the way that was chosen, and the least microseconds of each way that was
// timed. The version changes with what problems and ways mean.
//
// Thread rule: pure functions; ThisMachine from any thread.
#ifndef TROUPE_KERNELS_TUNE_CHOICE_FILE_H_
#define TROUPE_KERNELS_TUNE_CHOICE_FILE_H_

#include <string>
#include <string_view>

#include "kernels/tune/choice_table.h"
#include "troupe/status.h"

namespace troupe::tune {

// Of a file. More are refused.
inline constexpr size_t kMostSaved = 16384;
inline constexpr uint64_t kMostBytes = uint64_t{32} << 20;

// What measurements depend on.
struct Machine {
  std::string processor;
  std::string loops;    // the instruction level of our own (kernels/common/isa.h)
  std::string library;  // with its version, and the level that it may use
  friend bool operator==(const Machine&, const Machine&) = default;
};
const Machine& ThisMachine();

std::string ToText(const Machine& machine, const SavedChoices& choices);
// All of the text or nothing: INVALID_ARGUMENT names the first line that is not as above ("line 7:
// ..."), FAILED_PRECONDITION what differs from `machine`.
absl::StatusOr<SavedChoices> FromText(const Machine& machine, std::string_view text);

}  // namespace troupe::tune

#endif  // TROUPE_KERNELS_TUNE_CHOICE_FILE_H_
