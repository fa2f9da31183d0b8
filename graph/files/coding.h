// Numbers as bytes: little-endian of fixed width, and varints of seven bits a byte.
//
// The readers take what they read off the front of `in`, and are false (and `in` is anything) when
// it ends too early.
//
// Thread rule: pure functions.
#ifndef TROUPE_GRAPH_FILES_CODING_H_
#define TROUPE_GRAPH_FILES_CODING_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::files {

template <class T>
T LoadLittle(const char* from) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<uint8_t>(from[i])) << (8 * i);
  return value;
}
template <class T>
void StoreLittle(T value, char* to) {
  for (size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<char>(value >> (8 * i));
}
template <class T>
void PutLittle(T value, std::string* out) {
  char bytes[sizeof(T)];
  StoreLittle(value, bytes);
  out->append(bytes, sizeof(T));
}
inline void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 128; value >>= 7) out->push_back(static_cast<char>(value | 128));
  out->push_back(static_cast<char>(value));
}
inline bool GetVarint(std::string_view* in, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && !in->empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(in->front());
    in->remove_prefix(1);
    if (shift == 63 && byte > 1) return false;
    *value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

}  // namespace troupe::files

#endif  // TROUPE_GRAPH_FILES_CODING_H_
