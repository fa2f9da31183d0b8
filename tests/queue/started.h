// A session whose queue runners run as long as a test does.
#ifndef TROUPE_TESTS_QUEUE_STARTED_H_
#define TROUPE_TESTS_QUEUE_STARTED_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/actors/graphs.h"
#include "troupe/train/coordinator.h"
#include "troupe/train/queue_runner.h"

namespace troupe::train {

// A session with its runners started, which are joined at the end.
struct Started {
  explicit Started(const Scope& root) {
    const Operation init = LocalVariablesInitializer(root);
    session = NewSession(root);
    TROUPE_REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
    coordinator = std::make_unique<Coordinator>(*session);
    TROUPE_REQUIRE_OK(StartQueueRunners(*session, *coordinator, *root.graph()));
  }
  ~Started() {
    coordinator->RequestStop();
    const absl::Status joined = coordinator->Join();
    BOOST_TEST(joined.ok(), joined);
  }
  // "[1 2]" for each of the outputs, or the code.
  std::string Next(const OutputList& outputs) {
    std::vector<std::string> names;
    for (const Output& o : outputs) names.push_back(o.name());
    std::vector<Tensor> out;
    const absl::Status s = session->Run({}, names, {}, &out);
    if (!s.ok()) return absl::StatusCodeToString(s.code());
    std::string text;
    for (const Tensor& t : out) {
      const std::string all = t.DebugString(100);
      StrAppend(&text, text.empty() ? "" : " ", all.substr(all.rfind('[')));
    }
    return text;
  }
  std::unique_ptr<Session> session;
  std::unique_ptr<Coordinator> coordinator;
};

}  // namespace troupe::train

#endif  // TROUPE_TESTS_QUEUE_STARTED_H_
