// The index of rows against std::map, with hashes that collide.
#include "kernels/common/row_index.h"

#include <boost/test/unit_test.hpp>
#include <map>
#include <random>

namespace troupe {
namespace row_index_test {

BOOST_AUTO_TEST_SUITE(row_index)

BOOST_AUTO_TEST_CASE(rows_are_found_as_in_a_map) {
  for (const uint64_t hashes : {1, 7, 64, 100000}) {
    std::mt19937_64 random(hashes);
    std::map<int64_t, int64_t> oracle;  // row of each key
    std::map<int64_t, int64_t> key_of;
    RowIndex index;
    int64_t next = 0;
    const auto hash = [&](int64_t key) { return static_cast<size_t>(key) % hashes * 0x9E3779B97F4A7C15; };
    const auto find = [&](int64_t key) {
      return index.Find(hash(key), [&](int64_t row) { return key_of.at(row) == key; });
    };
    for (int i = 0; i < 4000; ++i) {
      const auto key = static_cast<int64_t>(random() % 300);
      const auto it = oracle.find(key);
      BOOST_REQUIRE(find(key) == (it == oracle.end() ? -1 : it->second));
      if (it == oracle.end()) {
        index.Reserve(1);
        key_of[next] = key;
        index.Insert(hash(key), next);
        oracle[key] = next++;
      } else if (random() % 2 == 0) {
        index.Erase(hash(key), it->second);
        key_of.erase(it->second);
        oracle.erase(it);
      } else {
        key_of[next] = key;
        index.Renumber(hash(key), it->second, next);
        key_of.erase(it->second);
        it->second = next++;
      }
      BOOST_REQUIRE(index.size() == oracle.size());
    }
    for (int64_t key = 0; key < 300; ++key) {
      const auto it = oracle.find(key);
      BOOST_TEST(find(key) == (it == oracle.end() ? -1 : it->second));
    }
    index.Clear();
    BOOST_TEST(find(0) == -1);
    BOOST_TEST(index.size() == 0u);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace row_index_test
}  // namespace troupe
