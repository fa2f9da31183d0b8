// Softmax and its losses. The largest element of a row is subtracted first, so that no exponential
// overflows.
//
// Rows may be as short as a digit classifier's ten logits, so their exponentials are taken over
// blocks of whole rows, not row by row: a block is shifted by its rows' maxima, then exp runs over
// it as over one vector, then the rows are summed. Long rows of floats take each step by vectors.
#include "kernels/common/float_functions.h"
#include "kernels/common/vector_math.h"
#include "kernels/nn/softmax_loops.h"

namespace troupe::TROUPE_ISA {
namespace {

constexpr int64_t kBlock = 2048;  // elements of a block, about
constexpr int64_t kMaxRows = 256;
constexpr int kSums = 16;  // partial ones
constexpr int64_t kLong = 2 * kLanes;

float MaxOfLong(const float* x, int64_t n) {
  const auto load = [x](int64_t i) -> Vec { return *reinterpret_cast<const Loose*>(x + i); };
  Vec a = load(0), b = load(kLanes);
  int64_t i = 2 * kLanes;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const Vec c = load(i), d = load(i + kLanes);
    a = c > a ? c : a;
    b = d > b ? d : b;
  }
  a = b > a ? b : a;
  float m = a[0];
  for (int l = 1; l < kLanes; ++l) m = a[l] > m ? a[l] : m;
  for (; i < n; ++i) m = x[i] > m ? x[i] : m;
  return m;
}

struct Kept {  // the exponentials are wanted, not only their sum
  static constexpr bool kStore = true;
};
struct Dropped {
  static constexpr bool kStore = false;
};
// The sum of exp(x - m), each of which goes to e; `m` is the largest of x.
template <class How>
float ExpSumOfLong(const float* x, float m, float* e, int64_t n) {
  Vec a = {}, b = {};
  int64_t i = 0;
  const auto part = [&](int64_t at) {
    const Vec v = ExpOf<true>(*reinterpret_cast<const Loose*>(x + at) - m);
    if constexpr (How::kStore) *reinterpret_cast<Loose*>(e + at) = v;
    return v;
  };
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    a += part(i);
    b += part(i + kLanes);
  }
  if (i + kLanes <= n) {
    a += part(i);
    i += kLanes;
  }
  float sum = SumOf(a + b);
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    const Vec v = ExpOf<true>(LoadPart(x + i, rest) - m);
    if constexpr (How::kStore) StorePart(e + i, v, rest);
    for (int l = 0; l < rest; ++l) sum += v[l];
  }
  return sum;
}

template <class T>
T Max(const T* x, int64_t n) {
  if constexpr (sizeof(T) == 4) {
    if (n >= kLong) return MaxOfLong(x, n);
  }
  T m = x[0];
  if (n >= 2 * kSums) {
    T lanes[kSums];
    for (int l = 0; l < kSums; ++l) lanes[l] = x[l];
    int64_t i = kSums;
    for (; i + kSums <= n; i += kSums) {
      for (int l = 0; l < kSums; ++l) lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
    }
    for (int l = 0; l < kSums; ++l) m = lanes[l] > m ? lanes[l] : m;
    for (; i < n; ++i) m = x[i] > m ? x[i] : m;
    return m;
  }
  for (int64_t i = 1; i < n; ++i) m = x[i] > m ? x[i] : m;
  return m;
}

template <class T>
T Sum(const T* x, int64_t n) {
  T s = 0;
  int64_t i = 0;
  if (n >= 2 * kSums) {
    T lanes[kSums] = {};
    for (; i + kSums <= n; i += kSums) {
      for (int l = 0; l < kSums; ++l) lanes[l] += x[i + l];
    }
    for (int l = 0; l < kSums; ++l) s += lanes[l];
  }
  for (; i < n; ++i) s += x[i];
  return s;
}

// e = exp(e) of numbers of which none is above 0.
struct ExpBelow {
  static Vec Do(Vec x) { return ExpOf<true>(x); }
};
inline void ExpInPlace(float* e, int64_t n) { ForEachFloat<ExpBelow>(e, e, n); }
inline void ExpInPlace(double* e, int64_t n) {
  for (int64_t i = 0; i < n; ++i) e[i] = Exp(e[i]);
}

