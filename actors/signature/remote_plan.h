// Where the parts of a signature stand that other processes run: by task, which graph of its worker
// they are, and what they take.
//
// Thread rule: made by one thread, then read by all. The last share lets the workers drop the
// graphs.
#ifndef TROUPE_ACTORS_SIGNATURE_REMOTE_PLAN_H_
#define TROUPE_ACTORS_SIGNATURE_REMOTE_PLAN_H_

#include <caf/all.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/runtime/remote_tasks.h"

namespace troupe {

struct RemotePlan {
  struct Task {
    uint32_t number = 0;               // in PartAddress
    uint64_t incarnation = 0;          // of its process, when the graph was registered
    uint64_t handle = 0;               // of the graph there
    uint32_t first_part = 0;           // of its parts, which follow each other
    std::vector<std::string> devices;  // by part
    std::vector<uint32_t> arguments;   // that its parts take
  };
  RemotePlan() = default;
  RemotePlan(const RemotePlan&) = delete;
  RemotePlan& operator=(const RemotePlan&) = delete;
  ~RemotePlan();
  const std::string& NameOf(const Task& task) const { return names[task.number]; }

  uint64_t master = 0;             // the incarnation of this process
  std::string port;                // the task whose worker the others answer to
  std::vector<std::string> names;  // of the tasks of the whole graph, by number
  std::vector<Task> tasks;         // that others run
  bool updates = false;            // their steps may update variables
  caf::actor_system* system = nullptr;
  std::shared_ptr<RemoteTasks> remote;
  std::shared_ptr<const Directory> directory;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_SIGNATURE_REMOTE_PLAN_H_
