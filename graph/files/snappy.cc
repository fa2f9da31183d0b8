// A block is the length of the plain bytes, as a varint, then elements. The two low bits of an
// element's first byte, t, say what it is:
//
//   0  literal: t >> 2 is its length - 1; 60 to 63: the length - 1 is in the next 1 to 4 bytes
//   1  copy of 4 + (t >> 2 & 7) bytes from (t >> 5) << 8 | next byte back
//   2  copy of 1 + (t >> 2) bytes, from as far back as the next two bytes say
//   3  copy of 1 + (t >> 2) bytes, from as far back as the next four bytes say
#include "graph/files/snappy.h"

#include <algorithm>

#include "graph/files/coding.h"

namespace troupe::files {

absl::StatusOr<std::string> Unsnappy(std::string_view block) {
  const auto bad = [](const char* why) { return DataLoss("a damaged Snappy block: ", why); };
  std::string_view in = block;
  uint64_t size;
  if (!GetVarint(&in, &size)) return bad("it has no length");
  // The best element gives 64 bytes for 3.
  if (size > 22 * static_cast<uint64_t>(in.size())) return bad("its length is more than it can hold");
  std::string out;
  out.reserve(static_cast<size_t>(size));
  while (!in.empty()) {
    const auto tag = static_cast<uint8_t>(in.front());
    in.remove_prefix(1);
    const unsigned upper = tag >> 2;
    if ((tag & 3) == 0) {
      uint64_t length = upper + 1;
      if (upper >= 60) {
        const size_t bytes = upper - 59;
        if (in.size() < bytes) return bad("it ends within an element");
        length = 0;
        for (size_t i = 0; i < bytes; ++i) length |= static_cast<uint64_t>(static_cast<uint8_t>(in[i])) << (8 * i);
        ++length;
        in.remove_prefix(bytes);
      }
      if (length > in.size()) return bad("it ends within a literal");
      if (length > size - out.size()) return bad("it is longer than it says");
      out.append(in.substr(0, static_cast<size_t>(length)));
      in.remove_prefix(static_cast<size_t>(length));
      continue;
    }
    const size_t bytes = (tag & 3) == 3 ? 4 : tag & 3;
    if (in.size() < bytes) return bad("it ends within an element");
    uint64_t back = 0;
    for (size_t i = 0; i < bytes; ++i) back |= static_cast<uint64_t>(static_cast<uint8_t>(in[i])) << (8 * i);
    in.remove_prefix(bytes);
    size_t length = upper + 1;
    if (bytes == 1) {
      back |= static_cast<uint64_t>(tag >> 5) << 8;
      length = 4 + (upper & 7);
    }
    if (back == 0 || back > out.size()) return bad("it copies from before its begin");
    if (length > size - out.size()) return bad("it is longer than it says");
    // What is copied may overlap what it becomes.
    for (size_t i = 0; i < length; ++i) out.push_back(out[out.size() - static_cast<size_t>(back)]);
  }
  if (out.size() != size) return bad("it is shorter than it says");
  return out;
}

}  // namespace troupe::files
