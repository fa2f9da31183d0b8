// Devices for training between graphs: the variables of a model go to the parameter servers, one
// after the other, with what reads and updates them, and everything else to the worker that builds
// the graph.
//
//   const Scope on = root.WithDeviceFunction(
//       train::ReplicaDevices({.ps_tasks = 2, .worker_device = "/job:worker/task:3"}));
//   const Variable w(on.WithOpName("w"), 0.5f);  // on /job:ps/task:0
//   const Variable b(on.WithOpName("b"), 0.1f);  // on /job:ps/task:1
//
// Each worker builds the same graph in the same order, so all of them agree where a variable is.
//
// Source of the semantics: tf.train.replica_device_setter with its round-robin strategy.
//
// Thread rule: pure; the function that it returns counts, and is called by one thread at a time, as
// the scope is.
#ifndef TROUPE_TRAIN_REPLICA_DEVICES_H_
#define TROUPE_TRAIN_REPLICA_DEVICES_H_

#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/scope.h"

namespace troupe {
namespace TROUPE_EXPORT train {

struct ReplicaDeviceOptions {
  int ps_tasks = 0;                           // 0: nothing is placed
  std::string ps_device = "/job:ps";          // without a task
  std::string worker_device = "/job:worker";  // "": the rest is not placed
  bool merge_devices = true;                  // false: a node that asks for any device keeps what it asks for
  // Ops whose nodes go to parameter servers; empty: those that hold variables, and mutable tables.
  std::vector<std::string> ps_ops;
};

// For Scope::WithDeviceFunction. Fields that a node asks for itself win over those given here; one
// that asks for another job than that of `ps_device` counts as the worker's. A device that cannot
// be read is the scope's error.
DeviceFunction ReplicaDevices(const ReplicaDeviceOptions& options);

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_REPLICA_DEVICES_H_
