// The hash functions by which TensorFlow puts texts into buckets. Buckets are written into trained
// models, so every bit is as there.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_PARSE_FARM_HASH_H_
#define TROUPE_KERNELS_PARSE_FARM_HASH_H_

#include <cstdint>
#include <string_view>

namespace troupe::parse {

// FarmHash's Fingerprint64.
uint64_t Fingerprint64(std::string_view text);
// MurmurHash64A with TensorFlow's seed.
uint64_t MurmurHash64(std::string_view text);
// SipHash-2-4.
uint64_t SipHash(uint64_t key0, uint64_t key1, std::string_view text);

}  // namespace troupe::parse

#endif  // TROUPE_KERNELS_PARSE_FARM_HASH_H_
