// Ends the program when a scenario hangs, and says where.
#ifndef TROUPE_TESTS_STRESS_WATCHDOG_H_
#define TROUPE_TESTS_STRESS_WATCHDOG_H_

#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "tests/stress/scenario.h"

namespace troupe::stress {

class Watchdog {
 public:
  Watchdog();
  ~Watchdog();
  void Watch(std::shared_ptr<Scenario> scenario);
  void Unwatch(const std::shared_ptr<Scenario>& scenario);

 private:
  void Run();
  // Prints what is outstanding, what the sessions say, and every thread's stack where gdb is there;
  // does not return.
  [[noreturn]] void Hangs(const std::shared_ptr<Scenario>& scenario);
  std::mutex mu_;
  std::set<std::shared_ptr<Scenario>> watched_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace troupe::stress

#endif  // TROUPE_TESTS_STRESS_WATCHDOG_H_
