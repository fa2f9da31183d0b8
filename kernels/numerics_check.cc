#include "kernels/numerics_check.h"

#include <bit>
#include <cmath>
#include <complex>

#include "absl/strings/cord.h"

namespace troupe {
namespace {

constexpr absl::string_view kMark = "troupe/not_finite";

thread_local const NumericsCheck* current = nullptr;

template <class T>
double Wide(T x) {
  return static_cast<double>(static_cast<float>(x));
}
template <>
double Wide(double x) {
  return x;
}

void Add(double x, NonFinite* found) {
  if (std::isnan(x)) {
    ++found->nan;
  } else {
    ++(x > 0 ? found->plus_inf : found->minus_inf);
  }
}

// `bits`: the bits of the exponent, which are all set in what is not finite.
template <class Bits>
bool AnyNonFinite(const void* values, int64_t n, Bits exponent) {
  const auto* v = static_cast<const Bits*>(values);
  // Without a branch, so that it is done for many elements at once.
  Bits any = 0;
  for (int64_t i = 0; i < n; ++i) any |= static_cast<Bits>((v[i] & exponent) == exponent);
  return any != 0;
}

template <class T>
NonFinite CountReal(const Tensor& t) {
  NonFinite found;
  const T* v = t.data<T>();
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const double x = Wide(v[i]);
    if (std::isfinite(x)) continue;
    if (found.first < 0) found.first = i;
    Add(x, &found);
  }
  return found;
}

template <class T>
NonFinite CountComplex(const Tensor& t) {
  NonFinite found;
  const auto* v = t.data<std::complex<T>>();
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const double re = v[i].real(), im = v[i].imag();
    if (std::isfinite(re) && std::isfinite(im)) continue;
    if (found.first < 0) found.first = i;
    Add(std::isnan(re) || std::isnan(im) ? NAN : std::isinf(re) ? re : im, &found);
  }
  return found;
}

}  // namespace

NonFinite CountNonFinite(const Tensor& t) {
  if (!t.valid()) return {};
  const int64_t n = t.num_elements();
  constexpr uint32_t kFloat = 0x7f800000u;
  constexpr uint64_t kDouble = 0x7ff0000000000000u;
  switch (t.dtype()) {
    case DType::kFloat:
      return AnyNonFinite(t.raw(), n, kFloat) ? CountReal<float>(t) : NonFinite{};
    case DType::kDouble:
      return AnyNonFinite(t.raw(), n, kDouble) ? CountReal<double>(t) : NonFinite{};
    case DType::kHalf:
      return AnyNonFinite(t.raw(), n, uint16_t{0x7c00}) ? CountReal<Half>(t) : NonFinite{};
    case DType::kBfloat16:
      return AnyNonFinite(t.raw(), n, uint16_t{0x7f80}) ? CountReal<BFloat16>(t) : NonFinite{};
    case DType::kComplex64:
      return AnyNonFinite(t.raw(), 2 * n, kFloat) ? CountComplex<float>(t) : NonFinite{};
    case DType::kComplex128:
      return AnyNonFinite(t.raw(), 2 * n, kDouble) ? CountComplex<double>(t) : NonFinite{};
    default:
      return {};
  }
}

std::string NonFiniteText(const NonFinite& found, const Tensor& t) {
  std::vector<int64_t> at(t.rank());
  int64_t rest = found.first;
  for (int d = t.rank() - 1; d >= 0; --d) {
    at[d] = rest % t.dim(d);
    rest /= t.dim(d);
  }
  return StrCat(found.nan, " NaN, ", found.plus_inf, " +Inf and ", found.minus_inf, " -Inf among ", t.num_elements(),
                t.num_elements() == 1 ? " element" : " elements", ", the first at [", StrJoin(at, ","), "]");
}

absl::Status NotFiniteError(const std::string& message) {
  absl::Status status = InvalidArgument(message);
  status.SetPayload(kMark, absl::Cord());
  return status;
}

bool TakeNotFiniteMark(absl::Status* status) { return !status->ok() && status->ErasePayload(kMark); }

bool UpdateLog::Add(std::function<void()> undo) {
  std::lock_guard<std::mutex> lock(mu_);
  if (over_) return false;
  undo_.push_back(std::move(undo));
  return true;
}

void UpdateLog::UndoAll() {
  std::vector<std::function<void()>> undo;
  {
    std::lock_guard<std::mutex> lock(mu_);
    over_ = true;
    undo.swap(undo_);
  }
  // What finds no memory moves up to the end, where the newest stand, for the next attempt.
  size_t kept = undo.size();
  for (size_t i = undo.size(); i-- > 0;) {
    try {
      undo[i]();
    } catch (const std::bad_alloc&) {
      if (--kept != i) undo[kept] = std::move(undo[i]);
    }
  }
  undo.erase(undo.begin(), undo.begin() + static_cast<ptrdiff_t>(kept));
  if (undo.empty()) return;
  std::lock_guard<std::mutex> lock(mu_);
  undo_.swap(undo);
  throw std::bad_alloc();
}

NumericsScope::NumericsScope(const NumericsCheck* check) : before_(std::exchange(current, check)) {}
NumericsScope::~NumericsScope() { current = before_; }
const NumericsCheck* CurrentNumericsCheck() { return current; }

}  // namespace troupe
