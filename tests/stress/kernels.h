// Users' kernels that do what they should not.
//
//   op               inputs                       output
//   StressSync       x: double, how, call: int64  x        synchronous
//   StressAsync      as above                     x        asynchronous
//   StressBadBirth   x: double                    x        its constructor throws (attr "what": 0 std::exception, 1 int, 2 bad_alloc)
//   StressWrongType  x: double                    an int32, whatever the definition says
//
// What a kernel does is told by each step: `how` is an Act and its milliseconds, `call` the number
// of the call, which stands in every error, so that an error that comes to somebody else is seen.
#ifndef TROUPE_TESTS_STRESS_KERNELS_H_
#define TROUPE_TESTS_STRESS_KERNELS_H_

#include <cstdint>
#include <string>

namespace troupe::stress {

enum class Act : uint8_t {
  kPass,           // as it should be
  kSlow,           // after some milliseconds: sleeping, or from another thread
  kBusy,           // computes for some milliseconds
  kThrow,          // std::exception
  kThrowInt,       // what is no std::exception
  kThrowNoMemory,  // std::bad_alloc
  kError,          // an error of its own
  kNoOutput,       // OK without an output
  kStuck,          // not before the gate opens: keeps its thread, or `done`
  // Of asynchronous kernels only.
  kTwice,      // `done` twice
  kTwiceLate,  // and once more some milliseconds after
  kThrowAfterDone,
  kThrowAfterHanding,  // throws when another thread has `done` and will call it
  kDrop,               // never calls `done`
  kDropLate,           // some milliseconds later
  kErrorLate,
};
constexpr Act kLastSync = Act::kStuck, kLastAct = Act::kErrorLate;
const char* NameOf(Act act);
// What the step of a kernel that does this must not come to: OK.
bool MustFail(Act act);
// What does not end by itself.
inline bool Endless(Act act) { return act == Act::kStuck; }

inline int64_t How(Act act, int64_t ms) { return static_cast<int64_t>(act) | (ms << 8); }
inline Act ActOf(int64_t how) { return static_cast<Act>(how & 0xff); }
inline int64_t MillisOf(int64_t how) { return how >> 8; }

// "stress-call-123;", part of each error that a call's kernels make.
std::string MarkOf(int64_t call);
// Numbers of calls: the scenario's in the upper bits.
inline int64_t CallNumber(int64_t scenario, int64_t index) { return (scenario << 20) | index; }

// The gate of a scenario, at which stuck kernels of its calls wait. One that was never made, or has
// been opened, lets everybody through.
void MakeGate(int64_t scenario);
void OpenGate(int64_t scenario);
// How many kernels wait there now.
int64_t WaitingAtGate(int64_t scenario);

// The thread from which late kernels answer.
void StartLateAnswers();
void StopLateAnswers();

}  // namespace troupe::stress

#endif  // TROUPE_TESTS_STRESS_KERNELS_H_
