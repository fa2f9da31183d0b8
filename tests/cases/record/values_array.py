"""Cases of diagonals, and of ops that hand a value on."""
import itertools

import numpy as np
import tensorflow as tf

from tensorflow_ops import ORDER, Shape, case, i32, types, values


def bands():
  bands = [i32(0), i32(-1, 1), i32(-2, -1), i32(1, 2), i32(1), i32(-1), np.int32(2), i32(-2, 3)]
  for t in types("MatrixDiagV3"):
    x, padding = values(t, (2, 3, 4), "bands", -90, 90), values(t, (), "padding", 7, 7)
    for k, version in itertools.product(bands if t in ("float32", "bool") else bands[:3], ("V2", "V3")):
      for align in ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT") if version == "V3" else ("",):
        attrs = {"align": align} if align else {}
        packed = getattr(tf.raw_ops, "MatrixDiagPart" + version)(input=tf.constant(x), k=k, padding_value=padding, **attrs).numpy()
        case("MatrixDiagPart" + version, x, k, padding, **attrs)
        case("MatrixSetDiag" + version, x, (packed * 2 if t != "bool" else ~packed).astype(packed.dtype), k, **attrs)
        case("MatrixDiag" + version, packed, k, np.int32(3), np.int32(4), padding, **attrs)
        case("MatrixDiag" + version, packed, k, np.int32(-1), np.int32(-1), padding, **attrs)
    case("MatrixDiagV3", x[0, 0], np.int32(-1), np.int32(-1), np.int32(5), padding)
    case("MatrixDiagPartV3", x[:0], i32(-1, 1), padding)


def passing():
  """Ops that hand a value on."""
  for t in ORDER:
    x = values(t, (2, 2), "pass")
    for op in ("Identity", "StopGradient", "PreventGradient", "Snapshot", "DeepCopy"):
      case(op, x)
    case("PlaceholderWithDefault", x, shape=Shape([2, 2]))
    case("EnsureShape", x, shape=Shape([2, 2]))
