// A table of kernel cases as text, one per line:
//
//   Op <sizes of list args> attr=kind:value ... | input ; input | output ; output
//
// Cases of gradients have one part more: | inputs | gradients of the outputs | gradients of the
// inputs of floating and complex type ("none": nothing flows). A tensor is dtype[dims]{elements}:
// "int32[2,2]{1 2 3 4}", "string[1]{"a b"}", "complex64[]{(1,-2)}"; bools are 0 and 1. Lines that
// begin with # are comments.
#ifndef TROUPE_TESTS_ARRAY_CASE_FILE_H_
#define TROUPE_TESTS_ARRAY_CASE_FILE_H_

#include <cstdlib>
#include <string>
#include <vector>

#include "troupe/attr_value.h"
#include "troupe/tensor.h"

namespace troupe::test {

struct Case {
  int line = 0;
  std::string text, op;
  AttrMap attrs;
  std::vector<int> list_sizes;
  std::vector<Tensor> inputs, outputs, grads;  // an invalid tensor in grads means none
};

inline Tensor ParseTensor(const std::string& text) {
  const size_t open = text.find('['), close = text.find(']'), brace = text.find('{');
  const DType t = DTypeFromName(text.substr(text.find_first_not_of(' '), open - text.find_first_not_of(' ')));
  TensorShape shape;
  for (const std::string& d : StrSplit(text.substr(open + 1, close - open - 1), ',')) {
    if (!d.empty()) shape.AddDim(std::atoll(d.c_str()));
  }
  Tensor out(t, shape);
  const char* p = text.c_str() + brace + 1;
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    while (*p == ' ' || *p == '(') ++p;
    char* end = nullptr;
    if (t == DType::kString) {
      const char* quote = std::strchr(p + 1, '"');
      out.data<std::string>()[i] = std::string(p + 1, quote);
      p = quote + 1;
      continue;
    }
    const bool real = IsFloating(t) || IsComplex(t);
    const double x = real ? std::strtod(p, &end) : 0;
    const auto n = real ? 0 : static_cast<int64_t>(std::strtoull(p, &end, 10));
    double y = 0;
    if (IsComplex(t)) y = std::strtod(end + 1, &end);
    p = *end == ')' ? end + 1 : end;
    VisitNumeric(t, false, [&]<class T>() {
      if constexpr (kDTypeOf<T> == DType::kComplex64 || kDTypeOf<T> == DType::kComplex128) {
        out.data<T>()[i] = T(static_cast<typename T::value_type>(x), static_cast<typename T::value_type>(y));
      } else {
        out.data<T>()[i] = real ? static_cast<T>(x) : static_cast<T>(n);
      }
      return true;
    });
  }
  return out;
}

inline AttrValue ParseAttr(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon), value = text.substr(colon + 1);
  if (kind == "int") return static_cast<int64_t>(std::atoll(value.c_str()));
  if (kind == "bool") return value == "1";
  if (kind == "type") return DTypeFromName(value);
  if (kind == "ints") {
    std::vector<int64_t> list;
    for (const std::string& v : StrSplit(value, ',')) {
      if (!v.empty()) list.push_back(std::atoll(v.c_str()));
    }
    return list;
  }
  return value;
}

inline Case ParseCase(const std::string& line, int number) {
  Case c;
  c.line = number;
  c.text = line;
  const std::vector<std::string> parts = StrSplit(line, '|');
  for (const std::string& word : StrSplit(parts[0], ' ')) {
    if (word.empty()) continue;
    if (c.op.empty()) {
      c.op = word;
    } else if (word[0] == '<') {
      for (const std::string& n : StrSplit(word.substr(1, word.size() - 2), ','))
        c.list_sizes.push_back(std::atoi(n.c_str()));
    } else {
      const size_t eq = word.find('=');
      c.attrs.Set(word.substr(0, eq), ParseAttr(word.substr(eq + 1)));
    }
  }
  std::vector<Tensor>* const sides[] = {nullptr, &c.inputs, &c.outputs, &c.grads};
  for (size_t side = 1; side < parts.size(); ++side) {
    for (const std::string& t : StrSplit(parts[side], ';')) {
      if (t.find('[') != std::string::npos)
        sides[side]->push_back(ParseTensor(t));
      else if (t.find("none") != std::string::npos)
        sides[side]->emplace_back();
    }
  }
  return c;
}

// "" when equal: same type and shape, same elements (floats within a relative `tolerance`, NaN
// equals NaN).
inline std::string Difference(const Tensor& got, const Tensor& want, double tolerance = 0) {
  if (!got.valid()) return "no value";
  if (got.dtype() != want.dtype() || !got.SameShape(want))
    return StrCat(got.DebugString(), " instead of ", want.DebugString());
  bool same = true;
  if (got.dtype() == DType::kString) {
    same = got.flat<std::string>() == want.flat<std::string>();
  } else {
    VisitNumeric(got.dtype(), false, [&]<class T>() {
      for (int64_t i = 0; i < got.num_elements(); ++i) {
        const T a = got.data<T>()[i], b = want.data<T>()[i];
        if constexpr (kDTypeOf<T> == DType::kComplex64 || kDTypeOf<T> == DType::kComplex128) {
          same = same && a == b;
        } else if constexpr (!std::is_integral_v<T>) {
          const double x = a, y = b;
          same = same &&
                 ((x != x && y != y) || x == y || std::abs(x - y) <= tolerance * std::max(std::abs(x), std::abs(y)));
        } else {
          same = same && a == b;
        }
      }
      return true;
    });
  }
  return same ? "" : StrCat(got.DebugString(64), " instead of ", want.DebugString(64));
}

}  // namespace troupe::test

#endif  // TROUPE_TESTS_ARRAY_CASE_FILE_H_
