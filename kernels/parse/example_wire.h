// Reads the bytes of an Example or SequenceExample (proto/example.proto) in place: nothing is
// copied, and every damage has the offset at which it begins.
//
//   Example         { features: Features = 1 }
//   SequenceExample { context: Features = 1, feature_lists: FeatureLists = 2 }
//   Features        { feature: map<string, Feature> = 1 }
//   FeatureLists    { feature_list: map<string, FeatureList> = 1 }
//   FeatureList     { feature: repeated Feature = 1 }
//   Feature         { bytes_list: BytesList = 1 | float_list: FloatList = 2 | int64_list: Int64List = 3 }
//   each list       { value: repeated = 1 }                        numbers packed or one by one
//
// Fields with other numbers are passed over. What comes twice is merged, as protobuf defines it: of
// an entry with the same key the last counts, and so does the last of several kinds in a Feature,
// but lists of that kind which follow each other are one list. Only in an entry whose value stands
// in it twice, which nobody writes, the last value counts instead.
//
// Thread rule: plain values on bytes that must outlive them.
#ifndef TROUPE_KERNELS_PARSE_EXAMPLE_WIRE_H_
#define TROUPE_KERNELS_PARSE_EXAMPLE_WIRE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "troupe/dtype.h"

namespace troupe::parse {

// A part of a message: its bytes, and where they begin in the whole.
struct Part {
  std::string_view bytes;
  size_t offset = 0;
};

// Walks over the fields of a message.
class Fields {
 public:
  explicit Fields(const Part& message) : rest_(message.bytes), offset_(message.offset) {}
  // Goes to the next field. False at the end, and where the bytes are damaged.
  bool Next();
  bool damaged() const { return damaged_; }
  // Of the field, or of the damage.
  size_t offset() const { return field_offset_; }

  uint32_t number() const { return number_; }
  // The kind of its bytes.
  enum Kind : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  bool Is(uint32_t number, Kind kind) const { return number_ == number && kind_ == kind; }
  uint64_t varint() const { return varint_; }  // of kVarint
  const Part& part() const { return part_; }   // of the others: the bytes of the value

 private:
  bool Damaged() {
    damaged_ = true;
    return false;
  }
  std::string_view rest_;
  size_t offset_, field_offset_ = 0;
  uint32_t number_ = 0;
  Kind kind_ = kVarint;
  uint64_t varint_ = 0;
  Part part_;
  bool damaged_ = false;
};

// The values of a Feature: a list of one type, or none (kInvalid).
struct FeatureValues {
  DType type = DType::kInvalid;
  Part list;
  Part more;  // fields of the Feature, behind `list`, of which those of the same kind go on with it; mostly empty
};
// False when the Feature is damaged, at `*bad`.
bool ReadFeature(const Part& feature, FeatureValues* values, size_t* bad);

// Writes the first `room` values to `to` and returns how many there are in all; -1 when the list is
// damaged, at `*bad`. REQUIRES: values.type is T's.
template <class T>
int64_t ReadValues(const FeatureValues& values, T* to, int64_t room, size_t* bad);
// How many values there are, of whatever type; as above.
int64_t CountValues(const FeatureValues& values, size_t* bad);

// An entry of a map: its key and its value. False when it is damaged, at `*bad`.
bool ReadEntry(const Part& entry, std::string_view* key, Part* value, size_t* bad);

}  // namespace troupe::parse

#endif  // TROUPE_KERNELS_PARSE_EXAMPLE_WIRE_H_
