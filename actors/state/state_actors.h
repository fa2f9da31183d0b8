// The actors that have state: queues, readers and the like, one actor for each such resource
// (kernels/state/state_machine.h). They are children of their container's actor.
//
//   state     message             action                                                       next
//   alive     state_letter        1 the machine opens it, and answers whom it can              alive
//   alive     exit (failure)      2 requests that wait are ABORTED, what they had taken goes
//                                   back; letters in the mailbox go to the seat                down
//   down      a letter is sent    3 it waits at the seat for the next incarnation              down
//   down      spawned again       4 it gets the letters of the seat, in their order            alive
//   down      given up            5 all letters, also later ones, are FAILED_PRECONDITION      given up
//   alive     the resource goes   6 exit; the container forgets the child                      (none)
//   any       the host is closed  7 exit; letters are ABORTED                                  (none)
//
// What the machine holds belongs to the resource, so a restarted actor finds it again. It is
// changed in an actor's turn only, and a turn is never cut off by a death.
//
// An actor that is idle is resumed at once on the thread of who sends it a letter: a kernel that
// asks has its answer when Ask returns, without another thread. A turn takes 64 letters at most;
// then the scheduler's threads go on with it, so that nobody serves others for long. When it is at
// work already, the letter waits in its mailbox, and the asker hears the answer from who is there.
// Under a test's scheduler that scheduler resumes all of them.
//
// The container's actor watches them, and restarts them by its policy (supervision/supervisor.h).
// It does not know of one that was made while it was down, or that it has no message of yet; so new
// ones wait in a list, and it takes all that is there whenever it starts or gets states_came.
//
// Blocks: never. Thread rule: thread safe, except the methods that belong to the container's turn.
//
// Tests of the edges, tests/queue/state_actors_test.cc:
//   1     edge_1_a_request_and_its_answer
//   2     edge_2_elements_survive_and_who_waited_is_aborted
//   3, 4  edges_3_and_4_a_letter_to_a_dead_actor_waits_for_the_next
//   5     edge_5_a_queue_that_was_given_up_says_so
//   6     edge_6_the_actor_ends_with_its_queue
//   7     edge_7_a_queue_may_outlive_its_runtime
//   7     edge_7_while_other_threads_ask
#ifndef TROUPE_ACTORS_STATE_STATE_ACTORS_H_
#define TROUPE_ACTORS_STATE_STATE_ACTORS_H_

#include <caf/all.hpp>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "actors/supervision/supervisor.h"
#include "kernels/state/state_machine.h"

namespace troupe {

class StateSeat;

// The state actors of one device. Owned by the runtime; outlives the container's actor.
class StateActors : public StateHost {
 public:
  // `on_askers_thread`: as above; otherwise the scheduler resumes them. `policy`: of the actors.
  StateActors(caf::actor_system* system, std::shared_ptr<Directory> directory, std::string device, RestartPolicy policy,
              bool on_askers_thread);
  ~StateActors() override;
  std::unique_ptr<StateMailbox> Open(std::shared_ptr<StateMachine> machine) override;
  // The runtime ends. Threads that the runtime does not wait for, such as those that read files
  // ahead, may be about to send a letter.
  void Close();
  // After Close: until none is, or false when that takes longer. Then none touches the actor system
  // any more, although resources live on.
  bool WaitUntilQuiet(std::chrono::milliseconds at_most);

  // Of the container's actor, in its turn.
  void TakeOver(caf::event_based_actor* container);
  void TakeNew(caf::event_based_actor* container);
  void OnDown(caf::event_based_actor* container, const caf::down_msg& down);
  void OnRestart(caf::event_based_actor* container, uint64_t number);
  void StopAll();

 private:
  void TookFirst();  // of new_

  caf::actor_system* const system_;
  const std::shared_ptr<Directory> directory_;
  const std::string device_;
  const RestartPolicy policy_;
  const std::unique_ptr<caf::execution_unit> askers_thread_;  // null: the scheduler's
  Children children_;
  std::mutex mu_;  // guards:
  std::deque<std::shared_ptr<StateSeat>> new_;
  std::vector<std::weak_ptr<StateSeat>> all_;
  size_t sweep_at_ = 16;  // dead entries of all_ are swept when it is so long
  int64_t last_ = 0;
  bool closed_ = false;
};

// The actor that has this mailbox, of a runtime; null while it is down. For tests.
caf::actor StateActorOf(const StateMailbox& mailbox);
inline caf::actor StateActorOf(const StateResource& resource) { return StateActorOf(*resource.mailbox()); }

}  // namespace troupe

#endif  // TROUPE_ACTORS_STATE_STATE_ACTORS_H_