// Of blocks of rows, f.Maxima gets the largest of each row, while x is as it was; f.Shifted gets
// x - maximum of the row, where F::kShifted says that it wants that; and f.Summed e = exp of that,
// and the sums and maxima of the rows.
template <class T, class F>
void Blocks(const T* x, T* e, int64_t rows, int64_t columns, F& f) {
  T maxima[kMaxRows], sums[kMaxRows];
  int64_t step = kBlock / columns;
  step = step < 1 ? 1 : step > kMaxRows ? kMaxRows : step;
  for (int64_t r = 0; r < rows; r += step) {
    const int64_t count = rows - r < step ? rows - r : step;
    const T* in = x + r * columns;
    T* out = e + r * columns;
    for (int64_t i = 0; i < count; ++i) maxima[i] = Max(in + i * columns, columns);
    f.Maxima(r, count, maxima);
    if constexpr (sizeof(T) == 4 && !F::kShifted) {
      if (columns >= kLong) {
        for (int64_t i = 0; i < count; ++i)
          sums[i] = ExpSumOfLong<Kept>(in + i * columns, maxima[i], out + i * columns, columns);
        f.Summed(r, count, out, sums, maxima);
        continue;
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      const T m = maxima[i];
      for (int64_t c = 0; c < columns; ++c) out[i * columns + c] = in[i * columns + c] - m;
    }
    f.Shifted(r, count, out);
    ExpInPlace(out, count * columns);
    for (int64_t i = 0; i < count; ++i) sums[i] = Sum(out + i * columns, columns);
    f.Summed(r, count, out, sums, maxima);
  }
}

template <class T>
void Scale(T* e, T factor, int64_t n) {
  for (int64_t c = 0; c < n; ++c) e[c] *= factor;
}

template <class T>
void Softmax(const T* x, T* y, int64_t rows, int64_t columns) {
  struct Scaled {
    enum : bool { kShifted = false };
    int64_t columns;
    void Maxima(int64_t, int64_t, const T*) {}
    void Shifted(int64_t, int64_t, T*) {}
    void Summed(int64_t, int64_t count, T* e, const T* sums, const T*) {
      for (int64_t i = 0; i < count; ++i) Scale(e + i * columns, 1 / sums[i], columns);
    }
  } f{columns};
  Blocks(x, y, rows, columns, f);
}

// The sum of exp(x - m).
inline float ExpSum(const float* x, float m, int64_t n) { return ExpSumOfLong<Dropped>(x, m, nullptr, n); }
inline double ExpSum(const double* x, double m, int64_t n) {
  double sum = 0, e[kBlock];
  for (int64_t c = 0; c < n; c += kBlock) {
    const int64_t some = n - c < kBlock ? n - c : kBlock;
    for (int64_t i = 0; i < some; ++i) e[i] = Exp(x[c + i] - m);
    sum += Sum(e, some);
  }
  return sum;
}

template <class T>
void LogSoftmax(const T* x, T* y, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* in = x + r * columns;
    T* out = y + r * columns;
    const T m = Max(in, columns);
    const T sum = ExpSum(in, m, columns);
    const T log_sum = static_cast<T>(__builtin_log(static_cast<double>(sum)));
    for (int64_t c = 0; c < columns; ++c) out[c] = (in[c] - m) - log_sum;
  }
}

template <class T>
void CrossEntropy(const T* x, const T* labels, T* loss, T* backprop, int64_t rows, int64_t columns) {
  struct Losses {
    enum : bool { kShifted = true };
    const T *x, *labels;
    T* loss;
    int64_t columns;
    T totals[kMaxRows];
    void Maxima(int64_t, int64_t, const T*) {}
    // loss = sum(labels) * log(sum(exp)) - sum(labels * shifted), which is that of the header where
    // everything is finite.
    void Shifted(int64_t r, int64_t count, T* shifted) {
      for (int64_t i = 0; i < count; ++i) {
        const T *l = labels + (r + i) * columns, *s = shifted + i * columns;
        T dot = 0, total = 0;
        for (int64_t c = 0; c < columns; ++c) {
          total += l[c];
          dot += l[c] * s[c];
        }
        loss[r + i] = -dot;
        totals[i] = total;
      }
    }
    void Summed(int64_t r, int64_t count, T* e, const T* sums, const T* maxima) {
      for (int64_t i = 0; i < count; ++i) {
        const T* l = labels + (r + i) * columns;
        const T inverse = 1 / sums[i];
        T* out = e + i * columns;
        const T log_sum = static_cast<T>(__builtin_log(static_cast<double>(sums[i])));
        loss[r + i] += totals[i] * log_sum;
        if (loss[r + i] - loss[r + i] != T(0)) [[unlikely]]
          loss[r + i] = TermByTerm(x + (r + i) * columns, l, maxima[i], log_sum);
        for (int64_t c = 0; c < columns; ++c) out[c] = out[c] * inverse - l[c];
      }
    }
    T TermByTerm(const T* row, const T* l, T maximum, T log_sum) const {
      T sum = 0;
      for (int64_t c = 0; c < columns; ++c) sum += l[c] * (log_sum - (row[c] - maximum));
      return sum;
    }
  } f;
  f.x = x;
  f.labels = labels;
  f.loss = loss;
  f.columns = columns;
  Blocks(x, backprop, rows, columns, f);
}

template <class T>
void SparseCrossEntropy(const T* x, const int64_t* label, T* loss, T* backprop, int64_t rows, int64_t columns) {
  struct Losses {
    enum : bool { kShifted = false };
    const T* x;
    const int64_t* label;
    T* loss;
    int64_t columns;
    bool Valid(int64_t row) const { return label[row] >= 0 && label[row] < columns; }
    void Maxima(int64_t r, int64_t count, const T* maxima) {
      for (int64_t i = r; i < r + count; ++i)
        loss[i] = Valid(i) ? maxima[i - r] - x[i * columns + label[i]] : static_cast<T>(__builtin_nan(""));
    }
    void Shifted(int64_t, int64_t, T*) {}
    void Summed(int64_t r, int64_t count, T* e, const T* sums, const T*) {
      for (int64_t i = 0; i < count; ++i) {
        Scale(e + i * columns, Valid(r + i) ? 1 / sums[i] : static_cast<T>(__builtin_nan("")), columns);
        loss[r + i] += static_cast<T>(__builtin_log(static_cast<double>(sums[i])));
        if (Valid(r + i)) e[i * columns + label[r + i]] -= 1;
      }
    }
  } f{x, label, loss, columns};
  Blocks(x, backprop, rows, columns, f);
}

}  // namespace

extern const SoftmaxTable kSoftmax;
const SoftmaxTable kSoftmax = {
    {&Softmax<float>, &LogSoftmax<float>, &CrossEntropy<float>, &SparseCrossEntropy<float>},
    {&Softmax<double>, &LogSoftmax<double>, &CrossEntropy<double>, &SparseCrossEntropy<double>}};

}  // namespace troupe::TROUPE_ISA
