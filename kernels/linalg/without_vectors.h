// Include before anything of Eigen's: the file has an Eigen of its own then, one that uses no
// vector instructions.
//
// For complex64. Eigen's SSE code reads a complex<float> as a double wherever it lies, also on the
// stack (pset1<Packet2cf> of arch/SSE/Complex.h), where the type's alignment is four bytes:
// undefined, and reported by UndefinedBehaviorSanitizer. The name is changed because templates of
// one name must be the same in every file.
//
// Thread rule: none, since the header only defines names.
#ifndef TROUPE_KERNELS_LINALG_WITHOUT_VECTORS_H_
#define TROUPE_KERNELS_LINALG_WITHOUT_VECTORS_H_

#ifdef EIGEN_CORE_H
#error "without_vectors.h comes too late: Eigen was included before it"
#endif
#define EIGEN_DONT_VECTORIZE
#define Eigen EigenWithoutVectors

#endif  // TROUPE_KERNELS_LINALG_WITHOUT_VECTORS_H_
