// Every case of cases/errors is refused: by the kernel alone, with the sentence that the case has.
#include <boost/test/unit_test.hpp>

#include "kernels/evaluate.h"
#include "tests/cases/each_op.h"

namespace troupe::test {
namespace {

std::string Wrong(const Case& c) {
  const auto got = EvaluateOp(c.op, c.inputs, c.attrs, c.list_sizes);
  if (got.ok()) return "no error";
  const std::string message(got.status().message());
  if (got.status().code() != absl::StatusCode::kInvalidArgument) return got.status().ToString();
  return message.find(c.error) != std::string::npos ? "" : StrCat("the error is: ", message);
}

void CheckErrors(const std::string& op, const std::vector<Case>& cases) {
  Tally tally("errors", op);
  for (const Case& c : cases) tally.Add(c, Wrong(c));
}

const EachOp kErrors("errors", {"errors"}, CheckErrors, __FILE__, __LINE__);

}  // namespace
}  // namespace troupe::test
