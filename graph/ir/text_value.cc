#include "graph/ir/text_value.h"

#include <charconv>
#include <memory>
#include <vector>

namespace troupe {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

template <class T>
T ParseNumber(TextCursor* c, std::string_view word) {
  T value{};
  const char* begin = word.data();
  if (!word.empty() && word[0] == '+') ++begin;
  const auto [end, error] = std::from_chars(begin, word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || word.empty()) {
    c->Fail(StrCat("'", word, "' is no number of this type"));
  }
  return value;
}

template <class T>
T ParseElement(TextCursor* c) {
  if constexpr (std::is_same_v<T, bool>) {
    const std::string_view w = c->Word("true or false");
    if (w != "true" && w != "false") c->Fail(StrCat("'", w, "' is neither true nor false"));
    return w == "true";
  } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    using R = typename T::value_type;
    c->Expect('(');
    const R re = ParseNumber<R>(c, c->Number());
    c->Expect(',');
    const R im = ParseNumber<R>(c, c->Number());
    c->Expect(')');
    return T(re, im);
  } else if constexpr (std::is_arithmetic_v<T>) {
    return ParseNumber<T>(c, c->Number());
  } else {
    return T(ParseNumber<float>(c, c->Number()));
  }
}

template <class T>
Tensor FinishTensor(TextCursor* c, DType dtype, const TensorShape& shape, std::vector<T> values) {
  const int64_t n = shape.num_elements();
  if (c->ok() && static_cast<int64_t>(values.size()) != n && (values.size() != 1 || n > (1 << 24))) {
    c->Fail(StrCat("a tensor of shape ", shape.DebugString(), " has ", values.size(), " values"));
  }
  if (!c->ok()) return Tensor();
  Tensor t(dtype, shape);
  if (!t.valid()) {
    c->Fail("no memory for a tensor");
    return Tensor();
  }
  for (int64_t i = 0; i < n; ++i) t.data<T>()[i] = values.size() == 1 ? values[0] : values[i];
  return t;
}

PartialTensorShape ParseShape(TextCursor* c) {
  std::vector<int64_t> dims;
  c->Expect('[');
  while (c->ok() && c->Peek() != ']') {
    if (!dims.empty()) c->Expect(',');
    dims.push_back(c->Take('?') ? -1 : ParseNumber<int64_t>(c, c->Number()));
  }
  c->Expect(']');
  if (!c->ok()) return {};
  absl::StatusOr<PartialTensorShape> shape = PartialTensorShape::Make(dims);
  if (!shape.ok()) {
    c->Fail(shape.status());
    return {};
  }
  return *shape;
}

Tensor ParseTensor(TextCursor* c, DType dtype) {
  PartialTensorShape shape{};
  if (c->Peek() == '[') {
    shape = ParseShape(c);
  } else {
    shape = TensorShape();
  }
  if (c->ok() && !shape.IsFullyDefined()) c->Fail("a tensor's shape must be known");
  c->Expect('{');
  if (!c->ok()) return Tensor();
  const TensorShape full = shape.AsTensorShape();
  auto list = [&]<class T>(auto&& element) {
    std::vector<T> values;
    while (c->ok() && c->Peek() != '}') {
      if (!values.empty()) c->Expect(',');
      values.push_back(element());
    }
    c->Expect('}');
    return FinishTensor<T>(c, dtype, full, std::move(values));
  };
  if (dtype == DType::kString) {
    return list.template operator()<std::string>([&] { return c->Quoted(); });
  }
  Tensor t = VisitNumeric<Tensor>(dtype, Tensor(), [&]<class T>() -> Tensor {
    std::vector<T> values;
    while (c->ok() && c->Peek() != '}') {
      if (!values.empty()) c->Expect(',');
      values.push_back(ParseElement<T>(c));
    }
    c->Expect('}');
    if constexpr (std::is_same_v<T, bool>) {
      std::vector<char> bytes(values.begin(), values.end());
      Tensor as_bytes = FinishTensor<int8_t>(c, DType::kInt8, full, std::vector<int8_t>(bytes.begin(), bytes.end()));
      return c->ok() ? as_bytes.WithType(DType::kBool, full) : Tensor();
    } else {
      return FinishTensor<T>(c, dtype, full, std::move(values));
    }
  });
  if (c->ok() && !t.valid()) c->Fail(StrCat("tensors of ", Name(dtype), " have no text form"));
  return t;
}

