// Reads the recorded cases of tests/cases; README.md there tells the form.
//
// Whatever has another form than the page says throws std::runtime_error with the file and the
// line: a recording that cannot be read fails the test that asks for it.
#ifndef TROUPE_TESTS_CASES_CASE_FILE_H_
#define TROUPE_TESTS_CASES_CASE_FILE_H_

#include <string>
#include <vector>

#include "troupe/attr_value.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/tensor.h"

namespace troupe::test {

struct CaseLine {
  std::string where;  // "values/nn.txt:12"
  std::string text;
};

// The lines of `what`, a file ("values/nn.txt") or all files of a folder ("values") in the order of
// their names, but for comments, empty lines and lines that begin with @.
std::vector<CaseLine> ReadLines(const std::string& what);

struct Case {
  std::string where, text, op;
  AttrMap attrs;
  std::vector<int> list_sizes;
  std::vector<Tensor> inputs, outputs, grads;  // an invalid tensor is "none"
  std::string error;                           // of a case that is refused
  double tolerance = -1;                       // negative: by the type (same_value.h)
  int runs = 1;
};

// One line, without what the file says of all lines.
Case ParseCase(const std::string& text, const std::string& where = "");
// Those of ReadLines as cases.
std::vector<Case> ReadCases(const std::string& what);
// The first words of the lines, each once and sorted: the ops that have cases. Reads no values.
std::vector<std::string> ReadOps(const std::string& what);

// "float32[2]{1 2}"
Tensor ParseTensor(const std::string& text);

// A node of a graph: "NAME OP INPUT... @DEVICE ATTR=VALUE...".
proto::NodeDef ParseNode(const std::string& text);

}  // namespace troupe::test

#endif  // TROUPE_TESTS_CASES_CASE_FILE_H_
