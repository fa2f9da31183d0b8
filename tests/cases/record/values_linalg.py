"""Cases of decompositions and solvers."""
import itertools

import numpy as np
import tensorflow as tf

from tensorflow_ops import COMPLEX, FLOATS, case, types, values


def matrices():
  """A diagonal that dominates keeps matrices far from singular; half of it is added to the adjoint for positive definite ones."""
  def square(t, batch, n, key, definite=False):
    a = values(t, batch + (n, n), key, -1, 1)
    if definite:
      a = (a + np.conj(np.swapaxes(a, -1, -2))).astype(a.dtype)
    return (a + (2 * n if definite else 3) * np.eye(n)).astype(a.dtype)

  sizes = [((), 3), ((2,), 4), ((2, 1), 1), ((), 0), ((0,), 2), ((), 7)]
  for op in ("Cholesky", "MatrixInverse", "MatrixDeterminant", "LogMatrixDeterminant"):
    for t in types(op):
      for batch, n in sizes:
        a = square(t, batch, n, op, op == "Cholesky")
        case(op, a)
        if op == "MatrixInverse" and n:
          case(op, a, adjoint=True)
      if "Determinant" in op:
        case(op, np.array([[1, 2], [2, 4]]).astype(tf.as_dtype(t).as_numpy_dtype))
        case(op, np.array([[0, 2, 0], [1, 0, 0], [0, 0, 3]]).astype(tf.as_dtype(t).as_numpy_dtype))
  for t in types("CholeskyGrad"):
    for batch, n in [((), 3), ((2,), 2), ((), 6)]:
      l = tf.raw_ops.Cholesky(input=tf.constant(square(t, batch, n, "grad", True))).numpy()
      case("CholeskyGrad", l, np.tril(values(t, batch + (n, n), "g")))
  for t in types("MatrixSolve"):
    for batch, n in sizes:
      for adjoint in (False, True):
        case("MatrixSolve", square(t, batch, n, "solve"), values(t, batch + (n, 2), "b"), adjoint=adjoint)
  for t in types("MatrixTriangularSolve"):
    for lower, adjoint in itertools.product((False, True), (False, True)):
      case("MatrixTriangularSolve", square(t, (), 3, "solve"), values(t, (3, 2), "b"), lower=lower, adjoint=adjoint)
      case("MatrixTriangularSolve", square(t, (2, 1), 2, "solve"), values(t, (3, 2, 1), "b"), lower=lower, adjoint=adjoint)
    case("MatrixTriangularSolve", square(t, (0,), 2, "solve"), values(t, (0, 2, 1), "b"))


def orthogonal():
  sizes = [((), 3, 3), ((2,), 5, 3), ((2,), 3, 5), ((1, 2), 4, 1), ((), 7, 7), ((), 0, 2), ((2,), 3, 0), ((0,), 2, 2)]
  for t in types("Qr"):
    for (batch, m, n), full in itertools.product(sizes, (False, True)):
      case("Qr", values(t, batch + (m, n), "qr", -2, 2), full_matrices=full)
  for t in types("Svd"):
    for batch, m, n in sizes:
      a = values(t, batch + (m, n), "svd", -2, 2)
      case("Svd", a, compute_uv=False, unset=(1, 2))
      if m == 7 and t in COMPLEX:
        continue  # the factor of magnitude 1 that vectors are free to have depends on roundings
      for full in (False, True):
        case("Svd", a, full_matrices=full)
    if t in FLOATS:  # of complex numbers TensorFlow gives zeros
      case("Svd", np.full((2, 3), np.nan).astype(t))
  for t in types("SelfAdjointEigV2"):
    for batch, n in [((), 3), ((2,), 4), ((2, 1), 1), ((), 0), ((0,), 2), ((), 7)]:
      a = values(t, batch + (n, n), "eig", -2, 2)
      case("SelfAdjointEigV2", a)
      case("SelfAdjointEigV2", a, compute_v=False, unset=(1,))
  for t in types("MatrixSolveLs"):
    for (batch, m, n), fast, l2 in itertools.product(sizes, (True, False), (0, 0.5)):
      case("MatrixSolveLs", values(t, batch + (m, n), "ls", -2, 2), values(t, batch + (m, 2), "b"), np.float64(l2), fast=fast, unset=() if m else (0,))
    case("MatrixSolveLs", np.array([[1, 2], [2, 4], [3, 6]]).astype(t), np.array([[1], [2], [4]]).astype(t), np.float64(0), fast=False)
