// Reads JSON into a tree whose values know their places, so that who finds something wrong in it
// can say where.
//
// Numbers are kept as they are written. A key that is there twice is an error, as is a depth of
// more than 32. Source of the format: RFC 8259. Thread rule: a pure function and plain values.
#ifndef TROUPE_NET_JSON_H_
#define TROUPE_NET_JSON_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/status.h"

namespace troupe {

struct JsonValue {
  enum class Kind : uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  int line = 1, column = 1;
  std::string text;                                        // of a string, number or bool
  std::vector<JsonValue> items;                            // of an array
  std::vector<std::pair<std::string, JsonValue>> members;  // of an object, in their order
  // Null when there is none.
  const JsonValue* Find(std::string_view key) const;
  // INVALID_ARGUMENT "line 1, column 7: <why>".
  absl::Status Wrong(std::string_view why) const;
};

absl::StatusOr<JsonValue> ParseJson(std::string_view text);

}  // namespace troupe

#endif  // TROUPE_NET_JSON_H_
