// Damaged copies of a file: cut off, with bits flipped, bytes replaced, pieces taken out, put in or
// moved.
#ifndef TROUPE_TESTS_FILES_DAMAGE_H_
#define TROUPE_TESTS_FILES_DAMAGE_H_

#include <algorithm>
#include <random>
#include <string>

namespace troupe::testing {

// Calls f(bytes) with `times` copies that differ from `good`; the same ones in each run.
template <class F>
void ForDamaged(const std::string& good, int times, F&& f) {
  std::mt19937_64 draw(20260114);
  const auto below = [&](size_t n) { return n == 0 ? size_t{0} : static_cast<size_t>(draw() % n); };
  for (int i = 0; i < times; ++i) {
    std::string bytes = good;
    const int changes = 1 + static_cast<int>(below(3));
    for (int k = 0; k < changes && !bytes.empty(); ++k) {
      const size_t at = below(bytes.size());
      switch (below(6)) {
        case 0:
          bytes.resize(at);
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
          break;
        case 2:
          bytes[at] = static_cast<char>(draw());
          break;
        case 3:
          bytes.erase(at, 1 + below(16));
          break;
        case 4:
          bytes.insert(at, std::string(1 + below(16), static_cast<char>(draw())));
          break;
        default:
          bytes.replace(at, std::min<size_t>(8, bytes.size() - at), bytes.substr(below(bytes.size()), 8));
      }
    }
    if (bytes != good) f(bytes);
  }
}

}  // namespace troupe::testing

#endif  // TROUPE_TESTS_FILES_DAMAGE_H_
