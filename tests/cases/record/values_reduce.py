"""Cases of reductions, cumulative sums, segments and matrix products."""
import itertools

import numpy as np

from tensorflow_ops import DEFS, Type, case, i32, i64, types, values


def reductions():
  axes = [i32(), i32(0), i32(1), i32(-1), i32(0, 2), i32(1, 2), i64(2, 0, 1), np.int32(1)]
  for op in ["Sum", "Mean", "Prod", "Max", "Min", "EuclideanNorm", "All", "Any"]:
    for t in types(op) if "T" in DEFS[op]["attrs"] else ["bool"]:
      x = values(t, (2, 3, 4), op, *((1, 2) if op == "Prod" else (-3, 3)))
      for axis in axes:
        case(op, x, axis)
      case(op, x, i32(1), keep_dims=True)
      case(op, x, i32(0, 1, 2), keep_dims=True)
      case(op, values(t, (0, 3), op), i32(0))
      case(op, values(t, (2, 0), op), i64(0))
      case(op, values(t, (), op), i32())
      if (op == "Prod" and t in ("float16", "bfloat16")) or (op == "EuclideanNorm" and t == "int8"):
        continue  # TensorFlow's product rounds after every factor, and its norm overflows
      case(op, values(t, (5, 37), op, 1, 2 if op == "Prod" else 3), i32(1))
      case(op, values(t, (37, 5), op, 1, 1.1 if op == "Prod" else 3), i32(0))
  for op in ["ArgMax", "ArgMin"]:
    for t in types(op):
      x = values(t, (2, 3, 4), op)
      for axis in (np.int32(0), np.int32(1), np.int64(-1)):
        case(op, x, axis, output_type=Type("int32"))
      case(op, x[0, 0], np.int32(0))
  for op in ["Cumsum", "Cumprod"]:
    for t in types(op):
      x = values(t, (2, 3, 2), op, 1, 3)
      for axis, exclusive, reverse in itertools.product((np.int32(0), np.int64(1), np.int32(-1)), (False, True), (False, True)):
        case(op, x, axis, exclusive=exclusive, reverse=reverse)
      case(op, values(t, (0,), op), np.int32(0))


def segments():
  for op in [o for o in DEFS if o.startswith("Segment") or o.startswith("UnsortedSegment")]:
    for t in types(op):
      for ids in (i32(0, 0, 1, 3, 3), i64(1, 1, 1, 2, 4)):
        if op.startswith("Uns"):
          case(op, values(t, (5, 2), op), ids[::-1].copy(), np.int32(5))
          case(op, values(t, (5, 1), op), np.where(ids == 3, -1, ids).astype(ids.dtype), np.int64(6))
        else:
          case(op, values(t, (5, 2), op), ids)
      case(op, values(t, (0, 2), op), i32(), *([np.int32(2)] if op.startswith("Uns") else []))


def products():
  for t in types("MatMul"):
    for ta, tb in itertools.product((False, True), (False, True)):
      a, b = values(t, (4, 3) if ta else (3, 4), "a"), values(t, (5, 4) if tb else (4, 5), "b")
      case("MatMul", a, b, transpose_a=ta, transpose_b=tb)
    case("MatMul", values(t, (0, 3), "a"), values(t, (3, 2), "b"))
    case("MatMul", values(t, (2, 0), "a"), values(t, (0, 2), "b"))
    case("MatMul", values(t, (17, 19), "a", -1, 1), values(t, (19, 1), "b", -1, 1))
  for op in ("BatchMatMul", "BatchMatMulV2"):
    for t in types(op):
      for ta, tb in itertools.product((False, True), (False, True)):
        case(op, values(t, (2, 4, 3) if ta else (2, 3, 4), "a"), values(t, (2, 5, 4) if tb else (2, 4, 5), "b"), adj_x=ta, adj_y=tb)
      if op == "BatchMatMulV2":
        case(op, values(t, (2, 1, 2, 3), "a"), values(t, (3, 3, 2), "b"))
      case(op, values(t, (0, 2, 3), "a"), values(t, (0, 3, 2), "b"))
