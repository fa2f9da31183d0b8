// Small pictures in ten classes, as records: Examples with the features "image/encoded" (a PNG of
// 32 x 32 pixels) and "image/class/label", as CIFAR-10 is often kept.
#ifndef TROUPE_EXAMPLES_CIFAR_RECORDS_H_
#define TROUPE_EXAMPLES_CIFAR_RECORDS_H_

#include <cstdint>
#include <string>

#include "troupe/status.h"

namespace cifar {

inline constexpr int64_t kSide = 32, kClasses = 10;
inline constexpr char kImage[] = "image/encoded", kLabel[] = "image/class/label";

// Draws `number` pictures of ten simple figures (a disc, a ring, a square, ...), of any colour,
// size and place, on a noisy ground, and writes their records.
absl::Status DrawRecords(const std::string& path, int64_t number, uint64_t seed);

}  // namespace cifar

#endif  // TROUPE_EXAMPLES_CIFAR_RECORDS_H_
