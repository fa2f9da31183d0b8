// The hot loops of every instruction level, called directly: accuracy of the polynomials, agreement
// between levels, special values.
#include <boost/test/unit_test.hpp>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/common/isa.h"
#include "kernels/elementwise/hot_table.h"
#include "kernels/special/erf_loop.h"
#include "troupe/half.h"

TROUPE_ISA_TABLE(ErfLoop, kErf, PickErf)

namespace troupe::math {
namespace isa_test {

// Distance in units of the last place of the exact result.
double Ulps(float got, double exact) {
  const float rounded = static_cast<float>(exact);
  if (std::isnan(rounded)) return std::isnan(got) ? 0 : 1e9;
  if (std::isinf(rounded) || std::isinf(got)) return got == rounded ? 0 : 1e9;
  int exponent;
  std::frexp(rounded, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent, -125) - 24);
  return std::abs(static_cast<double>(got) - exact) / unit;
}

struct Function {
  HotUnary op;
  double (*exact)(double);
  double low, high, bound;
};
const Function kFunctions[] = {
    {HotUnary::kExp, [](double x) { return std::exp(x); }, -87.3, 88.7, 1},
    {HotUnary::kExp, [](double x) { return std::exp(x); }, -104, -87.3, 1},
    {HotUnary::kLog, [](double x) { return std::log(x); }, 1e-45, 1e-38, 1},
    {HotUnary::kLog, [](double x) { return std::log(x); }, 1e-6, 4, 1},
    {HotUnary::kLog, [](double x) { return std::log(x); }, 4, 3.4e38, 1},
    {HotUnary::kTanh, [](double x) { return std::tanh(x); }, -12, 12, 7},
    {HotUnary::kTanh, [](double x) { return std::tanh(x); }, -1e-3, 1e-3, 2},
    {HotUnary::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -87, 30, 3},
    {HotUnary::kSqrt, [](double x) { return std::sqrt(x); }, 0, 1e10, 0.5},
    {HotUnary::kRsqrt, [](double x) { return 1 / std::sqrt(x); }, 1e-3, 1e3, 1.5},
};

UnaryLoop FloatLoop(const HotLoops& l, HotUnary op) {
  return l.unary[static_cast<int>(op)][static_cast<int>(HotType::kFloat)].v;
}

BOOST_AUTO_TEST_CASE(every_level_is_accurate) {
  BOOST_REQUIRE(!AvailableIsas().empty());
  constexpr int kPoints = 200001;
  for (std::string_view isa : AvailableIsas()) {
    const HotLoops& loops = *HotLoopsOf(isa);
    for (const Function& f : kFunctions) {
      std::vector<float> x(kPoints), y(kPoints);
      for (int i = 0; i < kPoints; ++i) x[i] = static_cast<float>(f.low + (f.high - f.low) * i / (kPoints - 1));
      FloatLoop(loops, f.op)(x.data(), y.data(), kPoints);
      double worst = 0;
      float at = 0;
      for (int i = 0; i < kPoints; ++i) {
        const double u = Ulps(y[i], f.exact(x[i]));
        if (u > worst) {
          worst = u;
          at = x[i];
        }
      }
      BOOST_TEST_MESSAGE(isa << " function " << static_cast<int>(f.op) << " [" << f.low << "," << f.high
                             << "]: " << worst << " ulp");
      BOOST_CHECK_MESSAGE(worst <= f.bound,
                          isa << " function " << static_cast<int>(f.op) << ": " << worst << " ulp at " << at);
    }
  }
}

// Small numbers and large ones alike, where the table above has few of either.
BOOST_AUTO_TEST_CASE(every_level_is_accurate_at_all_magnitudes) {
  std::vector<float> x;
  const auto bits = [](float v) { return __builtin_bit_cast(uint32_t, v); };
  for (uint32_t b = bits(0x1p-30f); b < bits(16); b += 613) {
    x.push_back(__builtin_bit_cast(float, b));
    x.push_back(-x.back());
  }
  std::vector<float> y(x.size());
  for (std::string_view isa : AvailableIsas()) {
    const HotLoops& loops = *HotLoopsOf(isa);
    double below = 0, above = 0, sigmoid = 0;
    float largest = 0;
    FloatLoop(loops, HotUnary::kTanh)(x.data(), y.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      double& worst = std::abs(x[i]) < 0.5f ? below : above;
      worst = std::max(worst, Ulps(y[i], std::tanh(static_cast<double>(x[i]))));
      largest = std::max(largest, std::abs(y[i]));
    }
    FloatLoop(loops, HotUnary::kSigmoid)(x.data(), y.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i)
      sigmoid = std::max(sigmoid, Ulps(y[i], 1 / (1 + std::exp(-static_cast<double>(x[i])))));
    BOOST_TEST_MESSAGE(isa << ": tanh " << below << ", " << above << ", sigmoid " << sigmoid << " ulp");
    BOOST_CHECK_LE(below, 4);
    BOOST_CHECK_LE(above, 7);
    BOOST_CHECK_LE(sigmoid, 3);
    BOOST_CHECK_EQUAL(largest, 1);
  }
}

BOOST_AUTO_TEST_CASE(special_values_are_the_c_librarys) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {nan,     inf,     -inf,    0.0f,     -0.0f, 1.0f,   -1.0f,  88.8f,          89.5f,
                                1000.0f, -103.0f, -104.5f, -1000.0f, 3e38f, -3e38f, 1e-40f, 1.17549435e-38f};
  for (std::string_view isa : AvailableIsas()) {
    for (HotUnary op : {HotUnary::kExp, HotUnary::kLog, HotUnary::kTanh, HotUnary::kSigmoid}) {
      std::vector<float> y(x.size());
      FloatLoop(*HotLoopsOf(isa), op)(x.data(), y.data(), static_cast<int64_t>(x.size()));
      for (size_t i = 0; i < x.size(); ++i) {
        const double v = x[i];
        const double exact = op == HotUnary::kExp    ? std::exp(v)
                             : op == HotUnary::kLog  ? std::log(v)
                             : op == HotUnary::kTanh ? std::tanh(v)
                                                     : 1 / (1 + std::exp(-v));
        BOOST_CHECK_MESSAGE(Ulps(y[i], exact) <= 2.5, isa << " function " << static_cast<int>(op) << " of " << x[i]
                                                          << " gives " << y[i] << ", not " << exact);
        if (exact == 0)
          BOOST_CHECK_MESSAGE(std::signbit(y[i]) == std::signbit(exact),
                              isa << " sign of zero, function " << static_cast<int>(op));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(erf_is_accurate_at_every_level) {
  constexpr int kPoints = 200001;
  for (std::string_view isa : AvailableIsas()) {
    const ErfLoop loop = PickErf(LevelOf(isa));
    for (const double range : {5.0, 1e-3, 1e-38, 100.0}) {
      std::vector<float> x(kPoints), y(kPoints);
      for (int i = 0; i < kPoints; ++i) x[i] = static_cast<float>(range * (2.0 * i / (kPoints - 1) - 1));
      loop.run(x.data(), y.data(), kPoints);
      double worst = 0;
      for (int i = 0; i < kPoints; ++i) worst = std::max(worst, Ulps(y[i], std::erf(static_cast<double>(x[i]))));
      BOOST_CHECK_MESSAGE(worst <= 2, isa << ": " << worst << " ulp up to " << range);
    }
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    float y[5];
    const float x[5] = {inf, -inf, nan, 0.0f, -0.0f};
    loop.run(x, y, 5);
    BOOST_CHECK(y[0] == 1 && y[1] == -1 && std::isnan(y[2]) && y[3] == 0 && !std::signbit(y[3]) && std::signbit(y[4]));
  }
}

// Lengths around the vector lengths, in place and not: tails must be the same function.
BOOST_AUTO_TEST_CASE(tails_and_in_place) {
  for (std::string_view isa : AvailableIsas()) {
    const HotLoops& loops = *HotLoopsOf(isa);
    for (int op = 0; op < static_cast<int>(HotUnary::kCount); ++op) {
      const UnaryLoop loop = loops.unary[op][0].v;
      BOOST_REQUIRE(loop != nullptr);
      for (int n = 0; n <= 70; ++n) {
        std::vector<float> x(n + 1), y(n + 1, -7), one(n);
        for (int i = 0; i < n; ++i) x[i] = 0.37f + 0.11f * static_cast<float>(i);
        loop(x.data(), y.data(), n);
        BOOST_CHECK_EQUAL(y[n], -7);
        for (int i = 0; i < n; ++i) loop(&x[i], &one[i], 1);
        loop(x.data(), x.data(), n);
        for (int i = 0; i < n; ++i) {
          BOOST_CHECK_EQUAL(x[i], y[i]);
          BOOST_CHECK_LE(std::abs(one[i] - y[i]), 2e-6f * std::abs(y[i]) + 1e-7f);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(levels_agree_on_binary_loops) {
  const std::vector<std::string_view> isas = AvailableIsas();
  const HotLoops& base = *HotLoopsOf(isas[0]);
  constexpr int kN = 131;
  alignas(64) char a[kN * 8], b[kN * 8], out[2][kN * 8];
  for (int type = 0; type < static_cast<int>(HotType::kCount); ++type) {
    for (int i = 0; i < kN; ++i) {
      const double u = 0.25 * (i % 17) + 1, v = 0.5 * (i % 13) + 1;
      switch (static_cast<HotType>(type)) {
        case HotType::kFloat:
          reinterpret_cast<float*>(a)[i] = float(u), reinterpret_cast<float*>(b)[i] = float(v);
          break;
        case HotType::kDouble:
          reinterpret_cast<double*>(a)[i] = u, reinterpret_cast<double*>(b)[i] = v;
          break;
        case HotType::kInt32:
          reinterpret_cast<int32_t*>(a)[i] = static_cast<int32_t>(77777777u * static_cast<uint32_t>(i)),
          reinterpret_cast<int32_t*>(b)[i] = i - 60;
          break;
        default:
          reinterpret_cast<int64_t*>(a)[i] = i * 7777777777777777, reinterpret_cast<int64_t*>(b)[i] = i - 60;
          break;
      }
    }
    for (int op = 0; op < static_cast<int>(HotBinary::kCount); ++op) {
      const BinaryLoops& l = base.binary[op][type];
      if (l.vv == nullptr) continue;
      for (size_t k = 1; k < isas.size(); ++k) {
        const BinaryLoops& m = HotLoopsOf(isas[k])->binary[op][type];
        for (BinaryLoop BinaryLoops::*form : {&BinaryLoops::vv, &BinaryLoops::sv, &BinaryLoops::vs}) {
          std::fill_n(out[0], sizeof(out[0]), 0);
          std::fill_n(out[1], sizeof(out[1]), 0);
          (l.*form)(a, b, out[0], kN);
          (m.*form)(a, b, out[1], kN);
          if (type >= 2 || op >= static_cast<int>(HotBinary::kEqual)) {
            BOOST_CHECK_MESSAGE(std::equal(out[0], out[0] + sizeof(out[0]), out[1]),
                                isas[k] << " op " << op << " type " << type);
          } else {
            for (int i = 0; i < kN; ++i) {
              const double x = type == 0 ? reinterpret_cast<float*>(out[0])[i] : reinterpret_cast<double*>(out[0])[i];
              const double y = type == 0 ? reinterpret_cast<float*>(out[1])[i] : reinterpret_cast<double*>(out[1])[i];
              BOOST_CHECK_MESSAGE(std::abs(x - y) <= (type == 0 ? 1e-6 : 1e-14) * (std::abs(x) + 1),
                                  isas[k] << " op " << op << " type " << type << ": " << x << " " << y);
            }
          }
        }
      }
    }
  }
}

// All 65536 halves and bfloat16s, and floats around every rounding border.
BOOST_AUTO_TEST_CASE(conversions_of_16_bit_floats) {
  std::vector<uint16_t> bits(65536);
  for (int i = 0; i < 65536; ++i) bits[i] = static_cast<uint16_t>(i);
  for (std::string_view isa : AvailableIsas()) {
    const HotLoops& l = *HotLoopsOf(isa);
    std::vector<float> wide(65536);
    std::vector<uint16_t> back(65536);
    l.half_to_float(bits.data(), wide.data(), 65536);
    int wrong = 0;
    std::vector<float> borders;
    for (int i = 0; i < 65536; ++i) {
      const float exact = HalfBitsToFloat(bits[i]);
      wrong +=
          std::isnan(exact) ? !std::isnan(wide[i]) : std::bit_cast<uint32_t>(exact) != std::bit_cast<uint32_t>(wide[i]);
      const uint32_t b = std::bit_cast<uint32_t>(exact);
      for (uint32_t d : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x1fffu}) borders.push_back(std::bit_cast<float>(b + d));
    }
    BOOST_CHECK_EQUAL(wrong, 0);
    l.bfloat16_to_float(bits.data(), wide.data(), 65536);
    for (int i = 0; i < 65536; ++i) wrong += std::bit_cast<uint32_t>(wide[i]) != static_cast<uint32_t>(i) << 16;
    BOOST_CHECK_EQUAL(wrong, 0);
    for (int i = 0; i < 65536; ++i) {
      for (uint32_t d : {0x7fffu, 0x8000u, 0x8001u})
        borders.push_back(std::bit_cast<float>((static_cast<uint32_t>(i) << 16) + d));
    }
    back.resize(borders.size());
    l.float_to_half(borders.data(), back.data(), static_cast<int64_t>(borders.size()));
    for (size_t i = 0; i < borders.size(); ++i) {
      const uint16_t exact = FloatToHalfBits(borders[i]);
      wrong += std::isnan(borders[i]) ? !std::isnan(HalfBitsToFloat(back[i])) : exact != back[i];
    }
    BOOST_CHECK_EQUAL(wrong, 0);
    l.float_to_bfloat16(borders.data(), back.data(), static_cast<int64_t>(borders.size()));
    for (size_t i = 0; i < borders.size(); ++i) wrong += FloatToBFloat16Bits(borders[i]) != back[i];
    BOOST_CHECK_EQUAL(wrong, 0);
  }
}

BOOST_AUTO_TEST_CASE(sums_give_the_same_bits_at_every_level) {
  constexpr int kN = 5000;
  std::vector<float> x(kN);
  double exact = 0;
  for (int i = 0; i < kN; ++i) {
    x[i] = 1.0f / static_cast<float>(i + 1);
    exact += x[i];
  }
  std::vector<double> sums;
  for (std::string_view isa : AvailableIsas()) {
    const ReduceLoops& r = HotLoopsOf(isa)->reduce[static_cast<int>(HotReduce::kSum)][0];
    double row = 0, columns[50] = {}, total = 0;
    r.row(x.data(), kN, &row);
    r.rows(x.data(), kN / 50, 50, 50, columns);
    for (double c : columns) total += c;
    BOOST_CHECK_LE(std::abs(row - exact), 1e-6);
    BOOST_CHECK_LE(std::abs(total - exact), 2e-6);
    sums.push_back(row);
    sums.push_back(total);
    BOOST_CHECK_EQUAL(row, sums[0]);
    BOOST_CHECK_EQUAL(total, sums[1]);
  }
}

BOOST_AUTO_TEST_CASE(choosing_a_level) {
  const std::vector<std::string_view> isas = AvailableIsas();
  std::string complaint;
  BOOST_CHECK_EQUAL(ChooseIsa("", &complaint), isas.back());
  BOOST_CHECK_EQUAL(ChooseIsa(isas.front(), &complaint), isas.front());
  BOOST_CHECK_EQUAL(complaint, "");
  BOOST_CHECK_EQUAL(ChooseIsa("v9", &complaint), isas.back());
  BOOST_CHECK(complaint.find("TROUPE_ISA=v9 is not an instruction level") == 0);
  BOOST_CHECK(HotLoopsOf("v9") == nullptr);
  BOOST_CHECK(HotLoopsOf(IsaName()) != nullptr);
}

}  // namespace isa_test
}  // namespace troupe::math
