// Topologies for tests.
//
// Thread rule: one thread.
#ifndef TROUPE_TESTS_PLAY_TOPOLOGIES_H_
#define TROUPE_TESTS_PLAY_TOPOLOGIES_H_

#include <string>

#include "troupe/play.h"

namespace troupe::play {

// Has every kind of part, and most settings.
inline std::string WholeTopology() {
  return "# All kinds of parts.\n"
         "topology everything\n"
         "  stop_within: 5s\n"
         "\n"
         "host other            # the same machine, by another name\n"
         "  launcher: sh -c\n"
         "\n"
         "server ps\n"
         "  tasks: 2\n"
         "  threads: 1\n"
         "  memory: 64MiB\n"
         "  heartbeat: 100ms\n"
         "  restart: always\n"
         "  back_off: 10ms 1s\n"
         "\n"
         "program worker\n"
         "  run: sh -c 'echo \"task {task} of {job} at {address}\"' '' {ps.address}\n"
         "  run: --more {{literally} \"a b\" # a comment\n"
         "  tasks: 2\n"
         "  after: ps\n"
         "  env: SEED={task} NAME='two words'\n"
         "\n"
         "batcher model\n"
         "  graph: affine.pbtxt\n"
         "  feeds: x\n"
         "  fetches: y\n"
         "  max_delay: 500us\n"
         "\n"
         "actor fall\n"
         "  factory: fall\n"
         "  with: gravity=9.81\n"
         "  uses: model\n"
         "\n"
         "actor inside\n"
         "  factory: fall\n"
         "  in: ps\n"
         "  restart: on_failure\n"
         "\n"
         "forward physics\n"
         "  in: ps\n"
         "  to: fall\n";
}

}  // namespace troupe::play

#endif  // TROUPE_TESTS_PLAY_TOPOLOGIES_H_
