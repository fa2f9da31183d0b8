// Loop templates over one function of one or two elements: F::Do(x) or F::Do(x, y). Everything has
// internal linkage, so that every instruction level of a *_isa.cc file keeps its own copy.
//
// Thread rule: a loop runs on the calling thread; what it writes belongs to the caller. Tables are
// filled by one thread.
#ifndef TROUPE_KERNELS_ELEMENTWISE_LOOPS_H_
#define TROUPE_KERNELS_ELEMENTWISE_LOOPS_H_

#include "kernels/elementwise/hot_loops.h"

namespace troupe::math {
namespace {

template <class F, class T, class R>
void LoopVV(const void* a, const void* b, void* out, int64_t n) {
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  R* z = static_cast<R*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) z[i] = F::Do(x[i], y[i]);
}
template <class F, class T, class R>
void LoopSV(const void* a, const void* b, void* out, int64_t n) {
  const T x = *static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  R* z = static_cast<R*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) z[i] = F::Do(x, y[i]);
}
template <class F, class T, class R>
void LoopVS(const void* a, const void* b, void* out, int64_t n) {
  const T* x = static_cast<const T*>(a);
  const T y = *static_cast<const T*>(b);
  R* z = static_cast<R*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) z[i] = F::Do(x[i], y);
}
template <class F, class T, class R>
void LoopV(const void* a, void* out, int64_t n) {
  const T* x = static_cast<const T*>(a);
  R* z = static_cast<R*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) z[i] = F::Do(x[i]);
}

template <class F, class T, class R>
void Fill(HotLoops* loops, HotBinary op, HotType type, float cost) {
  loops->binary[static_cast<int>(op)][static_cast<int>(type)] = {LoopVV<F, T, R>, LoopSV<F, T, R>, LoopVS<F, T, R>,
                                                                 cost};
}
template <class F, class T>
void Fill(HotLoops* loops, HotUnary op, HotType type, float cost) {
  loops->unary[static_cast<int>(op)][static_cast<int>(type)] = {LoopV<F, T, T>, cost};
}

}  // namespace
}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_LOOPS_H_
