// Every case of cases/errors is refused, by the kernel alone, with the sentence that the case has.
#include <boost/test/unit_test.hpp>

#include "tests/cases/each_op.h"
#include "troupe/evaluate.h"

namespace troupe::test {
namespace errors_test {

std::string Wrong(const Case& c) {
  const auto got = EvaluateOp(c.op, c.inputs, c.attrs, c.list_sizes);
  if (got.ok()) return "no error";
  // INVALID_ARGUMENT, unless the sentence begins with another code.
  std::string code = "INVALID_ARGUMENT", sentence = c.error;
  if (const size_t colon = sentence.find(": "); sentence.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == colon) {
    code = sentence.substr(0, colon);
    sentence.erase(0, colon + 2);
  }
  const std::string got_text = got.status().ToString();
  if (got_text.find(code + ": ") != 0) return StrCat("the error is not ", code, ": ", got_text);
  return got_text.find(sentence) != std::string::npos ? "" : StrCat("the error is: ", got_text);
}

void CheckErrors(const std::string& op, const std::vector<Case>& cases) {
  Tally tally("errors", op);
  for (const Case& c : cases) tally.Add(c, Wrong(c));
}

const EachOp kErrors("errors", {"errors"}, CheckErrors, __FILE__, __LINE__);

}  // namespace errors_test
}  // namespace troupe::test
