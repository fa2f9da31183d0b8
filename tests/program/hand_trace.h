// Traces written by hand, for tests of what reads them.
#ifndef TROUPE_TESTS_PROGRAM_HAND_TRACE_H_
#define TROUPE_TESTS_PROGRAM_HAND_TRACE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "troupe/strings.h"

namespace troupe {

// A trace as Timeline writes it, with times in microseconds.
class Hand {
 public:
  explicit Hand(std::string master = "/job:worker/replica:0/task:0", int64_t origin_us = 0)
      : master_(std::move(master)), origin_(origin_us) {}
  void Task(int pid, const std::string& name, double offset = 0, double uncertainty = 0) {
    Add(StrCat("{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": ", pid, ", \"args\": {\"name\": \"", name,
               "\", \"offset_us\": ", offset, ", \"uncertainty_us\": ", uncertainty, "}}"));
  }
  void Step(int number, double begin, double end) {
    Add(StrCat("{\"ph\": \"X\", \"cat\": \"step\", \"name\": \"step ", number, "\", \"pid\": 0, \"tid\": 9, \"ts\": ",
               begin, ", \"dur\": ", end - begin, ", \"args\": {\"step\": ", number, "}}"));
  }
  struct More {
    int after = 0, from = 0;
    double queued = 0;
    std::string category = "op";
    int step = 1;
    std::string text;  // of the args
  };
  void Run(int id, const std::string& node, int pid, double begin, double end, const More& m) {
    Add(StrCat("{\"ph\": \"X\", \"cat\": \"", m.category, "\", \"name\": \"Op\", \"pid\": ", pid,
               ", \"tid\": 1, \"ts\": ", begin, ", \"dur\": ", end - begin, ", \"args\": {\"node\": \"", node,
               "\", \"op\": \"Op\", \"device\": \"CPU:0\", \"step\": ", m.step, ", \"id\": ", id,
               m.after != 0 ? StrCat(", \"after\": ", m.after) : "", m.from != 0 ? StrCat(", \"from\": ", m.from) : "",
               ", \"queued_us\": ", m.queued, m.text, "}}"));
  }
  std::string Text() const {
    return StrCat("{\"otherData\": {\"master\": \"", master_, "\", \"origin_ns\": \"", origin_ * 1000,
                  "\"}, \"traceEvents\": [", events_, "\n]}\n");
  }

 private:
  void Add(const std::string& event) { StrAppend(&events_, events_.empty() ? "\n" : ",\n", event); }
  const std::string master_;
  const int64_t origin_;
  std::string events_;
};

// On the worker: a (10 us) is sent to the ps, where b waits 4 us for a thread and runs for 60 us;
// meanwhile c runs on the worker, which is not on the path. b's value comes back, d waits for a
// variable, and e is the end.
inline Hand Known() {
  Hand h;
  h.Task(0, "/job:worker/replica:0/task:0");
  h.Task(1, "/job:ps/replica:0/task:0", 5000, 2.5);
  h.Step(1, 100, 250);
  h.Run(1, "a", 0, 105, 115, {.queued = 5});
  h.Run(2, "a/send", 0, 115, 117, {.after = 1});
  h.Run(3, "a/recv", 1, 103, 127,
        {.from = 2, .category = "receives", .text = ", \"tensor\": \"a:0\", \"sender\": \"W\""});
  h.Run(4, "b", 1, 131, 191, {.after = 3, .queued = 4});
  h.Run(5, "b/send", 1, 191, 192, {.after = 4});
  h.Run(6, "b/recv", 0, 105, 200,
        {.from = 5, .category = "receives", .text = ", \"tensor\": \"b:0\", \"sender\": \"P\""});
  h.Run(7, "c", 0, 117, 150, {.after = 1, .queued = 2});
  h.Run(8, "d", 0, 200, 220, {.after = 6, .category = "waits", .text = ", \"waits_for\": \"v\""});
  h.Run(9, "d", 0, 220, 221, {.after = 8});
  h.Run(10, "e", 0, 222, 240, {.after = 9, .queued = 1});
  return h;
}

}  // namespace troupe

#endif  // TROUPE_TESTS_PROGRAM_HAND_TRACE_H_
