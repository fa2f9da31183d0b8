// Data-parallel training within one graph: the same tower on each of several devices, which may be
// those of several tasks, and one update by the mean of their gradients. One client runs it, and
// one step trains all replicas.
//
//   const auto tower = [](const Scope& on, int replica) {
//     Variable w(on.WithOpName("w"), 0.0f);
//     return ops::Square(on, ops::Sub(on, w, static_cast<float>(replica)));  // the loss of its examples
//   };
//   const auto sgd = [](const Scope&) { return std::make_unique<train::GradientDescent>(0.25f); };
//   const train::InGraphReplicas replicas(root, tower, sgd, train::GetOrCreateGlobalStep(root),
//                                         {.devices = {"/device:CPU:0", "/device:CPU:1"}});
//   absl::Status s = session->Extend(*root.graph());
//   if (s.ok()) s = session->Run({}, {}, {replicas.initializer()}, nullptr);
//   for (int i = 0; i < 20 && s.ok(); ++i) s = session->Run({}, {}, {replicas.update()}, nullptr);
//
// The function is called once for each device, with a scope on it, and returns a loss, the mean
// over the tower's own examples. It makes variables as it would for one tower; each call must make
// the same ones, in the same order. Those of replica 0 have the names that they have without
// replicas ("fc1/w"), and are in the graph's collections, so checkpoints are those of a training
// without replicas.
//
// kMirrored. Each replica has its own copy of each variable, and of each slot of its optimizer, on
// its device. Gradients are averaged by an all-reduce (troupe/train/all_reduce.h), and each replica
// applies the mean by itself. Replicas get equal bits of the mean; they stay equal where they
// compute an update with the same kernels, on machines of one kind. Copies are called
// "mirror_1/fc1/w" and are in no collection: initializer() sets them, and Mirror sets them to what
// replica 0 has, after a restore. What a tower sets itself (the averages of a batch normalisation)
// is of that tower.
//
// kShared. There is one variable of each, where the scope says, with device functions
// (troupe/train/replica_devices.h) on parameter servers. Each tower reads it; its gradients are
// added beside it, in the order of the replicas, and applied there once.
//
// With towers of equally many examples, an update is that of one tower with all examples, but for
// rounding: 10 replicas of 100 are one batch of 1000.
//
// Memory. Towers may compute forward values again instead of keeping them
// (InGraphOptions.recompute), and take less of their devices' memory.
//
// Slices. The gradient of a table of which rows are gathered stays one: slices of all towers are
// put behind each other.
//
// Source of the semantics: section 4.4 of "TensorFlow: Large-Scale Machine Learning on
// Heterogeneous Distributed Systems" (2015), "data parallel training", for towers in one graph;
// tf.distribute.MirroredStrategy for mirrored variables.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_IN_GRAPH_REPLICAS_H_
#define TROUPE_TRAIN_IN_GRAPH_REPLICAS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/gradients.h"
#include "troupe/train/all_reduce.h"
#include "troupe/train/optimizer.h"

namespace troupe {
namespace TROUPE_EXPORT train {

struct InGraphOptions {
  enum Variables : uint8_t { kMirrored, kShared };
  std::vector<std::string> devices;  // a tower on each
  Variables variables = kMirrored;
  AllReduceOptions all_reduce = {};  // of mirrored ones; its `mean` is set
  std::string name = "towers";       // of the sub-scope
  // Of each tower's gradients. Scopes are named from the tower's own on ("encoder/*"; "" is the
  // whole tower); a budget is each tower's.
  RecomputeOptions recompute = {};
};

class InGraphReplicas {
 public:
  // The loss, a scalar of floating type, of a new tower in this scope.
  using Tower = std::function<Output(const Scope& on, int replica)>;
  // Of each replica one; of shared variables one. A rate that it is given may be an Output.
  using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(const Scope& on)>;

  // `global_step` is optional, and grows after all replicas have been updated. Errors, of the
  // scope: INVALID_ARGUMENT when there are no devices, when a loss is no scalar, when towers make
  // different variables, when no variable has a gradient, when the loss of one tower depends on a
  // variable and that of another one does not, and when a mirrored tower trains a variable that it
  // did not make itself (so its RegularizationLoss has to be given its weights); and what Gradients
  // says of options.recompute. What a function throws is the scope's error, too.
  InGraphReplicas(const ScopeAt& at, const Tower& tower, const MakeOptimizer& optimizer, const Variable& global_step,
                  const InGraphOptions& options);

  const InGraphOptions& options() const { return options_; }
  int replicas() const { return static_cast<int>(options_.devices.size()); }
  // Of the towers, in their order; and their mean, float32. Before the update.
  const std::vector<Output>& losses() const { return losses_; }
  const Output& loss() const { return loss_; }
  // One step of training: gradients of all towers, their mean, and the global step.
  const Operation& update() const { return update_; }
  // All global variables that there were when this was built, and all mirrors.
  const Operation& initializer() const { return initializer_; }
  // variables()[r]: of replica r, those that the towers made, then the optimizer's, in the order of
  // variables()[0]. Shared: variables()[0] alone.
  const std::vector<std::vector<Variable>>& variables() const { return variables_; }
  // Gives replica r, from 1 on, what replica 0 has. Shared: nothing.
  Operation Mirror(const ScopeAt& at) const;
  // Gives replica `to` what replica `from` has. OUT_OF_RANGE as the scope's error for others.
  Operation Copy(const ScopeAt& at, int from, int to) const;

 private:
  void Build(const ScopeAt& at, const Tower& tower, const MakeOptimizer& optimizer, const Variable& global_step);
  bool BuildTowers(const Scope& s, const ScopeAt& at, const Tower& tower);
  std::vector<GradAndVar> GradientsOf(size_t replica, const std::vector<Variable>& vars) const;
  std::vector<std::vector<GradAndVar>> MirroredMeans(const Scope& s) const;
  std::vector<GradAndVar> SharedMeans(const Scope& s) const;
  static bool CheckAllMirrored(const Scope& s, size_t replica, const std::vector<GradAndVar>& others);
  Operation Apply(const Scope& s, size_t replica, const MakeOptimizer& make, const std::vector<GradAndVar>& means);
  void MeanLoss(const Scope& s);

  InGraphOptions options_;
  std::vector<Scope> on_;  // of each tower
  std::vector<Output> losses_;
  Output loss_;
  Operation update_, initializer_;
  std::vector<std::vector<Variable>> variables_;  // by replica
  std::vector<bool> trainable_;                   // of variables()[0], the towers' own
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_IN_GRAPH_REPLICAS_H_
