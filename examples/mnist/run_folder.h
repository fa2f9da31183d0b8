// What a run leaves behind, and goes on from: checkpoints and event files in one folder.
//
// Thread rule: one thread at a time.
#ifndef TROUPE_EXAMPLES_MNIST_RUN_FOLDER_H_
#define TROUPE_EXAMPLES_MNIST_RUN_FOLDER_H_

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "data.h"
#include "model.h"
#include "troupe/train/file_writer.h"
#include "troupe/train/saver.h"
#include "troupe/troupe.h"

namespace mnist {

// What is told of a run at its end.
struct Progress {
  int64_t step = 0, images = 0, best_step = 0;
  // The accuracies and the test loss are those of the last test.
  double loss = 0, accuracy = NAN, best = 0, test_loss = NAN;
};

class RunFolder {
 public:
  // Adds the nodes of a Saver to the graph. REQUIRES: the model is complete.
  RunFolder(const troupe::Scope& root, std::string folder)
      : folder_(std::move(folder)), graph_(root.graph()), saver_(root) {}
  // Sets everything to what the newest checkpoint says. False when there is none.
  absl::StatusOr<bool> GoOn(troupe::Session& session, Batches* batches, Progress* progress);
  // Makes an event file of this run, which begins after `step`. Call once, before what follows.
  absl::Status Open(int64_t step);
  absl::Status Save(troupe::Session& session, const Batches& batches, const Progress& progress);
  absl::Status Report(const Progress& progress);
  absl::Status Close(const Progress& progress);

 private:
  const std::string folder_;
  const troupe::Graph* graph_;
  troupe::train::Saver saver_;
  std::unique_ptr<troupe::train::FileWriter> events_;
  int64_t saved_ = -1;  // the step of the newest checkpoint
};

}  // namespace mnist

#endif  // TROUPE_EXAMPLES_MNIST_RUN_FOLDER_H_
