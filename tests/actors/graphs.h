// Graphs and helpers that the tests of the runtime share.
#ifndef TROUPE_TESTS_ACTORS_GRAPHS_H_
#define TROUPE_TESTS_ACTORS_GRAPHS_H_

#include <boost/test/unit_test.hpp>

#include "troupe/troupe.h"

#define TROUPE_REQUIRE_OK(expr)                               \
  do {                                                        \
    const absl::Status troupe_status = (expr);                \
    BOOST_REQUIRE_MESSAGE(troupe_status.ok(), troupe_status); \
  } while (false)

namespace troupe {

inline std::unique_ptr<Session> NewSession(const Scope& root, SessionOptions options = {}) {
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  auto session = Session::Create(options);
  BOOST_REQUIRE_MESSAGE(session.ok(), session.status());
  TROUPE_REQUIRE_OK((*session)->Extend(*root.graph()));
  return *std::move(session);
}

inline Tensor RunOne(Session& session, const Feeds& feeds, const Output& fetch) {
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(session.Run(feeds, {fetch.name()}, {}, &out));
  return out[0];
}

}  // namespace troupe

#endif  // TROUPE_TESTS_ACTORS_GRAPHS_H_
