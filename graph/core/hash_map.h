// Hash maps and sets that a failed allocation leaves as they were.
//
// Problem: absl's flat_hash_map notes an entry before it makes it, and its new size before it has
// the memory for it. An insertion that finds no memory leaves a broken table, and whoever looks
// into it next, or destroys it, writes over the heap. Steps, compiles and imports go on after they
// ran out of memory, so no table that they fill may be absl's.
//
// Contract: those of the standard library, whose insertion of one entry throws std::bad_alloc and
// does nothing, with absl's hash functions. Entries stay where they are while others come and go.
// Maps by std::string find a std::string_view without a copy. No `reserve` on one that grows: it
// would be built anew for each entry.
//
// Thread rule: that of the standard library's containers.
#ifndef TROUPE_GRAPH_CORE_HASH_MAP_H_
#define TROUPE_GRAPH_CORE_HASH_MAP_H_

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "absl/hash/hash.h"

namespace troupe {

template <class K>
struct HashOf : absl::Hash<K> {};
template <>
struct HashOf<std::string> {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return absl::Hash<std::string_view>()(text); }
};
template <>
struct HashOf<std::string_view> : HashOf<std::string> {};

template <class K, class V>
using HashMap = std::unordered_map<K, V, HashOf<K>, std::equal_to<>>;
template <class K>
using HashSet = std::unordered_set<K, HashOf<K>, std::equal_to<>>;

}  // namespace troupe

#endif  // TROUPE_GRAPH_CORE_HASH_MAP_H_
