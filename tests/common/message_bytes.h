// Messages through CAF's binary serialiser, as they cross between processes.
//
// Thread rule: one thread at a time.
#ifndef TROUPE_TESTS_COMMON_MESSAGE_BYTES_H_
#define TROUPE_TESTS_COMMON_MESSAGE_BYTES_H_

#include <boost/test/unit_test.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <memory>
#include <vector>

namespace troupe::testing {

// An actor system for serialisers, without actors. It ends with the tests and not as an object of
// static storage: CAF needs thread-local variables of the main thread to end one.
struct SystemOfTests {
  caf::actor_system_config config;
  caf::actor_system system{config};
};
inline std::unique_ptr<SystemOfTests>& HeldSystem() {
  static std::unique_ptr<SystemOfTests> held;
  return held;
}
inline caf::actor_system& System() {
  if (HeldSystem() == nullptr) HeldSystem() = std::make_unique<SystemOfTests>();
  return HeldSystem()->system;
}
struct EndSystemOfTests {
  ~EndSystemOfTests() { HeldSystem().reset(); }
};
BOOST_TEST_GLOBAL_FIXTURE(EndSystemOfTests);

template <class T>
std::vector<char> BytesOf(T message) {
  std::vector<char> bytes;
  caf::binary_serializer out(System(), bytes);
  BOOST_REQUIRE(!out(message));
  return bytes;
}

// Whether the bytes are such a message, all of them.
template <class T>
bool Read(const std::vector<char>& bytes, T* message) {
  caf::binary_deserializer in(System(), bytes);
  return !in(*message) && in.remaining() == 0;
}

}  // namespace troupe::testing

#endif  // TROUPE_TESTS_COMMON_MESSAGE_BYTES_H_
