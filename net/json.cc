#include "net/json.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace troupe {

// Here the type of its members is complete: clang needs that for what a header defaults.
JsonValue::JsonValue() = default;
JsonValue::JsonValue(const JsonValue&) = default;
JsonValue::JsonValue(JsonValue&&) noexcept = default;
JsonValue& JsonValue::operator=(const JsonValue&) = default;
JsonValue& JsonValue::operator=(JsonValue&&) noexcept = default;
JsonValue::~JsonValue() = default;
namespace {

constexpr int kMostDepth = 32;
// Of so many keys each is compared with all others; of more, a set is kept.
constexpr size_t kFewKeys = 16;

// Of the four digits that `text` begins with; -1 when it does not.
int HexValue(std::string_view text) {
  if (text.size() < 4) return -1;
  int value = 0;
  for (const char c : text.substr(0, 4)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

void AppendUtf8(uint32_t c, std::string* out) {
  const auto more = [&](int shift) { out->push_back(static_cast<char>(0x80 | ((c >> shift) & 0x3f))); };
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xc0 | (c >> 6)));
    more(0);
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xe0 | (c >> 12)));
    more(6), more(0);
  } else {
    out->push_back(static_cast<char>(0xf0 | (c >> 18)));
    more(12), more(6), more(0);
  }
}

}  // namespace

absl::Status JsonReader::Here(std::string_view why) {
  JsonValue place;
  Mark(&place);
  return place.Wrong(why);
}

void JsonReader::Mark(JsonValue* value) {
  if (at_ < marked_) marked_ = line_begin_ = 0, line_ = 1;
  for (; marked_ < at_; ++marked_) {
    if (text_[marked_] == '\n') ++line_, line_begin_ = marked_ + 1;
  }
  value->line = line_;
  value->column = static_cast<int>(at_ - line_begin_) + 1;
}

void JsonReader::Skip() {
  while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) != nullptr && text_[at_] != '\0') ++at_;
}

