// Softmax and its losses. The largest element of a row is subtracted first, so that no exponential
// overflows.
//
// Rows may be as short as a digit classifier's ten logits, so exponentials are taken over blocks of
// whole rows, not row by row: a block is shifted by its rows' maxima, then exp runs over it as over
// one vector, then the rows are summed.
#include "kernels/common/vector_math.h"
#include "kernels/nn/softmax_loops.h"

namespace troupe::TROUPE_ISA {
namespace {

constexpr int64_t kBlock = 2048;  // elements of a block, about
constexpr int64_t kMaxRows = 256;
constexpr int kLanes = 16;

template <class T>
T Max(const T* x, int64_t n) {
  T m = x[0];
  if (n >= 2 * kLanes) {
    T lanes[kLanes];
    for (int l = 0; l < kLanes; ++l) lanes[l] = x[l];
    int64_t i = kLanes;
    for (; i + kLanes <= n; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
    }
    for (int l = 0; l < kLanes; ++l) m = lanes[l] > m ? lanes[l] : m;
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
  if (n >= 2 * kLanes) {
    T lanes[kLanes] = {};
    for (; i + kLanes <= n; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) lanes[l] += x[i + l];
    }
    for (int l = 0; l < kLanes; ++l) s += lanes[l];
  }
  for (; i < n; ++i) s += x[i];
  return s;
}

// Calls f(first row, rows, e, sums, maxima) for blocks of rows: e = exp(x - maximum of the row) and
// its sums.
template <class T, class F>
void Blocks(const T* x, T* e, int64_t rows, int64_t columns, F f) {
  T maxima[kMaxRows], sums[kMaxRows];
  int64_t step = kBlock / columns;
  step = step < 1 ? 1 : step > kMaxRows ? kMaxRows : step;
  for (int64_t r = 0; r < rows; r += step) {
    const int64_t count = rows - r < step ? rows - r : step;
    const T* in = x + r * columns;
    T* out = e + r * columns;
    for (int64_t i = 0; i < count; ++i) {
      const T m = maxima[i] = Max(in + i * columns, columns);
      for (int64_t c = 0; c < columns; ++c) out[i * columns + c] = in[i * columns + c] - m;
    }
    f.Shifted(r, count, out);
    for (int64_t i = 0; i < count * columns; ++i) out[i] = Exp(out[i]);
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
  struct {
    int64_t columns;
    void Shifted(int64_t, int64_t, T*) {}
    void Summed(int64_t, int64_t count, T* e, const T* sums, const T*) {
      for (int64_t i = 0; i < count; ++i) Scale(e + i * columns, 1 / sums[i], columns);
    }
  } f{columns};
  Blocks(x, y, rows, columns, f);
}

// exp goes to a buffer of its own, block by block, because y must keep x - maximum.
template <class T>
void LogSoftmax(const T* x, T* y, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* in = x + r * columns;
    T* out = y + r * columns;
    const T m = Max(in, columns);
    T sum = 0;
    T e[kBlock];
    for (int64_t c = 0; c < columns; c += kBlock) {
      const int64_t n = columns - c < kBlock ? columns - c : kBlock;
      for (int64_t i = 0; i < n; ++i) e[i] = Exp(in[c + i] - m);
      sum += Sum(e, n);
    }
    const T log_sum = static_cast<T>(__builtin_log(static_cast<double>(sum)));
    for (int64_t c = 0; c < columns; ++c) out[c] = (in[c] - m) - log_sum;
  }
}

template <class T>
void CrossEntropy(const T* x, const T* labels, T* loss, T* backprop, int64_t rows, int64_t columns) {
  struct {
    const T *x, *labels;
    T* loss;
    int64_t columns;
    T totals[kMaxRows];
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
  Blocks<T, decltype(f)&>(x, backprop, rows, columns, f);
}

template <class T>
void SparseCrossEntropy(const T* x, const int64_t* label, T* loss, T* backprop, int64_t rows, int64_t columns) {
  struct {
    const int64_t* label;
    T* loss;
    int64_t columns;
    bool Valid(int64_t row) const { return label[row] >= 0 && label[row] < columns; }
    void Shifted(int64_t r, int64_t count, T* shifted) {
      for (int64_t i = 0; i < count; ++i) {
        loss[r + i] = Valid(r + i) ? -shifted[i * columns + label[r + i]] : static_cast<T>(__builtin_nan(""));
      }
    }
    void Summed(int64_t r, int64_t count, T* e, const T* sums, const T*) {
      for (int64_t i = 0; i < count; ++i) {
        Scale(e + i * columns, Valid(r + i) ? 1 / sums[i] : static_cast<T>(__builtin_nan("")), columns);
        loss[r + i] += static_cast<T>(__builtin_log(static_cast<double>(sums[i])));
        if (Valid(r + i)) e[i * columns + label[r + i]] -= 1;
      }
    }
  } f{label, loss, columns};
  Blocks(x, backprop, rows, columns, f);
}

}  // namespace

extern const SoftmaxTable kSoftmax;
const SoftmaxTable kSoftmax = {
    {&Softmax<float>, &LogSoftmax<float>, &CrossEntropy<float>, &SparseCrossEntropy<float>},
    {&Softmax<double>, &LogSoftmax<double>, &CrossEntropy<double>, &SparseCrossEntropy<double>}};

}  // namespace troupe::TROUPE_ISA
