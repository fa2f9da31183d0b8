// What a session knows of the signatures that it has compiled.
#include "actors/signature/signature_cache.h"

#include <boost/test/unit_test.hpp>

#include "actors/signature/signature.h"

namespace troupe {
namespace signature_cache_test {

// A device has died; the session's actor sets its signatures stale, and removes them afterwards. A
// caller that asks in between must have a new one compiled.
BOOST_AUTO_TEST_CASE(a_stale_signature_is_not_found) {
  SignatureCache cache(0);
  const auto first = std::make_shared<Signature>(), second = std::make_shared<Signature>();
  cache.Add("key", first);
  BOOST_TEST(cache.Find("key") == first);
  first->SetStale();
  BOOST_TEST(cache.Find("key") == nullptr);
  cache.Add("key", second);
  cache.Remove(first.get());
  BOOST_TEST(cache.Find("key") == second);
}

BOOST_AUTO_TEST_CASE(a_signature_does_not_follow_itself) {
  const auto s = std::make_shared<Signature>();
  s->SetSuccessor(s);
  BOOST_TEST(s->successor() == nullptr);
}

}  // namespace signature_cache_test
}  // namespace troupe
