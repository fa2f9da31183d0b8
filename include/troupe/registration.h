// Lists the errors of registrations. Ops register themselves before main, or when a library is
// loaded, where no caller could take a status.
//
// An op that is defined twice (in a plugin that was loaded in two copies) keeps its first
// definition; an op with a wrong definition does not exist. Both errors are listed here, and are
// part of the message when the op is used and fails. If a kernel is registered twice, the first
// registration counts.
//
// Thread rule: any thread.
#ifndef TROUPE_REGISTRATION_H_
#define TROUPE_REGISTRATION_H_

#include <string>
#include <string_view>
#include <vector>

#include "troupe/export.h"
#include "troupe/status.h"

namespace TROUPE_EXPORT troupe {

// All of them, in the order in which they happened.
std::vector<std::string> RegistrationErrors();
// Those that name op `op`, as one text; "" when there are none.
std::string RegistrationErrorsOf(std::string_view op);
void NoteRegistrationError(const absl::Status& status);

}  // namespace troupe

#endif  // TROUPE_REGISTRATION_H_
