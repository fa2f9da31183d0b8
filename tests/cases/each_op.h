// Test cases that are named after ops: one for each op that a folder of tests/cases has cases of,
// so that `--run_test='kernels/MatMul'` runs one op's (tools/test-op does).
//
//   void Check(const std::string& op, const std::vector<Case>& cases);
//   const EachOp kKernels("kernels", {"values"}, Check, __FILE__, __LINE__);
//
// makes the suite `kernels`. What Check finds wrong it says by Boost.Test's macros.
#ifndef TROUPE_TESTS_CASES_EACH_OP_H_
#define TROUPE_TESTS_CASES_EACH_OP_H_

#include <boost/test/unit_test.hpp>
#include <map>
#include <string>
#include <vector>

#include "tests/cases/case_file.h"

namespace troupe::test {

class EachOp {
 public:
  using Check = void (*)(const std::string& op, const std::vector<Case>& cases);
  enum When { kAlways, kWhenNamed };  // kWhenNamed: the suite runs when --run_test names it

  EachOp(const char* suite, const std::vector<std::string>& folders, Check check, const char* file, int line,
         When when = kAlways) {
    std::map<std::string, std::vector<std::string>> of;  // op -> folders
    for (const std::string& folder : folders) {
      for (const std::string& op : ReadOps(folder)) of[op].push_back(folder);
    }
    boost::unit_test::test_suite* all = BOOST_TEST_SUITE(suite);
    for (const auto& [op, some] : of) {
      const auto run = [op = op, some = some, check] {
        std::vector<Case> cases;
        for (const std::string& folder : some) {
          for (const Case& c : Read(folder)) {
            if (c.op == op) cases.push_back(c);
          }
        }
        check(op, cases);
      };
      all->add(boost::unit_test::make_test_case(run, op, file, static_cast<size_t>(line)));
    }
    if (when == kWhenNamed) all->p_default_status.value = boost::unit_test::test_unit::RS_DISABLED;
    boost::unit_test::framework::master_test_suite().add(all);
  }

 private:
  // Read once.
  static const std::vector<Case>& Read(const std::string& folder) {
    static auto* const read = new std::map<std::string, std::vector<Case>>();
    const auto it = read->find(folder);
    return it != read->end() ? it->second : (*read)[folder] = ReadCases(folder);
  }
};

// Ends each op's test with one line that tools/test-op reads: how many cases there were and how
// many of them are wrong. The first few of these are errors with their text, the others with their
// place.
class Tally {
 public:
  Tally(const char* what, const std::string& op) : what_(what), op_(op) {}
  ~Tally() { BOOST_TEST_MESSAGE(what_ << " of " << op_ << ": " << cases_ << " cases, " << wrong_ << " wrong"); }
  // `wrong` is "" for a case that is right.
  void Add(const Case& c, const std::string& wrong) {
    constexpr int kShown = 3;
    ++cases_;
    if (wrong.empty()) {
      BOOST_CHECK(true);
    } else if (++wrong_ <= kShown) {
      BOOST_ERROR(c.where << ": " << c.text.substr(0, 300) << "\n  " << wrong);
    } else {
      BOOST_ERROR(c.where);
    }
  }

 private:
  const char* const what_;
  const std::string op_;
  int cases_ = 0, wrong_ = 0;
};

}  // namespace troupe::test

#endif  // TROUPE_TESTS_CASES_EACH_OP_H_