template <class T>
AttrValue ListOf(TextCursor* c, const std::vector<AttrValue>& items) {
  std::vector<T> list;
  for (const AttrValue& v : items) {
    const T* item = v.As<T>();
    if (item == nullptr) {
      c->Fail("a list has values of several kinds");
      return {};
    }
    list.push_back(*item);
  }
  return list;
}

AttrValue ParseList(TextCursor* c) {
  std::vector<AttrValue> items;
  while (c->ok() && c->Peek() != '}') {
    if (!items.empty()) c->Expect(',');
    items.push_back(ParseTextValue(c));
  }
  c->Expect('}');
  if (!c->ok()) return {};
  if (items.empty()) return EmptyList{};
  const AttrValue::Variant& v = items[0].variant();
  if (std::holds_alternative<std::string>(v)) return ListOf<std::string>(c, items);
  if (std::holds_alternative<int64_t>(v)) return ListOf<int64_t>(c, items);
  if (std::holds_alternative<float>(v)) return ListOf<float>(c, items);
  if (std::holds_alternative<bool>(v)) return ListOf<bool>(c, items);
  if (std::holds_alternative<DType>(v)) return ListOf<DType>(c, items);
  if (std::holds_alternative<PartialTensorShape>(v)) return ListOf<PartialTensorShape>(c, items);
  if (std::holds_alternative<Tensor>(v)) return ListOf<Tensor>(c, items);
  if (std::holds_alternative<FuncAttr>(v)) return ListOf<FuncAttr>(c, items);
  c->Fail("a list cannot hold this kind of value");
  return {};
}

AttrValue ParseNested(TextCursor* c) {
  const char next = c->Peek();
  if (next == '"') return c->Quoted();
  if (next == '[') return ParseShape(c);
  if (c->Take("<unknown>")) return PartialTensorShape();
  if (c->Take('{')) return ParseList(c);
  if (c->Take('$')) return AttrPlaceholder{c->WordOrQuoted("the name of an attr")};
  if (c->Take('&')) {
    FuncAttr f{c->WordOrQuoted("the name of a function"), std::make_shared<AttrMap>()};
    if (c->Take('[')) *f.attrs = ParseTextAttrs(c);
    return f;
  }
  const std::string_view word = c->Number();
  if (word.empty()) {
    c->Fail("expected a value");
    return {};
  }
  if (word == "none") return AttrValue();
  if (word == "true") return true;
  if (word == "false") return false;
  if (const DType t = DTypeFromName(word); t != DType::kInvalid) {
    if (c->Peek() == '[' || c->Peek() == '{') return ParseTensor(c, t);
    return t;
  }
  const bool integral = word.find_first_not_of("+-0123456789") == std::string_view::npos;
  if (integral) return ParseNumber<int64_t>(c, word);
  return ParseNumber<float>(c, word);
}

}  // namespace

std::string TextCursor::Quoted() {
  Expect('"');
  std::string s;
  while (pos_ < text_.size() && text_[pos_] != '"') {
    char c = text_[pos_++];
    if (c != '\\') {
      s += c;
      continue;
    }
    if (pos_ >= text_.size()) break;
    c = text_[pos_++];
    if (c >= '0' && c <= '7') {
      int v = c - '0';
      for (int k = 0; k < 2 && pos_ < text_.size() && text_[pos_] >= '0' && text_[pos_] <= '7'; ++k) {
        v = v * 8 + (text_[pos_++] - '0');
      }
      s += static_cast<char>(v);
    } else if (c == 'x') {
      int v = 0;
      for (int k = 0; k < 2 && pos_ < text_.size() && HexDigit(text_[pos_]) >= 0; ++k) {
        v = v * 16 + HexDigit(text_[pos_++]);
      }
      s += static_cast<char>(v);
    } else {
      s += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
    }
  }
  if (pos_ >= text_.size()) Fail("a string does not end");
  ++pos_;
  return s;
}

AttrMap ParseTextAttrs(TextCursor* c) {
  AttrMap attrs;
  bool first = true;
  while (c->ok() && c->Peek() != ']') {
    if (!first) c->Expect(',');
    first = false;
    const std::string name = c->WordOrQuoted("the name of an attr");
    c->Expect('=');
    if (c->ok() && attrs.Has(name)) c->Fail(StrCat("attr '", name, "' is given twice"));
    attrs.Set(name, ParseTextValue(c));
  }
  c->Expect(']');
  return attrs;
}

AttrValue ParseTextValue(TextCursor* c) {
  AttrValue v;
  if (c->Deeper()) v = ParseNested(c);
  c->Back();
  return v;
}

}  // namespace troupe
