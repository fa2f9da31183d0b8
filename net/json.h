// Reads JSON into a tree whose values know their places, so that who finds something wrong in it
// can say where.
//
// Numbers are kept as they are written, strings as UTF-8. A key that is there twice is an error, as
// is a depth of more than 32. Source of the format: RFC 8259. Thread rule: a pure function and
// plain values.
#ifndef TROUPE_NET_JSON_H_
#define TROUPE_NET_JSON_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/status.h"

namespace troupe {

struct JsonValue {
  JsonValue();
  JsonValue(const JsonValue&);
  JsonValue(JsonValue&&) noexcept;
  JsonValue& operator=(const JsonValue&);
  JsonValue& operator=(JsonValue&&) noexcept;
  ~JsonValue();
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

// Reads a long text piece by piece, so that there is never a tree of the whole:
//
//   if (reader.Take('[') && !reader.Take(']')) {
//     do TROUPE_ASSIGN_OR_RETURN(JsonValue item, reader.Value());
//     while (reader.Take(','));
//   }
//
// `text` must outlive the reader, which is for one thread.
class JsonReader {
 public:
  // A value with more than so many values and keys in it is an error: each takes memory, also where
  // the text has a byte for it.
  explicit JsonReader(std::string_view text, size_t most_parts = std::numeric_limits<size_t>::max())
      : text_(text), most_parts_(most_parts) {}
  // Takes this sign if it is the next one that is no blank.
  bool Take(char c);
  bool AtEnd();
  absl::StatusOr<JsonValue> Value();
  // A string before a colon, with that.
  absl::StatusOr<std::string> Key();
  // INVALID_ARGUMENT with the place that was reached.
  absl::Status Here(std::string_view why);

 private:
  void Mark(JsonValue* value);
  void Skip();
  absl::Status Read(JsonValue* value, int depth);
  absl::Status Object(JsonValue* value, int depth);
  absl::Status Array(JsonValue* value, int depth);
  absl::Status Word(JsonValue* value);
  absl::Status String(std::string* out);
  absl::Status Unicode(std::string* out);
  template <class IsThere>
  absl::Status KeyOf(const IsThere& is_there, std::string* key);

  const std::string_view text_;
  const size_t most_parts_;
  size_t at_ = 0, parts_ = 0;
  // The place that was told last.
  size_t marked_ = 0, line_begin_ = 0;
  int line_ = 1;
};

}  // namespace troupe

#endif  // TROUPE_NET_JSON_H_
