// What the training programs share: their options, how they tell of their progress, the folder that
// a run leaves behind and goes on from, and a loop around all of that.
//
// A program that is killed goes on with equal bits when its Job says all that the next step depends
// on besides the session's own state (variables, random streams, queues).
//
// Thread rule: one thread at a time.
#ifndef TROUPE_EXAMPLES_COMMON_TRAINING_H_
#define TROUPE_EXAMPLES_COMMON_TRAINING_H_

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/checkpoint.h"
#include "troupe/train/file_writer.h"
#include "troupe/train/saver.h"
#include "troupe/troupe.h"

namespace example {

// Numbers by name, in the order in which they are told.
using Numbers = std::vector<std::pair<std::string, double>>;
using NamedTensors = std::vector<std::pair<std::string, troupe::Tensor>>;

struct Flags {
  std::string model_dir;
  int64_t steps = 0, save_steps = 100, eval_every = 100, seed = 0;
  int threads = 0;
  bool json = false;
};
// Of the options whose defaults are those of `flags`.
void AddFlags(CLI::App* app, Flags* flags);
// Parses the command line and calls `run`; the program's exit status.
int Main(CLI::App* app, int argc, char** argv, const std::function<absl::Status()>& run);

// From now on SIGINT and SIGTERM make ToldToEnd true (the signal); the next one ends the program at
// once.
void EndWhenTold();
int ToldToEnd();

// {"step": 100, "loss": 0.25, ...}, a line. A number that JSON does not know is null.
void PrintObject(int64_t step, const Numbers& numbers);

// One line that is redrawn on a terminal and written now and then elsewhere.
class ProgressBar {
 public:
  // `unit`: what a step works on, "images".
  ProgressBar(int64_t from, int64_t steps, std::string unit);
  // `units`: since the start of this program. `also` is shown behind the rest.
  void Show(int64_t step, double loss, int64_t units, const std::string& also, bool force);

 private:
  using Clock = std::chrono::steady_clock;
  int64_t from_, steps_;
  std::string unit_;
  bool tty_;
  Clock::time_point start_, shown_;
};

// Checkpoints and event files.
class RunFolder {
 public:
  // Adds the nodes of a Saver to the graph. REQUIRES: the model is complete.
  RunFolder(const troupe::Scope& root, std::string folder)
      : folder_(std::move(folder)), graph_(root.graph()), saver_(root) {}
  // Sets everything to what the newest checkpoint says; `restore` takes what is the program's own,
  // and the number of steps that were done. False when there is none.
  absl::StatusOr<bool> GoOn(troupe::Session& session,
                            const std::function<absl::StatusOr<int64_t>(const troupe::CheckpointReader&)>& restore);
  // Makes an event file of this run, which begins after `step`. Call once, before what follows.
  absl::Status Open(int64_t step);
  absl::Status Save(troupe::Session& session, int64_t step, NamedTensors extra);
  absl::Status Report(int64_t step, const Numbers& numbers);
  absl::Status Close(int64_t step);

 private:
  const std::string folder_;
  const troupe::Graph* graph_;
  troupe::train::Saver saver_;
  std::unique_ptr<troupe::train::FileWriter> events_;
  int64_t saved_ = -1;  // the step of the newest checkpoint
};

// What a program does in its steps.
struct Job {
  std::string unit;  // for the progress bar
  // Gives the variables their first values, where there is no checkpoint.
  std::function<absl::Status(troupe::Session&)> begin;
  // Called once the variables have values: prepares Callables. May be empty.
  std::function<absl::Status(troupe::Session&)> start;
  // Step number `step`, from 0: its loss. Adds to *units what it worked on.
  std::function<absl::StatusOr<double>(int64_t step, int64_t* units)> step;
  // What is told of the model every `eval_every` steps and at the end. May be empty.
  std::function<absl::StatusOr<Numbers>()> test;
  // What the steps depend on besides the session and the number of the step. May be empty.
  std::function<NamedTensors()> position;
  std::function<absl::Status(const troupe::CheckpointReader&)> set_position;
};
// Does the steps that are left of flags.steps, saves, and tells of it. The queue runners of the
// graph run meanwhile. `after` is called in the end of a run that was not told to end before.
absl::Status Train(const Flags& flags, const troupe::Scope& root, const Job& job,
                   const std::function<absl::Status(troupe::Session&)>& after = {});

}  // namespace example

#endif  // TROUPE_EXAMPLES_COMMON_TRAINING_H_
