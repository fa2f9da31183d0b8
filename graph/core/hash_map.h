// Hash maps and sets that a failed allocation leaves as they were.
//
// Problem: absl's flat_hash_map notes an entry before it makes it, and its new size before it has
// the memory for it. An insertion that finds no memory leaves a broken table, and whoever looks
// into it next, or destroys it, writes over the heap. Steps, compiles and imports go on after they
// ran out of memory, so no table that they fill may be absl's. std::unordered_map has the
// guarantee, but an allocation for each entry, and entries that lie apart.
//
// Entries lie one after the other in a vector, in the order in which they came; a HashIndex finds
// them. Few of them are just looked through. What a loop over a table does depends on no hash and
// no address.
//
// Contract: an insertion that finds no memory throws std::bad_alloc and does nothing; erasing takes
// no memory. Insertion and erasing move entries: no pointer, reference or iterator stays valid. The
// last entry takes the place of one that is erased, so that `it = map.erase(it)` goes on with an
// entry that was not visited yet. Keys must not be changed. Maps by std::string find a
// std::string_view without a copy.
//
// Thread rule: that of the standard library's containers.
#ifndef TROUPE_GRAPH_CORE_HASH_MAP_H_
#define TROUPE_GRAPH_CORE_HASH_MAP_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"

namespace troupe {

// Finds the numbers of entries, which somebody else keeps, by their hashes: open addressing with
// linear probes and without marks of what was erased.
class HashIndex {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};

  // The entry of this hash for which same(entry) holds; kNone without one.
  template <class F>
  uint32_t Find(uint32_t hash, F same) const {
    if (slots_.empty()) return kNone;
    for (size_t i = hash & Mask(); slots_[i].entry != kNone; i = (i + 1) & Mask()) {
      if (slots_[i].hash == hash && same(slots_[i].entry)) return slots_[i].entry;
    }
    return kNone;
  }
  // Makes room for `count` entries in all. Throws std::bad_alloc, and then nothing has changed.
  void Reserve(size_t count) {
    if (count <= slots_.size() / 4 * 3) return;
    if (count >= kNone / 2) throw std::bad_alloc();
    std::vector<Slot> more(std::bit_ceil(std::max<size_t>(kFewest, count + count / 2)));
    more.swap(slots_);
    for (const Slot& s : more) {
      if (s.entry != kNone) Add(s.hash, s.entry);
    }
  }
  // REQUIRES: room for it, and that it is not in the index.
  void Add(uint32_t hash, uint32_t entry) noexcept {
    size_t i = hash & Mask();
    while (slots_[i].entry != kNone) i = (i + 1) & Mask();
    slots_[i] = {hash, entry};
  }
  // REQUIRES: `from` is in the index, by this hash.
  void Renumber(uint32_t hash, uint32_t from, uint32_t to) noexcept { slots_[SlotOf(hash, from)].entry = to; }
  // REQUIRES: as Renumber.
  void Remove(uint32_t hash, uint32_t entry) noexcept {
    size_t hole = SlotOf(hash, entry);
    // What stands behind the hole moves up, unless it would come to stand before its own place.
    for (size_t i = (hole + 1) & Mask(); slots_[i].entry != kNone; i = (i + 1) & Mask()) {
      if (((i - slots_[i].hash) & Mask()) < ((i - hole) & Mask())) continue;
      slots_[hole] = slots_[i];
      hole = i;
    }
    slots_[hole] = Slot();
  }
  void Clear() noexcept { std::fill(slots_.begin(), slots_.end(), Slot()); }
  bool has_room() const { return !slots_.empty(); }

 private:
  static constexpr size_t kFewest = 16;
  struct Slot {
    uint32_t hash = 0, entry = kNone;
  };
  size_t Mask() const { return slots_.size() - 1; }
  size_t SlotOf(uint32_t hash, uint32_t entry) const {
    size_t i = hash & Mask();
    while (slots_[i].entry != entry) i = (i + 1) & Mask();
    return i;
  }

  std::vector<Slot> slots_;  // a power of two, or none
};

// What HashMap and HashSet have in common. Entry: K, or a pair of it and a value.
template <class K, class Entry>
class HashTable {
 public:
  using key_type = K;
  using value_type = Entry;
  using const_iterator = typename std::vector<Entry>::const_iterator;
  using iterator = std::conditional_t<std::is_same_v<K, Entry>, const_iterator, typename std::vector<Entry>::iterator>;
  // How keys are asked for.
  using Key = std::conditional_t<std::is_same_v<K, std::string>, std::string_view, const K&>;

