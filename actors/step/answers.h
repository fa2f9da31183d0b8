// How a step speaks to the program: its callbacks.
//
// Thread rule: any thread.
#ifndef TROUPE_ACTORS_STEP_ANSWERS_H_
#define TROUPE_ACTORS_STEP_ANSWERS_H_

#include <functional>
#include <string>
#include <vector>

#include "troupe/session.h"

namespace troupe {

// INVALID_ARGUMENT: the error of a fetch that has no value although its step succeeded.
absl::Status NotTaken(const std::string& fetch);
// Calls a callback of the program. An exception that it throws is logged and dropped.
void CallDone(const RunCallback& done, absl::Status status, std::vector<Tensor> outputs) noexcept;
// Gives a stall report to `on_stall`, or logs it when there is none.
void ReportStall(const std::function<void(const std::string&)>& on_stall, const std::string& text);

}  // namespace troupe

#endif  // TROUPE_ACTORS_STEP_ANSWERS_H_
