#include "troupe/registration.h"

#include <algorithm>
#include <mutex>

namespace troupe {
namespace {

struct Errors {
  std::mutex mu;
  std::vector<std::string> texts;
};
// Made by the first who needs it, which is before main, and never destroyed.
Errors& AllErrors() {
  static Errors* errors = new Errors;
  return *errors;
}

}  // namespace

std::vector<std::string> RegistrationErrors() {
  std::lock_guard<std::mutex> lock(AllErrors().mu);
  return AllErrors().texts;
}

std::string RegistrationErrorsOf(std::string_view op) {
  const std::string quoted = StrCat("'", op, "'");
  std::string all;
  for (const std::string& text : RegistrationErrors()) {
    if (text.find(quoted) != std::string::npos) StrAppend(&all, all.empty() ? "" : "; ", text);
  }
  return all;
}

void NoteRegistrationError(const absl::Status& status) {
  std::lock_guard<std::mutex> lock(AllErrors().mu);
  std::string text(status.message());
  // A library that is loaded again and again says the same.
  std::vector<std::string>& texts = AllErrors().texts;
  if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
}

}  // namespace troupe
