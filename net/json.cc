#include "net/json.h"

#include <algorithm>
#include <cstring>

namespace troupe {
namespace {

constexpr int kMostDepth = 32;

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
  TROUPE_RETURN_IF_ERROR(KeyOf(JsonValue(), &key));
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

absl::Status JsonReader::KeyOf(const JsonValue& object, std::string* key) {
  Skip();
  if (at_ == text_.size() || text_[at_] != '"') return Here("a key in quotes is missing");
  const size_t key_at = at_;
  TROUPE_RETURN_IF_ERROR(String(key));
  if (object.Find(*key) != nullptr) {
    at_ = key_at;
    return Here(StrCat("the key '", CEscape(*key), "' is given twice"));
  }
  return Take(':') ? absl::OkStatus() : Here("':' is missing");
}

absl::Status JsonReader::Object(JsonValue* value, int depth) {
  value->kind = JsonValue::Kind::kObject;
  ++at_;
  if (Take('}')) return absl::OkStatus();
  do {
    std::string key;
    TROUPE_RETURN_IF_ERROR(KeyOf(*value, &key));
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
    static constexpr std::string_view kSigns = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    const size_t which = at_ + 1 < text_.size() ? kSigns.find(text_[at_ + 1]) : std::string_view::npos;
    // \u is not read: names and addresses have no such characters.
    if (which == std::string_view::npos) return Here("this escape is not read here");
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
