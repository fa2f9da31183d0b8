// What the tests of clients' sessions in servers share: a server, how it is reached, and a graph.
//
// Thread rule: one thread.
#ifndef TROUPE_TESTS_NET_CLIENTS_H_
#define TROUPE_TESTS_NET_CLIENTS_H_

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <string>

#include "tests/actors/graphs.h"
#include "tests/net/processes.h"
#include "troupe/ops.h"
#include "troupe/queues.h"
#include "troupe/server.h"
#include "troupe/variable.h"

namespace troupe {

inline ServerOptions Alone() {
  ServerOptions o;
  o.spec = {ClusterSpec::FromFlags(StrCat("ps=127.0.0.1:", FreePorts(1)[0])).value(), {"ps", 0}};
  o.runtime.threads = 2;
  return o;
}
inline SessionOptions At(const Server& server) {
  SessionOptions o;
  o.target = server.target();
  o.client_name = "tester";
  o.connect_timeout_ms = 60000;
  return o;
}
inline std::string CodeOf(const absl::Status& s) { return absl::StatusCodeToString(s.code()); }
inline size_t SessionsOf(const Server& server) { return server.status()->sessions.size(); }

// x -> 3x; a counter; a queue from which nothing comes.
struct Model {
  Model() {
    x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
    y = x * 3.0f;
    count = Variable(root.WithOpName("count"), 0.0f);
    more = count.AssignAdd(root.WithOpName("more"), 1.0f);
    queue = Queue::Fifo(root.WithOpName("queue"), {DType::kFloat});
    next = queue.Dequeue(root.WithOpName("next"))[0];
    BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  }
  Scope root = Scope::NewRootScope();
  Output x, y, next, more;
  Variable count;
  Queue queue;
};

}  // namespace troupe

#endif  // TROUPE_TESTS_NET_CLIENTS_H_
