#include "kernels/parse/example_wire.h"

#include <algorithm>
#include <cstring>

namespace troupe::parse {
namespace {

// Takes a varint off the front. False when it does not end, or has more than ten bytes.
inline bool TakeVarint(std::string_view* from, uint64_t* value) {
  const size_t most = std::min<size_t>(from->size(), 10);
  uint64_t v = 0;
  for (size_t i = 0; i < most; ++i) {
    const auto byte = static_cast<uint8_t>((*from)[i]);
    v |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      from->remove_prefix(i + 1);
      *value = v;
      return true;
    }
  }
  return false;
}

// The values of a packed list.
template <class T>
int64_t ReadPacked(const Part& packed, T* to, int64_t room, size_t* bad) {
  const std::string_view bytes = packed.bytes;
  if constexpr (std::is_same_v<T, float>) {
    if (bytes.size() % 4 != 0) {
      *bad = packed.offset + bytes.size() / 4 * 4;
      return -1;
    }
    const auto n = static_cast<int64_t>(bytes.size() / 4);
    if (room > 0) std::memcpy(to, bytes.data(), static_cast<size_t>(std::min(n, room)) * 4);
    return n;
  } else {
    std::string_view rest = bytes;
    int64_t n = 0;
    while (!rest.empty()) {
      uint64_t v = 0;
      if (!TakeVarint(&rest, &v)) {
        *bad = packed.offset + (bytes.size() - rest.size());
        return -1;
      }
      if (n < room) to[n] = static_cast<T>(v);
      ++n;
    }
    return n;
  }
}

}  // namespace

bool Fields::Next() {
  field_offset_ = offset_;
  if (rest_.empty()) return false;
  const size_t before = rest_.size();
  uint64_t tag = 0;
  if (!TakeVarint(&rest_, &tag) || tag > 0xffffffff || (tag >> 3) == 0) return Damaged();
  number_ = static_cast<uint32_t>(tag >> 3);
  uint64_t length = 0;
  switch (tag & 7) {
    case kVarint:
      kind_ = kVarint;
      if (!TakeVarint(&rest_, &varint_)) return Damaged();
      break;
    case kFixed64:
      kind_ = kFixed64;
      length = 8;
      break;
    case kBytes:
      kind_ = kBytes;
      if (!TakeVarint(&rest_, &length)) return Damaged();
      break;
    case kFixed32:
      kind_ = kFixed32;
      length = 4;
      break;
    default:
      return Damaged();
  }
  if (length > rest_.size()) return Damaged();
  part_ = {rest_.substr(0, length), offset_ + (before - rest_.size())};
  rest_.remove_prefix(length);
  offset_ += before - rest_.size();
  return true;
}

namespace {

// The field of a Feature that has the list of this type.
uint32_t NumberOf(DType type) { return type == DType::kString ? 1 : type == DType::kFloat ? 2 : 3; }

}  // namespace

bool ReadFeature(const Part& feature, FeatureValues* values, size_t* bad) {
  *values = FeatureValues();
  Fields fields(feature);
  while (fields.Next()) {
    DType type = DType::kInvalid;
    for (const DType t : {DType::kString, DType::kFloat, DType::kInt64}) {
      if (fields.Is(NumberOf(t), Fields::kBytes)) type = t;
    }
    if (type == DType::kInvalid) continue;
    if (type != values->type) {
      *values = {type, fields.part(), {}};
    } else if (values->more.bytes.empty()) {
      const size_t at = fields.offset();
      values->more = {feature.bytes.substr(at - feature.offset), at};
    }
  }
  *bad = fields.offset();
  return !fields.damaged();
}

namespace {

template <class T>
int64_t ReadList(const Part& list, T* to, int64_t room, size_t* bad) {
  Fields fields(list);
  int64_t n = 0;
  while (fields.Next()) {
    if (fields.number() != 1) continue;
    if constexpr (std::is_same_v<T, std::string>) {
      if (!fields.Is(1, Fields::kBytes)) continue;
      if (n < room) to[n].assign(fields.part().bytes);
      ++n;
    } else {
      if (fields.Is(1, Fields::kBytes)) {
        const int64_t more = ReadPacked<T>(fields.part(), n < room ? to + n : to, std::max<int64_t>(room - n, 0), bad);
        if (more < 0) return -1;
        n += more;
      } else if (std::is_same_v<T, float> && fields.Is(1, Fields::kFixed32)) {
        if (n < room) std::memcpy(to + n, fields.part().bytes.data(), 4);
        ++n;
      } else if (std::is_same_v<T, int64_t> && fields.Is(1, Fields::kVarint)) {
        if (n < room) to[n] = static_cast<T>(fields.varint());
        ++n;
      }
    }
  }
  if (fields.damaged()) {
    *bad = fields.offset();
    return -1;
  }
  return n;
}

}  // namespace

template <class T>
int64_t ReadValues(const FeatureValues& values, T* to, int64_t room, size_t* bad) {
  int64_t n = ReadList(values.list, to, room, bad);
  if (values.more.bytes.empty()) [[likely]]
    return n;
  Fields fields(values.more);
  while (n >= 0 && fields.Next()) {
    if (!fields.Is(NumberOf(values.type), Fields::kBytes)) continue;
    const int64_t next = ReadList(fields.part(), n < room ? to + n : to, std::max<int64_t>(room - n, 0), bad);
    n = next < 0 ? next : n + next;
  }
  return n;
}
template int64_t ReadValues(const FeatureValues&, float*, int64_t, size_t*);
template int64_t ReadValues(const FeatureValues&, int64_t*, int64_t, size_t*);
template int64_t ReadValues(const FeatureValues&, std::string*, int64_t, size_t*);

int64_t CountValues(const FeatureValues& values, size_t* bad) {
  switch (values.type) {
    case DType::kFloat:
      return ReadValues<float>(values, nullptr, 0, bad);
    case DType::kInt64:
      return ReadValues<int64_t>(values, nullptr, 0, bad);
    case DType::kString:
      return ReadValues<std::string>(values, nullptr, 0, bad);
    default:
      return 0;
  }
}

bool ReadEntry(const Part& entry, std::string_view* key, Part* value, size_t* bad) {
  *key = {};
  *value = {{}, entry.offset};
  Fields fields(entry);
  while (fields.Next()) {
    if (fields.Is(1, Fields::kBytes)) *key = fields.part().bytes;
    if (fields.Is(2, Fields::kBytes)) *value = fields.part();
  }
  *bad = fields.offset();
  return !fields.damaged();
}

}  // namespace troupe::parse