  HashTable() = default;
  HashTable(const HashTable&) = default;
  HashTable(HashTable&&) = default;
  HashTable& operator=(HashTable other) noexcept {
    swap(other);
    return *this;
  }
  void swap(HashTable& other) noexcept {
    entries_.swap(other.entries_);
    std::swap(index_, other.index_);
  }

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  iterator begin() { return entries_.begin(); }
  iterator end() { return entries_.end(); }
  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }

  iterator find(Key key) { return begin() + Position(key); }
  const_iterator find(Key key) const { return begin() + Position(key); }
  bool contains(Key key) const { return find(key) != end(); }

  // Returns where the next entry is now.
  iterator erase(const_iterator it) {
    const size_t at = static_cast<size_t>(it - entries_.cbegin());
    const size_t last = entries_.size() - 1;
    if (index_.has_room()) {
      index_.Remove(Hash(KeyOf(entries_[at])), static_cast<uint32_t>(at));
      if (at != last)
        index_.Renumber(Hash(KeyOf(entries_[last])), static_cast<uint32_t>(last), static_cast<uint32_t>(at));
    }
    if (at != last) {
      std::destroy_at(&entries_[at]);
      std::construct_at(&entries_[at], std::move(entries_[last]));
    }
    entries_.pop_back();
    return begin() + static_cast<ptrdiff_t>(at);
  }
  size_t erase(Key key) {
    const const_iterator it = find(key);
    if (it == end()) return 0;
    erase(it);
    return 1;
  }
  void clear() noexcept {
    index_.Clear();
    entries_.clear();
  }
  // Room for so many entries in all; a table that grows by a few and reserves each time is not
  // built anew each time.
  void reserve(size_t count) {
    if (count > entries_.capacity()) entries_.reserve(std::max(count, 2 * entries_.capacity()));
    if (count > kLookedThrough) FillIndex(count);
  }

 protected:
  // `made...` makes the entry, unless there is one of that key.
  template <class... Args>
  std::pair<iterator, bool> Add(Key key, Args&&... made) {
    static_assert(std::is_nothrow_move_constructible_v<Entry>, "growing must not fail half way");
    const bool indexed = index_.has_room() || entries_.size() >= kLookedThrough;
    const uint32_t hash = indexed ? Hash(key) : 0;  // now: `key` may be moved from
    const size_t at = index_.has_room() ? Indexed(hash, key) : LookedThrough(key);
    if (at != entries_.size()) return {begin() + static_cast<ptrdiff_t>(at), false};
    if (indexed) FillIndex(entries_.size() + 1);
    if (entries_.capacity() == 0) entries_.reserve(kFirst);
    entries_.emplace_back(std::forward<Args>(made)...);
    if (indexed) index_.Add(hash, static_cast<uint32_t>(entries_.size() - 1));
    return {end() - 1, true};
  }

 private:
  static constexpr size_t kFirst = 4, kLookedThrough = 8;

  static const K& KeyOf(const Entry& e) {
    if constexpr (std::is_same_v<K, Entry>) {
      return e;
    } else {
      return e.first;
    }
  }
  // absl knows no std::string_view, and would take the standard library's hash for it, which is the
  // same in each process: whoever writes a file could choose names of one hash.
  static uint32_t Hash(Key key) {
    if constexpr (std::is_same_v<std::decay_t<Key>, std::string_view>) {
      return static_cast<uint32_t>(absl::HashOf(absl::string_view(key.data(), key.size())));
    } else {
      return static_cast<uint32_t>(absl::Hash<std::decay_t<Key>>()(key));
    }
  }
  // Where the entry is; size() without one.
  ptrdiff_t Position(Key key) const {
    return static_cast<ptrdiff_t>(index_.has_room() ? Indexed(Hash(key), key) : LookedThrough(key));
  }
  size_t Indexed(uint32_t hash, Key key) const {
    const uint32_t at = index_.Find(hash, [&](uint32_t i) { return KeyOf(entries_[i]) == key; });
    return at == HashIndex::kNone ? entries_.size() : at;
  }
  size_t LookedThrough(Key key) const {
    size_t i = 0;
    while (i < entries_.size() && !(KeyOf(entries_[i]) == key)) ++i;
    return i;
  }
  void FillIndex(size_t room) {
    const bool first = !index_.has_room();
    index_.Reserve(room);
    for (size_t i = 0; first && i < entries_.size(); ++i)
      index_.Add(Hash(KeyOf(entries_[i])), static_cast<uint32_t>(i));
  }

  std::vector<Entry> entries_;
  HashIndex index_;  // without room: there are few entries
};

template <class K, class V>
class HashMap : public HashTable<K, std::pair<K, V>> {
  using Base = HashTable<K, std::pair<K, V>>;

 public:
  using mapped_type = V;
  using typename Base::iterator;
  using typename Base::Key;
  using typename Base::value_type;
  HashMap() = default;
  HashMap(std::initializer_list<value_type> entries) {
    for (const value_type& e : entries) try_emplace(e.first, e.second);
  }

  template <class Given = K, class... Args>
  std::pair<iterator, bool> try_emplace(Given&& key, Args&&... value) {
    return Base::Add(key, std::piecewise_construct, std::forward_as_tuple(std::forward<Given>(key)),
                     std::forward_as_tuple(std::forward<Args>(value)...));
  }
  template <class Given = K, class Value = V>
  std::pair<iterator, bool> emplace(Given&& key, Value&& value) {
    return try_emplace(std::forward<Given>(key), std::forward<Value>(value));
  }
  template <class Given = K>
  V& operator[](Given&& key) {
    return try_emplace(std::forward<Given>(key)).first->second;
  }
  V& at(Key key) { return At(this, key); }
  const V& at(Key key) const { return At(this, key); }

 private:
  template <class Map>
  static auto& At(Map* map, Key key) {
    const auto it = map->find(key);
    if (it == map->end()) throw std::out_of_range("the map has no such key");
    return it->second;
  }
};

template <class K>
class HashSet : public HashTable<K, K> {
  using Base = HashTable<K, K>;

 public:
  using typename Base::iterator;
  HashSet() = default;
  HashSet(std::initializer_list<K> entries) { insert(entries.begin(), entries.end()); }

  template <class Given = K>
  std::pair<iterator, bool> insert(Given&& key) {
    return Base::Add(key, std::forward<Given>(key));
  }
  template <class Given = K>
  std::pair<iterator, bool> emplace(Given&& key) {
    return insert(std::forward<Given>(key));
  }
  template <class It>
  void insert(It first, It last) {
    for (; first != last; ++first) insert(*first);
  }
};

}  // namespace troupe

#endif  // TROUPE_GRAPH_CORE_HASH_MAP_H_
