// Names that a caller may have meant instead of one that does not exist: "did you mean ...".
//
// Thread rule: pure functions; a NearNames belongs to one thread at a time.
#ifndef TROUPE_GRAPH_CORE_NEAR_NAMES_H_
#define TROUPE_GRAPH_CORE_NEAR_NAMES_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe {

// How many characters must be put in, taken out or replaced to make one of the other. The time is
// that of comparing each character of `a` with each of `b`.
size_t EditDistance(std::string_view a, std::string_view b);

// True when one name is the other within a scope: "layer/w" and "w".
bool EndAlike(std::string_view a, std::string_view b);

// The names nearest to one, of many that are offered. A name is near when it differs in its scope
// alone, or in at most 3 characters and a third of the longer name. Offering is cheap: the few
// characters in which two names differ are compared, and names that cannot be near are not.
class NearNames {
 public:
  // `name` must outlive the object.
  explicit NearNames(std::string_view name) : name_(name) {}
  void Offer(std::string_view candidate);
  // At most `most` of them, the nearest first, and of equally near ones those first that were
  // offered first.
  std::vector<std::string> Best(size_t most) const;

 private:
  static constexpr size_t kKept = 100;
  const std::string_view name_;
  std::vector<std::pair<size_t, std::string>> near_;  // by distance; at most kKept
};

}  // namespace troupe

#endif  // TROUPE_GRAPH_CORE_NEAR_NAMES_H_
