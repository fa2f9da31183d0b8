// Names that a caller may have meant.
#include "graph/core/near_names.h"

#include <boost/test/unit_test.hpp>

namespace troupe {
namespace near_names_test {

std::vector<std::string> Near(std::string_view name, const std::vector<std::string>& candidates, size_t most = 3) {
  NearNames near(name);
  for (const std::string& c : candidates) near.Offer(c);
  return near.Best(most);
}

BOOST_AUTO_TEST_CASE(edit_distances) {
  const struct {
    const char *a, *b;
    size_t distance;
  } kCases[] = {{"", "", 0},         {"", "abc", 3},           {"loss", "loss", 0}, {"loss", "los", 1},
                {"loss", "lost", 1}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"ab", "ba", 2}};
  for (const auto& c : kCases) {
    BOOST_TEST(EditDistance(c.a, c.b) == c.distance, c.a << " " << c.b);
    BOOST_TEST(EditDistance(c.b, c.a) == c.distance, c.b << " " << c.a);
  }
}

BOOST_AUTO_TEST_CASE(names_end_alike_at_a_slash_only) {
  BOOST_TEST(EndAlike("layer/w", "w"));
  BOOST_TEST(EndAlike("w", "a/b/w"));
  BOOST_TEST(!EndAlike("layer/ww", "w"));
  BOOST_TEST(!EndAlike("w", "w"));
}

BOOST_AUTO_TEST_CASE(the_nearest_names_come_first) {
  const std::vector<std::string> names = {"accuracy", "losses", "model/loss", "loss_1", "lose", "loss_scale"};
  BOOST_TEST(Near("loss", names) == (std::vector<std::string>{"model/loss", "lose", "losses"}),
             boost::test_tools::per_element());
  BOOST_TEST(Near("losss_1", names, 1) == (std::vector<std::string>{"loss_1"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(short_and_unlike_names_are_not_near) {
  BOOST_TEST(Near("y", {"x", "yy"}).empty());
  BOOST_TEST(Near("why", {"y", "x"}).empty());
  BOOST_TEST(Near("", {"a"}).empty());
  BOOST_TEST(Near("abcdef", {"", "uvwxyz", "abc"}).empty());
}

// However many are offered, few are kept.
BOOST_AUTO_TEST_CASE(the_nearest_of_many_is_kept) {
  NearNames near("the_name_of_a_node");
  for (int i = 0; i < 10000; ++i) near.Offer("the_name_of_a_nod" + std::to_string(i % 10) + (i % 2 ? "x" : ""));
  near.Offer("the_name_of_a_nodes");
  near.Offer("scope/the_name_of_a_node");
  BOOST_TEST(near.Best(1).front() == "scope/the_name_of_a_node");
  BOOST_TEST(near.Best(1000).size() <= 100u);
}

}  // namespace near_names_test
}  // namespace troupe