bool JsonReader::Take(char c) {
  Skip();
  if (at_ == text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

bool JsonReader::AtEnd() {
  Skip();
  return at_ == text_.size();
}

absl::StatusOr<JsonValue> JsonReader::Value() {
  JsonValue value;
  parts_ = 0;
  TROUPE_RETURN_IF_ERROR(Read(&value, 0));
  return value;
}

absl::StatusOr<std::string> JsonReader::Key() {
  std::string key;
  TROUPE_RETURN_IF_ERROR(KeyOf([](const std::string&) { return false; }, &key));
  return key;
}

absl::Status JsonReader::Read(JsonValue* value, int depth) {
  Skip();
  Mark(value);
  if (depth > kMostDepth) return Here("values are nested too deep");
  if (++parts_ > most_parts_) return Here(StrCat("a value has more than ", most_parts_, " parts"));
  if (at_ == text_.size()) return Here("a value is missing");
  switch (text_[at_]) {
    case '{':
      return Object(value, depth);
    case '[':
      return Array(value, depth);
    case '"':
      value->kind = JsonValue::Kind::kString;
      return String(&value->text);
    default:
      return Word(value);
  }
}

template <class IsThere>
absl::Status JsonReader::KeyOf(const IsThere& is_there, std::string* key) {
  Skip();
  if (at_ == text_.size() || text_[at_] != '"') return Here("a key in quotes is missing");
  const size_t key_at = at_;
  TROUPE_RETURN_IF_ERROR(String(key));
  if (is_there(*key)) {
    at_ = key_at;
    return Here(StrCat("the key '", CEscape(*key), "' is given twice"));
  }
  return Take(':') ? absl::OkStatus() : Here("':' is missing");
}

absl::Status JsonReader::Object(JsonValue* value, int depth) {
  value->kind = JsonValue::Kind::kObject;
  ++at_;
  if (Take('}')) return absl::OkStatus();
  std::set<std::string> keys;
  const auto is_there = [&](const std::string& key) {
    if (value->members.size() < kFewKeys) return value->Find(key) != nullptr;
    if (keys.empty()) {
      for (const auto& [name, member] : value->members) keys.insert(name);
    }
    return !keys.insert(key).second;
  };
  do {
    std::string key;
    TROUPE_RETURN_IF_ERROR(KeyOf(is_there, &key));
    JsonValue member;
    TROUPE_RETURN_IF_ERROR(Read(&member, depth + 1));
    value->members.emplace_back(std::move(key), std::move(member));
  } while (Take(','));
  return Take('}') ? absl::OkStatus() : Here("',' or '}' is missing");
}

absl::Status JsonReader::Array(JsonValue* value, int depth) {
  value->kind = JsonValue::Kind::kArray;
  ++at_;
  if (Take(']')) return absl::OkStatus();
  do {
    JsonValue item;
    TROUPE_RETURN_IF_ERROR(Read(&item, depth + 1));
    value->items.push_back(std::move(item));
  } while (Take(','));
  return Take(']') ? absl::OkStatus() : Here("',' or ']' is missing");
}

absl::Status JsonReader::Word(JsonValue* value) {
  const size_t begin = at_;
  const auto part_of_it = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'E';
  };
  while (at_ < text_.size() && part_of_it(text_[at_])) ++at_;
  value->text = text_.substr(begin, at_ - begin);
  const bool number =
      !value->text.empty() && (value->text[0] == '-' || (value->text[0] >= '0' && value->text[0] <= '9'));
  if (value->text == "true" || value->text == "false") value->kind = JsonValue::Kind::kBool;
  if (number) value->kind = JsonValue::Kind::kNumber;
  if (value->kind != JsonValue::Kind::kNull || value->text == "null") return absl::OkStatus();
  at_ = begin;
  return Here("a value is missing");
}

absl::Status JsonReader::String(std::string* out) {
  const size_t begin = at_++;
  while (at_ < text_.size() && text_[at_] != '"') {
    if (static_cast<unsigned char>(text_[at_]) < 0x20) return Here("a control character stands in a string");
    if (text_[at_] != '\\') {
      out->push_back(text_[at_++]);
      continue;
    }
    if (text_.substr(at_ + 1, 1) == "u") {
      TROUPE_RETURN_IF_ERROR(Unicode(out));
      continue;
    }
    static constexpr std::string_view kSigns = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    const size_t which = at_ + 1 < text_.size() ? kSigns.find(text_[at_ + 1]) : std::string_view::npos;
    if (which == std::string_view::npos) return Here("there is no such escape");
    out->push_back(kMeant[which]);
    at_ += 2;
  }
  if (at_ < text_.size()) {
    ++at_;
    return absl::OkStatus();
  }
  at_ = begin;
  return Here("the string does not end");
}

// \uXXXX, or two of them that are one character, as UTF-8.
absl::Status JsonReader::Unicode(std::string* out) {
  const int first = HexValue(text_.substr(std::min(at_ + 2, text_.size())));
  if (first < 0) return Here("four hexadecimal digits are missing behind '\\u'");
  auto code = static_cast<uint32_t>(first);
  size_t length = 6;
  if (code >= 0xd800 && code < 0xe000) {
    const bool pair = code < 0xdc00 && text_.substr(std::min(at_ + 6, text_.size()), 2) == "\\u";
    const int second = pair ? HexValue(text_.substr(at_ + 8)) : -1;
    if (second < 0xdc00 || second >= 0xe000) return Here("half of a character stands alone");
    code = 0x10000 + ((code - 0xd800) << 10) + (static_cast<uint32_t>(second) - 0xdc00);
    length = 12;
  }
  AppendUtf8(code, out);
  at_ += length;
  return absl::OkStatus();
}

const JsonValue* JsonValue::Find(std::string_view key) const {
  for (const auto& [name, value] : members) {
    if (name == key) return &value;
  }
  return nullptr;
}

absl::Status JsonValue::Wrong(std::string_view why) const {
  return InvalidArgument("line ", line, ", column ", column, ": ", why);
}

absl::StatusOr<JsonValue> ParseJson(std::string_view text) {
  JsonReader reader(text);
  TROUPE_ASSIGN_OR_RETURN(JsonValue value, reader.Value());
  if (!reader.AtEnd()) return reader.Here("there is more behind the value");
  return value;
}

}  // namespace troupe
