// StaticRegexFullMatch: what fits, what is refused, and no pattern that takes for ever.
#include <boost/test/unit_test.hpp>

#include "troupe/evaluate.h"

namespace troupe {
namespace {

absl::StatusOr<bool> Fits(const std::string& pattern, const std::string& text) {
  const auto out = EvaluateOp("StaticRegexFullMatch", {Tensor::Scalar(text)}, {{"pattern", pattern}});
  if (!out.ok()) return out.status();
  return (*out)[0].scalar<bool>();
}

BOOST_AUTO_TEST_CASE(all_of_a_text_fits_a_pattern) {
  struct Row {
    const char *pattern, *fits, *fits_not;
  };
  for (const Row& r :
       {Row{"^s3://.*", "s3://bucket/x", "/s3://"}, Row{"", "", "a"}, Row{"a*", "aaa", "aab"}, Row{"a+b?", "aab", "b"},
        Row{"(ab|cd)*", "abcdab", "abc"}, Row{"(?:a|)b", "b", "aab"}, Row{"[a-c]+[^x-z]", "abcd", "abcx"},
        Row{"[]x]", "]", "a"}, Row{"a\\.b", "a.b", "axb"}, Row{"a.b", "axb", "a\nb"}, Row{"(a|b$)*", "aab", "aba"},
        Row{"x^a", "xa?", "xa"}, Row{"[-a]*", "-a-", "b"}, Row{"(a?)*", "aaaa", "b"}}) {
    if (std::string_view(r.pattern) != "x^a") BOOST_TEST(Fits(r.pattern, r.fits).value(), r.pattern);
    BOOST_TEST(!Fits(r.pattern, r.fits_not).value(), r.pattern);
  }
}

BOOST_AUTO_TEST_CASE(other_patterns_are_refused) {
  for (const char* bad : {"(", ")", "a)", "*", "[a", "[b-a]", "a{2}", "\\d", "\\", "(?i)a", "[[:alpha:]]"}) {
    const auto s = Fits(bad, "a").status();
    BOOST_TEST(absl::IsInvalidArgument(s), bad << ": " << s);
  }
  BOOST_TEST(absl::IsInvalidArgument(Fits(std::string(2000, 'a'), "a").status()));
  BOOST_TEST(absl::IsInvalidArgument(Fits(std::string(500, '(') + std::string(500, ')'), "a").status()));
}

// Backtracking takes 2^30 steps here.
BOOST_AUTO_TEST_CASE(time_does_not_explode) {
  std::string pattern;
  for (int i = 0; i < 30; ++i) pattern += "a?";
  BOOST_TEST(Fits(pattern + std::string(30, 'a'), std::string(30, 'a')).value());
  BOOST_TEST(!Fits("((a*)*)*b", std::string(10'000, 'a')).value());
}

}  // namespace
}  // namespace troupe
