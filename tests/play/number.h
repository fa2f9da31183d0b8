// A message of the tests' own actors.
//
// Thread rule: a value.
#ifndef TROUPE_TESTS_PLAY_NUMBER_H_
#define TROUPE_TESTS_PLAY_NUMBER_H_

#include <caf/all.hpp>

namespace troupe::play {

struct number {
  int value = 0;
};
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, number& x) {
  return f(caf::meta::type_name("number"), x.value);
}

}  // namespace troupe::play

CAF_BEGIN_TYPE_ID_BLOCK(test_numbers, first_custom_type_id)
CAF_ADD_TYPE_ID(test_numbers, (troupe::play::number))
CAF_END_TYPE_ID_BLOCK(test_numbers)

#endif  // TROUPE_TESTS_PLAY_NUMBER_H_
