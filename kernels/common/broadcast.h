// Broadcasts two or more operands to one shape, as a walk over runs of elements.
//
// The dimensions of the output are collapsed: dimensions of size one vanish, and neighbouring
// dimensions in which every operand behaves alike (advances or stands still) become one. The result
// is a short list of dimensions; the innermost is the run that an inner loop handles at once.
// Offsets and sizes count elements.
//
// Source of the semantics: NumPy's broadcasting, as in TensorFlow. Thread rule: const methods may
// be called from several threads.
#ifndef TROUPE_KERNELS_COMMON_BROADCAST_H_
#define TROUPE_KERNELS_COMMON_BROADCAST_H_

#include <array>

#include "absl/container/inlined_vector.h"
#include "troupe/tensor.h"

namespace troupe::math {

// The walk of N operands. REQUIRES: every operand's shape broadcasts to `out`.
template <int N>
class BroadcastWalk {
 public:
  BroadcastWalk(const TensorShape& out, const std::array<const Tensor*, N>& operands) {
    std::array<int64_t, N> size;  // elements in the dimensions seen so far
    size.fill(1);
    uint32_t previous = 0;
    for (int i = out.rank() - 1; i >= 0; --i) {
      const int64_t d = out.dim(i);
      if (d == 1) continue;
      uint32_t advances = 0;
      for (int k = 0; k < N; ++k) {
        const int at = i - (out.rank() - operands[k]->rank());
        if (at >= 0 && operands[k]->dim(at) != 1) advances |= 1u << k;
      }
      if (!dims_.empty() && advances == previous) {
        dims_.back().size *= d;
      } else {
        Dim dim{d, {}};
        for (int k = 0; k < N; ++k) dim.stride[k] = (advances >> k & 1) ? size[k] : 0;
        dims_.push_back(dim);
        previous = advances;
      }
      for (int k = 0; k < N; ++k) {
        if (advances >> k & 1) size[k] *= d;
      }
    }
    if (dims_.empty()) dims_.push_back({1, {}});
  }

  // Elements of a run, and whether operand k advances in it (by one element) or stands still.
  int64_t run() const { return dims_[0].size; }
  bool advances(int k) const { return dims_[0].stride[k] != 0; }
  int num_dims() const { return static_cast<int>(dims_.size()); }

  // Calls f(offsets of the operands, offset in the output, n) for pieces of runs that make up
  // elements [begin, end) of the output.
  template <class F>
  void ForRange(int64_t begin, int64_t end, F&& f) const {
    const int rank = num_dims();
    absl::InlinedVector<int64_t, 8> index(rank);
    std::array<int64_t, N> offset{};
    int64_t rest = begin;
    for (int i = 0; i < rank; ++i) {
      index[i] = rest % dims_[i].size;
      rest /= dims_[i].size;
      for (int k = 0; k < N; ++k) offset[k] += index[i] * dims_[i].stride[k];
    }
    for (int64_t at = begin; at < end;) {
      const int64_t n = std::min(dims_[0].size - index[0], end - at);
      f(offset, at, n);
      at += n;
      // The next run: only the first may start inside.
      for (int k = 0; k < N; ++k) offset[k] -= index[0] * dims_[0].stride[k];
      index[0] = 0;
      for (int i = 1; i < rank; ++i) {
        for (int k = 0; k < N; ++k) offset[k] += dims_[i].stride[k];
        if (++index[i] < dims_[i].size) break;
        for (int k = 0; k < N; ++k) offset[k] -= dims_[i].size * dims_[i].stride[k];
        index[i] = 0;
      }
    }
  }

 private:
  struct Dim {
    int64_t size;
    std::array<int64_t, N> stride;
  };
  absl::InlinedVector<Dim, 6> dims_;  // innermost first
};

// The shape that two tensors broadcast to; INVALID_ARGUMENT "Incompatible shapes: [..] vs. [..]".
absl::StatusOr<TensorShape> BroadcastTensors(const Tensor& a, const Tensor& b);

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_COMMON_BROADCAST_H_
