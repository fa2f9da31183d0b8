// Trains on handwritten digits with several processes, any of which may be killed at any time.
//
//   troupe serve --cluster CLUSTER --job ps --task 0 &
//   cluster_mnist --cluster CLUSTER --job worker --task 0 --steps 100 --model_dir RUN &
//   cluster_mnist --cluster CLUSTER --job worker --task 1 --steps 100 --model_dir RUN
//
// CLUSTER is one of: flags, 'ps=localhost:2222;worker=localhost:2223,localhost:2224'; a file with a
// ClusterDef (text), or with such flags. The parameter servers are processes of `troupe serve`, and
// each worker is a process of this program. The worker 0 is the chief: it gives the variables their
// values, adds up what the workers send, saves, and restores.
//
// Flags. All workers are given the same ones but for --task:
//   --cluster C         as above
//   --job worker        no other is known
//   --task I            number of this worker
//   --mode sync         each step is one update, by the mean of the gradients of all workers, added
//                       in the order of their numbers; the same seed gives the same bits
//          backup       as sync, but of the first --take workers that are done with a step; the
//                       gradients of the others are dropped, and counted
//          async        each worker updates by itself; a step is the update of any worker
//   --take M            backup: of so many workers; 0 = all but one
//   --steps N           the run ends when the model has had so many updates
//   --batch B           images of a worker in a step
//   --seed S            of all that is drawn; at least 1
//   --learning_rate R   else the net's own
//   --model_dir DIR     of the checkpoints; all processes see it under the same name. "": nothing is
//                       saved, and a lost parameter server begins the run anew
//   --save_steps K      updates between checkpoints; there is one before the first step, too
//   --report_steps K    updates between the lines of --json, 1 = each
//   --net small         one hidden layer of 32 units; e8: the conv net E8 of examples/mnist
//   --data DIR          with the four IDX files of MNIST; "": the digits of examples/mnist
//   --threads T         that compute; 0 = one per core
//   --heartbeat MS      between two heartbeats, as of `troupe serve`
//   --give_up MS        how long a lost process is waited for
//   --json              output is one JSON object a line, as follows; else the same as text
//
// A process that is started again with the same arguments goes on by itself, whichever it is. Exit
// status: 0 when step N was reached, 1 for a failure (told on stderr), 2 for a wrong command line.
// The chief waits for the other workers at the end, so the parameter servers may be stopped when it
// has ended.
//
// Output. Each object has "event" and "task", the number of the worker:
//   {"event": "ready", "task": 0, "pid": 71, "listens_at": "127.0.0.1:2223"}
//       once, when the process listens
//   {"event": "begin", "task": 0, "step": 40, "from": "servers"}
//       training begins, or goes on after a loss, at this step. "from", of the chief: "start" with
//       new variables; "servers" with what the parameter servers have; "checkpoint" with what was
//       restored. Then there are "restored_to": 40 and "lost_updates": how many updates that the
//       servers had are to be done again (sync, backup), or are lost (async)
//   {"event": "step", "task": 0, "step": 41, "loss": 0.61, "images_per_s": 5120.0}
//       the model has had 41 updates. sync, backup: of the chief alone; loss is the mean of the
//       workers that were taken, before the update, and images are those of all of them. async: of
//       each worker, its own. After a restore a step may come again; in sync mode with equal loss
//   {"event": "saved", "task": 0, "step": 50, "path": "RUN/model.ckpt-50"}
//       of the chief
//   {"event": "lost", "task": 0, "why": "UNAVAILABLE: ..."}
//       a step has failed, and the process waits to go on; "begin" follows
//   {"event": "end", "task": 0, "step": 100, "loss": 0.21, "accuracy": 0.93,
//    "hash": "0123456789abcdef", "recoveries": 1, "restarts": 1, "lost_updates": 0, "dropped": 0,
//    "images_per_s": 5120.0}
//       last. Of workers that are no chief, without loss, accuracy, hash and dropped. accuracy: of
//       the test images; hash: of the bits of all variables; recoveries: how often this process
//       began again ("lost"); restarts: how often workers came anew to the chief; lost_updates: the
//       sum of those of "begin"; dropped: gradients that were too late, or came twice
