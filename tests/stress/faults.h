// Where faults are told: at once, with what repeats them, and counted for the end of the program.
//
// Thread rule: all functions are thread safe.
#ifndef TROUPE_TESTS_STRESS_FAULTS_H_
#define TROUPE_TESTS_STRESS_FAULTS_H_

#include <cstdint>
#include <string>

namespace troupe::stress {

// How this program was called, as far as it decides what is drawn. Set once, before any scenario
// begins.
struct Repeat {
  uint64_t seed = 1;
  std::string more;  // other arguments
};
void SetRepeat(const Repeat& repeat);
// "--seed 7 --scenario 12".
std::string HowToRepeat(int64_t scenario);

// `kind`: a few words that are the same for every fault of the kind. Only the first ones of a kind
// are printed in full.
void Fault(int64_t scenario, const std::string& kind, const std::string& what);
// In full.
void Tell(const std::string& text);
int64_t NumFaults();
// A line for each kind.
std::string FaultSummary();

// Scenarios that run now, for who prints what went wrong; also from a signal's handler.
void ScenarioRuns(int64_t scenario, bool runs);
// Prints the seed and what runs when the program dies: signals, std::terminate.
void TellWhenItDies();

}  // namespace troupe::stress

#endif  // TROUPE_TESTS_STRESS_FAULTS_H_
