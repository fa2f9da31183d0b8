#include "tests/ops/recorded.h"

#include <zlib.h>

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "graph/ir/text.h"

namespace troupe::test {
namespace {

std::vector<std::string> ReadGzipLines(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  BOOST_REQUIRE_MESSAGE(file != nullptr, "no " << path);
  std::string text;
  char buffer[1 << 16];
  for (int n; (n = gzread(file, buffer, sizeof(buffer))) > 0;) text.append(buffer, static_cast<size_t>(n));
  gzclose(file);
  return StrSplit(text, '\n');
}

// As ParseCase, with attrs in the form of text graphs.
Case ReadCase(const std::string& line, int number) {
  const size_t bar = line.find(" |");
  Case c = ParseCase(line.substr(0, line.find(' ')) + line.substr(bar), number);
  c.text = line;
  for (const std::string& word : StrSplit(line.substr(0, bar), ' ')) {
    const size_t equals = word.find('=');
    if (word[0] == '<') {
      c.list_sizes.push_back(std::atoi(word.c_str() + 1));
    } else if (equals != std::string::npos) {
      const auto value = ParseAttrText(word.substr(equals + 1));
      BOOST_REQUIRE_MESSAGE(value.ok(), line.substr(0, bar) << ": " << value.status().ToString());
      c.attrs.Set(word.substr(0, equals), *value);
    }
  }
  return c;
}

// What the arithmetic of the type may be off by, relative to the larger of the value and 1.
double Tolerance(DType t) {
  switch (t) {
    case DType::kHalf:
      return 2e-3;
    case DType::kBfloat16:
      return 1.6e-2;
    case DType::kFloat:
    case DType::kComplex64:
      return 2e-6;
    default:
      return 1e-12;
  }
}

bool Near(double a, double b, double scale, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= tolerance * scale;
}

}  // namespace

std::string WrongOutput(const std::string& op, const Tensor& got, const Tensor& want) {
  if (!want.valid()) return "";  // not recorded
  if (!got.valid()) return "no value";
  if (got.dtype() != want.dtype() || !got.SameShape(want))
    return StrCat(got.DebugString(), " instead of ", want.DebugString());
  if (got.dtype() == DType::kString) return Difference(got, want);
  int64_t first = -1;
  VisitNumeric(got.dtype(), false, [&]<class T>() {
    // TensorFlow sums floats of 16 bits in 16 bits: an element may be off by the rounding of the
    // largest, in long sums several times.
    const bool long_sum = sizeof(T) == 2 && op.find("Backprop") != std::string::npos;
    // Iterations end, and reflections are applied, in another order: what is computed is off by
    // more than one operation's rounding.
    const bool decomposed = op == "Qr" || op == "Svd" || op == "MatrixSolveLs";
    const double factor = long_sum ? 3 : !decomposed ? 1 : sizeof(T) == 2 ? 3 : 30;
    const double tolerance = Tolerance(kDTypeOf<T>) * factor;
    double largest = 0;
    if constexpr (kDTypeOf<T> == DType::kHalf || kDTypeOf<T> == DType::kBfloat16) {
      for (const T v : want.flat<T>()) {
        if (std::isfinite(static_cast<double>(v))) largest = std::max(largest, std::abs(static_cast<double>(v)));
      }
    }
    for (int64_t i = 0; i < got.num_elements() && first < 0; ++i) {
      const T a = got.data<T>()[i], b = want.data<T>()[i];
      bool same;
      if constexpr (kDTypeOf<T> == DType::kComplex64 || kDTypeOf<T> == DType::kComplex128) {
        const double scale = std::max<double>(1, std::abs(b));
        same = Near(a.real(), b.real(), scale, tolerance) && Near(a.imag(), b.imag(), scale, tolerance);
      } else if constexpr (std::is_integral_v<T>) {
        same = a == b;
      } else {
        const double x = static_cast<double>(a), y = static_cast<double>(b);
        same = Near(x, y, std::max({1.0, std::abs(y), largest}), tolerance);
      }
      if (!same) first = i;
    }
    return true;
  });
  return first < 0 ? "" : StrCat("element ", first, ": ", got.DebugString(64), " instead of ", want.DebugString(64));
}

std::vector<Case> ReadCases(const std::string& file) {
  std::vector<Case> cases;
  int number = 0;
  for (const std::string& line : ReadGzipLines(std::string(TROUPE_SOURCE_DIR) + "/tests/ops/" + file)) {
    ++number;
    if (!line.empty() && line[0] != '#') cases.push_back(ReadCase(line, number));
  }
  return cases;
}

}  // namespace troupe::test
