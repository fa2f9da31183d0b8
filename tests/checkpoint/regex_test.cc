// Regular expressions: what fits, what is refused, and no pattern that takes for ever.
#include <boost/test/unit_test.hpp>

#include "troupe/emit.h"
#include "troupe/evaluate.h"
#include "troupe/session.h"

namespace troupe {
namespace regex_test {

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

BOOST_AUTO_TEST_CASE(wrong_patterns_are_refused) {
  for (const char* bad : {"(", ")", "a)", "*", "[a", "[b-a]", "a{2000}", "\\y", "\\", "(?y)a", "[[:alph:]]"}) {
    const auto s = Fits(bad, "a").status();
    BOOST_TEST(absl::IsInvalidArgument(s), bad << ": " << s);
  }
  BOOST_TEST(absl::IsInvalidArgument(Fits("((a{100}){100}){100}", "a").status()));
}

BOOST_AUTO_TEST_CASE(a_pattern_that_is_an_input_may_change) {
  const Scope s = Scope::NewRootScope();
  std::vector<Output> fed;
  for (const char* name : {"text", "pattern", "rewrite"})
    fed.push_back(EmitOp(s.WithOpName(name), "Placeholder", {}, {{"dtype", DType::kString}}).output(0));
  EmitOp(s.WithOpName("replaced"), "RegexReplace", {fed[0], fed[1], fed[2]});
  EmitOp(s.WithOpName("fits"), "RegexFullMatch", {fed[0], fed[1]});
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status());
  const auto session = Session::Create();
  BOOST_REQUIRE_MESSAGE(session.ok(), session.status());
  const absl::Status extended = (*session)->Extend(*s.graph());
  BOOST_REQUIRE_MESSAGE(extended.ok(), extended);
  std::vector<Tensor> out;
  const auto run = [&](const char* pattern, const char* rewrite) {
    return (*session)->Run({{"text", Tensor::Scalar(std::string("banana"))},
                            {"pattern", Tensor::Scalar(std::string(pattern))},
                            {"rewrite", Tensor::Scalar(std::string(rewrite))}},
                           {"replaced:0", "fits:0"}, {}, &out);
  };
  for (int i = 0; i < 2; ++i) {
    BOOST_REQUIRE(run("an", "[\\0]").ok());
    BOOST_TEST(out[0].scalar<std::string>() == "b[an][an]a");
    BOOST_TEST(!out[1].scalar<bool>());
    BOOST_REQUIRE(run("(.*)n(.)", "\\2\\1").ok());
    BOOST_TEST(out[0].scalar<std::string>() == "abana");
    BOOST_TEST(out[1].scalar<bool>());
    const absl::Status bad = run("(", "");
    BOOST_TEST(absl::IsInvalidArgument(bad), bad);
    const absl::Status none = run("a", "\\1");
    BOOST_TEST(absl::IsInvalidArgument(none), none);
  }
}

// Backtracking takes 2^30 steps here.
BOOST_AUTO_TEST_CASE(time_does_not_explode) {
  std::string pattern;
  for (int i = 0; i < 30; ++i) pattern += "a?";
  BOOST_TEST(Fits(pattern + std::string(30, 'a'), std::string(30, 'a')).value());
  BOOST_TEST(!Fits("((a*)*)*b", std::string(10'000, 'a')).value());
}

}  // namespace regex_test
}  // namespace troupe
