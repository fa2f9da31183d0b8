// Which way of computing a product or a convolution is the fastest on this machine: measured where
// it runs, kept in a file, printed by `troupe tune`.
//
//   SetTuning(TuningMode::kAll);                      // from the next product on
//   absl::Status s = SaveTuning("mem://tuning.txt");  // behind the last
//
// Problem: there are several loops for one product, and several ways to share it among threads.
// Which is the fastest depends on shape, processor and library. Rules that were fitted elsewhere
// (the fixed choice) are right on most machines and wrong on some.
//
// How it is measured. A problem is an op with its sizes, attributes and number of threads. The
// first calls with a problem each compute their result in another way, in turn; nothing is computed
// twice. A way is timed 2 to 12 times, the more the shorter it is and the closer to the fastest,
// and its least time counts. Another way than the fixed choice is taken when it is at least 3 %
// faster. A problem's trials end when all ways have been timed, or when they have taken one second
// together. At most 1024 problems are tried, those that come first; later ones go by what a file
// says of them, else by the fixed choice.
//
// Bits. Ways may round differently. With kFixed and kSameBits, equal graphs, feeds and seeds give
// equal bits in every run, whatever the clock said. With kAll they may differ in the last bits:
// between the calls of the trials, and between two runs that chose differently. A file makes the
// choice repeatable: with kFixed and the same file all runs have the same bits.
//
// What is not finite. Ways of a convolution with padding differ by more where the filter has an
// infinity or a NaN (for the gradient of the filter: where the gradient of the output has one):
// "direct" multiplies the padding's zeros by it, and gives NaN where a window reaches beyond the
// image; "library" leaves padding out. Of finite numbers no padding shows.
//
// The environment says what a process begins with. TROUPE_TUNE is off, fixed, same_bits or on (=
// kAll); TROUPE_TUNE_CACHE names a file that is read before the first choice, and written when new
// choices were made, also at the end of the process, unless the mode is fixed or off. Without
// TROUPE_TUNE the mode is kAll when a file is named, and kOff when none is. What is wrong with the
// two is said once on stderr; the process then goes on without.
//
// Thread rule: all functions are thread safe. They concern the whole process.
#ifndef TROUPE_TUNING_H_
#define TROUPE_TUNING_H_

#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/status.h"

namespace TROUPE_EXPORT troupe {

enum class TuningMode {
  kOff,       // the fixed choice; nothing is measured or looked up
  kFixed,     // what a file says, else the fixed choice; nothing is measured
  kSameBits,  // as kAll, among the ways that have the bits of the fixed choice
  kAll,       // what a file says, else the fastest
};

// Holds for all products and convolutions that begin afterwards, also within a step that is under
// way: who needs equal bits calls it while no step runs. What is none of the four changes nothing.
void SetTuning(TuningMode mode);
TuningMode CurrentTuning();

// One way of computing a problem.
struct TuningWay {
  std::string name;        // "own:rows:2": our own loops, the rows in two ranges
  double least_us = 0;     // 0: not timed
  int calls = 0;           // that were timed
  bool same_bits = false;  // as the fixed choice has, which is the first way
};

struct TuningChoice {
  std::string problem;             // "matmul(m=8,n=100,k=784,...)"
  std::vector<std::string> nodes;  // "fc1/MatMul (MatMul)"; only while NoteTuningNodes(true), and at most 16
  std::vector<TuningWay> ways;
  int chosen = -1;         // index into ways in the current mode; -1: still being tried
  bool from_file = false;  // was not measured in this process
};

// All problems that came since the first call in another mode than kOff, in this order.
std::vector<TuningChoice> TuningChoices();
// While true, each call notes which node it belongs to. Takes a lock for each call.
void NoteTuningNodes(bool note);

// Takes the choices of a file, also for problems that come later, in place of those that were
// measured. All of them or none: INVALID_ARGUMENT names the line that is damaged,
// FAILED_PRECONDITION says on which other machine (processor, instruction level, version of oneDNN)
// the file was measured, or that it is a pipe, a device or a folder, NOT_FOUND that there is none.
// `path` as in troupe/files.h. What another file said before holds only for problems that have come
// by now: runs that are to repeat load one.
absl::Status LoadTuning(const std::string& path);
// Writes what was measured, in place of the file. What the file says of other problems stays in it.
// An error of LoadTuning, but NOT_FOUND, is an error here, and the file is left as it is. Two
// processes that write one file at the same time leave what one of them wrote. Where `path` is a
// symbolic link, the file that it leads to is written, and the link stays.
absl::Status SaveTuning(const std::string& path);

}  // namespace troupe

#endif  // TROUPE_TUNING_H_
