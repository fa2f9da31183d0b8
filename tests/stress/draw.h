// Numbers drawn from a seed: the same on every machine and at every repeat.
#ifndef TROUPE_TESTS_STRESS_DRAW_H_
#define TROUPE_TESTS_STRESS_DRAW_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace troupe::stress {

class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // Of [low, high].
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Next() % static_cast<uint64_t>(high - low + 1));
  }
  bool Chance(double p) { return static_cast<double>(Next() >> 11) * 0x1p-53 < p; }
  template <class T>
  T Of(std::initializer_list<T> values) {
    return values.begin()[Between(0, static_cast<int64_t>(values.size()) - 1)];
  }
  template <class C>
  auto& Of(C& values) {
    return values[static_cast<size_t>(Between(0, static_cast<int64_t>(values.size()) - 1))];
  }
  // Numbers of their own for a part, so that a change of one part leaves the others what they were.
  Draw Fork(uint64_t tag) const {
    Draw other(state_ ^ (tag * 0xd1342543de82ef95u + 0x2545f4914f6cdd1du));
    other.Next();
    return other;
  }

 private:
  uint64_t state_;
};

}  // namespace troupe::stress

#endif  // TROUPE_TESTS_STRESS_DRAW_H_
