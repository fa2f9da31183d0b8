// A scenario: some runtimes ("places"), sessions in them ("parties"), threads and actors that make
// calls, and troubles that befall them meanwhile.
//
// All of it is drawn from the seed and the scenario's number before it begins; what depends on the
// clock and on the scheduler is only which of the things that the scenario allows happens.
// Afterwards everything is let go, and must be gone.
#ifndef TROUPE_TESTS_STRESS_SCENARIO_H_
#define TROUPE_TESTS_STRESS_SCENARIO_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/stress/call.h"

namespace troupe::stress {

struct Options {
  uint64_t seed = 1;
  double seconds = 30;
  int64_t scenario = -1;  // only this one, again and again
  int64_t times = 0;      // with `scenario`: so often; 0 = for `seconds`
  int at_once = 3;
  int threads = 0;    // of every runtime; 0 = drawn
  bool stop = false;  // at the first fault
  bool verbose = false;
  std::set<std::string> without;
  bool Has(const std::string& kind) const { return !without.contains(kind); }
};
// What may be left out by --without, and what each is.
const std::map<std::string, std::string>& ScenarioKinds();

enum class What {
  kClose,
  kDrop,
  kDropInHandler,
  kDropInCallback,
  kKillSession,
  kKillExecutor,
  kKillWorker,
  kKillDevice,
  kKillContainer,
  kReset,
  kExtend,
  kStatus,
  kBadPrepare,
  kMakeInHandler,
  kMakeInCallback,
};
const char* NameOf(What what);
struct Trouble {
  double at_ms = 0;
  What what = What::kStatus;
  int party = 0;
};

class Scenario : public std::enable_shared_from_this<Scenario> {
 public:
  Scenario(int64_t number, const Options& options);
  ~Scenario();
  // All of it, on the calling thread and those that it makes.
  void Run();
  int64_t number() const { return number_; }
  // For the watchdog: what has not been answered or does not return, and what the sessions say of
  // it. From any thread.
  std::string Outstanding();
  std::vector<std::string> AskSessions();
  // When somebody must look what is wrong.
  TimePoint GiveUpAt() const { return give_up_.load(); }

  // On a thread of the actor that the scenario's user is.
  void OnUser(caf::event_based_actor* self, int64_t what);

 private:
  friend class Answerer;
  class Doing;  // an operation that must return in time
  struct Event {
    std::function<void()> what;
  };

  // Drawing (draw_scenario.cc).
  void DrawPlaces(Draw draw);
  void DrawParties(Draw draw);
  void DrawCalls(Draw draw);
  void DrawCall(Draw* draw, Call* call);
  void DrawTroubles(Draw draw);

  // Running.
  bool Start();
  bool StartParty(Party& party);
  void RunEvents();
  void At(TimePoint when, std::function<void()> what);
  void WaitForAnswers();
  void CheckWhatIsLeft();
  void LetGo();
  // Gives the session away on this thread.
  void DropSession(Party& party);
  void OpenTheGate();
  TimePoint gate() const { return gate_.at(); }

  // Calls (issue.cc).
  void Issue(Call& call, caf::event_based_actor* self);
  void IssueOnThread(Call& call);
  void Skip(Call& call);
  void RunHere(Call& call, Session* session);
  absl::Status RunPartial(Call& call, Session& session, const RunOptions& options, std::vector<Tensor>* out);
  void Request(Call& call, caf::event_based_actor* self);
  void OnAnswer(Call& call, const absl::Status& status, const std::vector<Tensor>& outputs);
  RunOptions OptionsOf(const Call& call, const CancellationToken* token) const;
  Names FetchesOf(const Call& call) const;

  // Troubles (troubles.cc).
  void Befall(const Trouble& trouble);
  void Kill(Party& party, What what);
  void HarvestExecutors(Party& party);
  void InHandler(Party& party, std::function<void()> what);
  void MakeSession(Party& party);

  const int64_t number_;
  const Options options_;
  std::vector<std::unique_ptr<Place>> places_;
  std::vector<std::unique_ptr<Party>> parties_;
  std::deque<Call> calls_;
  std::vector<std::vector<int>> threads_;  // calls by the thread that makes them, or has an actor make them
  std::vector<Trouble> troubles_;
  double gate_after_ms_ = 0;
  bool gate_opens_late_ = false;  // when everything is let go
  std::atomic<TimePoint> give_up_{kNever};
  TimePoint begin_ = kNever;
  Moment gate_;

  std::mutex mu_;  // guards what follows
  std::condition_variable changed_;
  std::multimap<TimePoint, Event> events_;
  bool no_more_events_ = false;
  int64_t unanswered_ = 0;
  std::vector<std::pair<std::string, TimePoint>> doing_;
  std::deque<std::function<void()>> for_handlers_;
  std::vector<caf::actor> users_;              // by place
  std::vector<std::vector<caf::actor>> cast_;  // executors by party
  std::vector<caf::actor> session_actors_;     // by party
};

}  // namespace troupe::stress

#endif  // TROUPE_TESTS_STRESS_SCENARIO_H_
