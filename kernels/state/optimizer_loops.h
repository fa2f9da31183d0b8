// The inner loops of the optimizers: one pass over a variable, its slots and its gradient.
//
// Float and double run at the processor's instruction level (optimizer_loops_isa.cc), the other
// types at the baseline. All pointers are distinct buffers of n elements. Formulas are those of
// TensorFlow's kernels, in its order of operations.
//
// Thread rule: a loop runs on the calling thread; what it writes belongs to the caller.
#ifndef TROUPE_KERNELS_STATE_OPTIMIZER_LOOPS_H_
#define TROUPE_KERNELS_STATE_OPTIMIZER_LOOPS_H_

#include <cstdint>

namespace troupe::state {

template <class T>
struct OptimizerLoops {
  // var -= alpha * delta
  void (*gradient_descent)(T* var, const T* delta, T alpha, int64_t n);
  // accum = momentum * accum + grad; var -= lr * accum, or lr * (grad + momentum * accum)
  void (*momentum)(T* var, T* accum, const T* grad, T lr, T momentum, bool nesterov, int64_t n);
  // m += (1 - beta1) (grad - m); v += (1 - beta2) (grad^2 - v); var -= alpha * m / (sqrt(v) +
  // epsilon)
  void (*adam)(T* var, T* m, T* v, const T* grad, T alpha, T beta1, T beta2, T epsilon, bool nesterov, int64_t n);
  // accum += grad^2; var -= lr * grad / sqrt(accum)
  void (*adagrad)(T* var, T* accum, const T* grad, T lr, bool update_slots, int64_t n);
  // accum += grad^2; var -= lr * grad / (sqrt(accum) + epsilon)
  void (*adagrad_v2)(T* var, T* accum, const T* grad, T lr, T epsilon, bool update_slots, int64_t n);
  // ms += (1 - rho) (grad^2 - ms); mom = momentum * mom + lr * grad / sqrt(ms + epsilon); var -=
  // mom
  void (*rms_prop)(T* var, T* ms, T* mom, const T* grad, T lr, T rho, T momentum, T epsilon, int64_t n);
  // as rms_prop with mg += (1 - rho) (grad - mg) and the denominator sqrt(ms - mg^2 + epsilon)
  void (*centered_rms_prop)(T* var, T* mg, T* ms, T* mom, const T* grad, T lr, T rho, T momentum, T epsilon, int64_t n);
  // accum = rho * accum + (1 - rho) grad^2; u = sqrt(accum_update + epsilon) / sqrt(accum +
  // epsilon) * grad; accum_update likewise from u; var -= lr * u
  void (*adadelta)(T* var, T* accum, T* accum_update, const T* grad, T lr, T rho, T epsilon, int64_t n);
};

// The loops of T: float, double, Half, BFloat16, std::complex<float> or std::complex<double>.
template <class T>
const OptimizerLoops<T>& Loops();

}  // namespace troupe::state

#endif  // TROUPE_KERNELS_STATE_OPTIMIZER_LOOPS_H_
