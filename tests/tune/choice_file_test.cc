// The file of choices as text: there and back, other machines, and damage at every place.
#include <boost/test/unit_test.hpp>
#include <random>

#include "kernels/tune/choice_file.h"
#include "troupe/strings.h"

namespace troupe::tune {
namespace choice_file_test {

const Machine kMachine = {"Some CPU 9000", "v4", "oneDNN 9.8.7 level 255"};

SavedChoices Choices() {
  return {{"matmul(m=8,n=100,k=-1)", {"own:rows:2", {{"own", 19.25}, {"own:rows:2", 11.5}}}},
          {"conv(n=1)", {"library", {{"library", 1234567.125}}}}};
}

std::string Text() { return ToText(kMachine, Choices()); }

void CheckRefused(const std::string& text, const std::string& part) {
  const auto read = FromText(kMachine, text);
  BOOST_REQUIRE_MESSAGE(!read.ok(), text);
  BOOST_CHECK_MESSAGE(std::string(read.status().message()).find(part) != std::string::npos,
                      read.status() << " lacks '" << part << "'");
  BOOST_CHECK(read.status().code() == absl::StatusCode::kInvalidArgument);
}

BOOST_AUTO_TEST_SUITE(choice_file)

BOOST_AUTO_TEST_CASE(there_and_back) {
  BOOST_CHECK_EQUAL(Text(),
                    "troupe tuning 1\nprocessor Some CPU 9000\nloops v4\nlibrary oneDNN 9.8.7 level 255\n"
                    "conv(n=1) library library=1234567.125\n"
                    "matmul(m=8,n=100,k=-1) own:rows:2 own=19.25 own:rows:2=11.5\nend\n");
  const auto read = FromText(kMachine, Text());
  BOOST_REQUIRE_MESSAGE(read.ok(), read.status());
  BOOST_REQUIRE_EQUAL(read->size(), 2);
  for (const auto& [problem, choice] : Choices()) {
    BOOST_CHECK_EQUAL(read->at(problem).way, choice.way);
    BOOST_CHECK(read->at(problem).times == choice.times);
  }
  const auto none = FromText(kMachine, ToText(kMachine, {}));
  BOOST_CHECK(none.ok() && none->empty());
}

BOOST_AUTO_TEST_CASE(this_machine_has_a_name) {
  const Machine& m = ThisMachine();
  BOOST_CHECK(!m.processor.empty() && m.processor.find('\n') == std::string::npos);
  BOOST_CHECK(m.loops[0] == 'v');
  BOOST_CHECK(m.library.starts_with("oneDNN "));
  BOOST_CHECK(FromText(m, ToText(m, Choices())).ok());
}

BOOST_AUTO_TEST_CASE(the_file_of_another_machine_is_not_used) {
  for (const Machine& other :
       {Machine{"Other CPU", kMachine.loops, kMachine.library}, Machine{kMachine.processor, "v3", kMachine.library},
        Machine{kMachine.processor, kMachine.loops, "oneDNN 3.0.0 level 255"}}) {
    const auto read = FromText(other, Text());
    BOOST_REQUIRE(!read.ok());
    BOOST_CHECK(read.status().code() == absl::StatusCode::kFailedPrecondition);
  }
  const auto read = FromText({"Other CPU", "v4", kMachine.library}, Text());
  BOOST_CHECK_EQUAL(std::string(read.status().message()),
                    "the choices were measured with processor 'Some CPU 9000', but this is 'Other CPU'");
}

BOOST_AUTO_TEST_CASE(an_error_names_the_line) {
  const std::string head = "troupe tuning 1\nprocessor Some CPU 9000\nloops v4\nlibrary oneDNN 9.8.7 level 255\n";
  const std::string good = "a(n=1) own own=1\n";
  CheckRefused("", "line 1: 'troupe tuning 1' must stand here, not ''");
  CheckRefused("troupe tuning 2\n", "line 1: ");
  CheckRefused("troupe tuning 1\ncpu x\n", "line 2: 'processor ...' must stand here");
  CheckRefused(head, "line 5: the text ends here without 'end'");
  CheckRefused(head + good, "line 6: the text ends here without 'end'");
  CheckRefused(head + good + "end", "line 6: the text ends here");
  CheckRefused(head + "end\nmore\n", "line 6: nothing may stand behind 'end'");
  CheckRefused(head + good + "a\n", "line 6: 'a' is no problem");
  CheckRefused(head + good + "\nend\n", "line 6: '' is no problem");
  CheckRefused(head + "a(n=1\n", "line 5: 'a(n=1' is no problem");
  CheckRefused(head + "a(n=1x)\n", "line 5: 'a(n=1x)' is no problem");
  CheckRefused(head + "a(n=1,)\n", "line 5: 'a(n=1,)' is no problem");
  CheckRefused(head + "a(n=99999999999999999999)\n", " is no problem");
  CheckRefused(head + "a(n=1)\n", "line 5: a problem, its way and the times of its ways must stand here");
  CheckRefused(head + "a(n=1) own\n", "line 5: a problem, its way and the times");
  CheckRefused(head + "a(n=1) Own own=1\n", "line 5: 'Own' is no way");
  for (const char* time :
       {"own", "own=", "own=x", "own=-1", "own=0", "own=nan", "own=inf", "own=1e300", "=1", "own=1 "})
    CheckRefused(head + "a(n=1) own " + time + "\nend\n", "is no time of a way");
  CheckRefused(head + "a(n=1) own library=1\n", "line 5: the chosen way 'own' has no time");
  CheckRefused(head + good + "b(n=1) own own=1\n" + good, "line 7: problem 'a(n=1)' stands here for the second time");
  BOOST_CHECK(FromText(kMachine, head + good + "end\n").ok());
}

BOOST_AUTO_TEST_CASE(a_part_of_a_file_is_refused) {
  const std::string text = Text();
  for (size_t n = 0; n < text.size(); ++n) BOOST_CHECK(!FromText(kMachine, text.substr(0, n)).ok());
}

BOOST_AUTO_TEST_CASE(too_many_problems_are_refused) {
  SavedChoices many;
  for (size_t i = 0; i <= kMostSaved; ++i) many[StrCat("a(n=", i, ")")] = {"own", {{"own", 1.0}}};
  CheckRefused(ToText(kMachine, many), StrCat("there are more than ", kMostSaved, " problems"));
  many.erase(many.begin());
  BOOST_CHECK(FromText(kMachine, ToText(kMachine, many)).ok());
}

// Whatever the bytes, the answer is choices that can be written again, or an error.
BOOST_AUTO_TEST_CASE(damaged_bytes) {
  std::mt19937 random(5);
  const std::string text = Text();
  for (int i = 0; i < 20000; ++i) {
    std::string damaged = text;
    for (int n = random() % 3; n >= 0; --n) {
      const size_t at = random() % damaged.size();
      switch (random() % 3) {
        case 0:
          damaged[at] = static_cast<char>(random());
          break;
        case 1:
          damaged.erase(at, 1 + random() % 20);
          break;
        default:
          damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 20));
      }
      if (damaged.empty()) damaged = "\n";
    }
    const auto read = FromText(kMachine, damaged);
    if (read.ok()) {
      BOOST_CHECK(FromText(kMachine, ToText(kMachine, *read)).ok());
    } else {
      BOOST_CHECK(!read.status().message().empty());
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace choice_file_test
}  // namespace troupe::tune
