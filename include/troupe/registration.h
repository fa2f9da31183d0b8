// What went wrong where nobody can be told: ops register themselves before main, or when a library
// is loaded.
//
// An op that is defined twice (a plugin that was loaded in two copies) keeps its first definition;
// one that is wrong does not exist. Either is noted here, and is part of the message when somebody
// uses the op and fails. A kernel that is registered twice is the same kernel: the first is taken.
//
// Thread rule: any thread.
#ifndef TROUPE_REGISTRATION_H_
#define TROUPE_REGISTRATION_H_

#include <string>
#include <string_view>
#include <vector>

#include "troupe/status.h"

namespace troupe {

// All of them, in the order in which they happened.
std::vector<std::string> RegistrationErrors();
// Those that name op `op`, as one text; "" when there are none.
std::string RegistrationErrorsOf(std::string_view op);
void NoteRegistrationError(const absl::Status& status);

}  // namespace troupe

#endif  // TROUPE_REGISTRATION_H_
