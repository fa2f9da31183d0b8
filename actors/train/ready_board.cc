#include "actors/train/ready_board.h"

#include <list>
#include <mutex>
#include <thread>

#include "actors/threads/actor_thread.h"
#include "actors/messages/messages.h"
#include "actors/runtime/runtime_impl.h"
#include "actors/supervision/supervisor.h"
#include "actors/threads/surely.h"
#include "graph/core/log.h"

namespace troupe::train {
namespace {

constexpr char kName[] = "readiness";
using Clock = std::chrono::steady_clock;

struct State {
  uint64_t count = 0;
  struct Waiting {
    caf::typed_response_promise<ready_count> promise;
    Clock::time_point until;  // who asked waits no longer
  };
  std::list<Waiting> waiting;
};
using BoardActor = caf::stateful_actor<State>;

caf::behavior Behavior(BoardActor* self, uint64_t count) {
  self->state.count = count;
  return {
      [self](const chief_ready&) {
        State& s = self->state;
        ++s.count;
        for (State::Waiting& w : s.waiting) w.promise.deliver(ready_count{s.count});
        s.waiting.clear();
      },
      [self](const get_ready_count&) { return ready_count{self->state.count}; },
      [self](const await_ready& question) {
        State& s = self->state;
        s.waiting.remove_if([now = Clock::now()](const State::Waiting& w) { return w.until <= now; });
        auto promise = self->make_response_promise<ready_count>();
        if (s.count > question.after) {
          promise.deliver(ready_count{s.count});
        } else {
          s.waiting.push_back({promise, question.until});
        }
        return promise;
      },
  };
}

// The reply of the board; false when it gives none in time, and `ended` when it ended instead.
template <class Question>
bool AskBoard(caf::actor_system& system, const caf::actor& board, const Question& question, caf::duration wait,
              ready_count* reply, bool* ended) {
  NoLoggerAfter restore;
  caf::scoped_actor self(system, true);
  bool answered = false;
  self->request(board, wait, question)
      .receive(
          [&](const ready_count& r) {
            *reply = r;
            answered = true;
          },
          [&](const caf::error& e) { *ended = e != caf::sec::request_timeout; });
  return answered;
}

}  // namespace

caf::actor SpawnReadyBoard(caf::actor_system& system) { return system.spawn<caf::hidden>(Behavior, uint64_t{0}); }

caf::actor ReadyBoard::Board() {
  static std::mutex* const one = new std::mutex();  // threads that come first at once
  Runtime::Impl& in = *runtime_.impl();
  std::lock_guard<std::mutex> lock(*one);
  if (in.directory->Incarnation(kName) > 0) return in.directory->Find(kName);
  ChildSpec spec;
  spec.name = kName;
  spec.spawn = [](caf::actor_system& system, uint64_t) { return SpawnReadyBoard(system); };
  spec.failed = [](const std::string& why) { LogWarning("actor '", kName, "' failed (", why, "); it is restarted"); };
  const caf::actor first = SpawnReadyBoard(*in.system);
  in.root->children()->Adopt(std::move(spec), first);
  SendSurely(*in.system, in.root->actor(), [] { return add_child{kName}; });
  return first;
}

void ReadyBoard::Tell() {
  SendSurely(*runtime_.impl()->system, Board(), [] { return chief_ready{}; });
}

uint64_t ReadyBoard::Count() {
  const caf::actor board = Board();
  ready_count reply;
  bool ended = false;
  if (board) AskBoard(*runtime_.impl()->system, board, get_ready_count{}, caf::infinite, &reply, &ended);
  return reply.count;
}

bool ReadyBoard::WaitForMore(uint64_t told, Clock::time_point limit) {
  const Clock::time_point now = Clock::now();
  if (now >= limit) return false;
  const caf::actor board = Board();
  if (!board) {
    // It is being restarted.
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return true;
  }
  const caf::duration wait = limit == Clock::time_point::max()
                                 ? caf::duration(caf::infinite)
                                 : caf::duration(std::chrono::duration_cast<std::chrono::milliseconds>(limit - now) +
                                                 std::chrono::milliseconds(1));
  ready_count reply;
  bool ended = false;
  return AskBoard(*runtime_.impl()->system, board, await_ready{told, limit}, wait, &reply, &ended) || ended;
}

}  // namespace troupe::train
