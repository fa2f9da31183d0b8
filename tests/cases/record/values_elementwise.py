"""Cases of ops that work element by element: every op of one or two arguments that the definitions show to be such, and conversions, choices, special functions."""
import itertools
import os

import numpy as np

from tensorflow_ops import COMPLEX, DEFS, FLOATS, ORDER, Type, case, i32, types, values
from text import CASES

POSITIVE = {"Log", "Log1p", "Sqrt", "Rsqrt", "Lgamma", "Digamma", "Acosh", "SqrtGrad", "RsqrtGrad"}
UNIT = {"Acos", "Asin", "Atanh"}
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 2.5, np.inf, -np.inf, np.nan, 1e-30, 100.0, -100.0])
# Not values: these ops act on frames of loops, or take a list.
FLOW = {"Enter", "Exit", "NextIteration", "LoopCond", "IdentityN"}
# Not element by element: see values_linalg.py.
SQUARE = {"Cholesky", "CholeskyGrad", "MatrixDeterminant"}
# Recorded in values/array.txt.
with open(os.path.join(CASES, "values", "array.txt")) as f:
  ARRAY = {line.split(" ")[0] for line in f if line[0] not in "#@"}


def unary():
  for op, d in DEFS.items():
    if len(d["inputs"]) != 1 or len(d["outputs"]) != 1 or "stateful" in d["flags"] or op in ARRAY | FLOW | SQUARE:
      continue
    kind = d["inputs"][0][1]
    if kind == "bool" and len(d["attrs"]) == 0:
      case(op, values("bool", (2, 3), op))
      continue
    if kind not in ("T", "Tin") or d["attrs"].keys() - {"T", "Tout", "Tin", "alpha", "grad_a"}:
      continue
    for t in types(op, kind):
      if op == "Round" and t.startswith("int"):
        continue  # TensorFlow 2.21 gives 0 for every integer
      low, high = (0.1, 5.0) if op in POSITIVE else (-0.95, 0.95) if op in UNIT else (-3.0, 3.0)
      if op == "Softplus" and t == "bfloat16":
        high = 2.0  # beyond, TensorFlow takes the argument itself, with an error of 2%
      if op in POSITIVE and t not in FLOATS + COMPLEX:
        low = 1
      extra = {"Tout": Type("float64" if t == "complex128" else "float32")} if "Tout" in d["attrs"] else {}
      for shape in [(2, 3), (), (0, 2), (19,)]:
        if "oftmax" in op:
          continue
        case(op, values(t, shape, op, low, high), **extra)
      if t in ("float32", "float64"):
        x = SPECIAL.astype(t)
        case(op, x[np.isfinite(x)] if op == "Erf" else x, **extra)  # TensorFlow gives nan for erf(inf)


def binary():
  for op, d in DEFS.items():
    if [k for _, k in d["inputs"]] not in (["T", "T"], ["bool", "bool"]) or len(d["outputs"]) != 1 or "stateful" in d["flags"] or op in ARRAY | SQUARE:
      continue
    if d["attrs"].keys() - {"T", "Tout", "incompatible_shape_error", "tolerance", "alpha"}:
      continue
    same = op.endswith("Grad") or op == "ApproximateEqual"
    for t in types(op) if d["inputs"][0][1] == "T" else ["bool"]:
      low, high = (1, 4) if "Grad" in op or op in ("Zeta", "Igamma", "Igammac", "Polygamma") else (-3, 3)
      ylow, yhigh = low, high
      if "Shift" in op:
        low, ylow, yhigh = 0, 0, 6
      if op in ("Div", "FloorDiv", "Mod", "FloorMod", "TruncateDiv", "TruncateMod", "RealDiv", "DivNoNan") and t not in FLOATS + COMPLEX:
        ylow = 1
      if op == "Pow":
        low, ylow = (0.1, -2) if t in FLOATS + COMPLEX else (0, 0)
      if op in ("Xlogy", "Xlog1py"):
        ylow = 0.1
      shapes = [((2, 3), (2, 3)), ((0, 2), (0, 2)), ((17,), (17,))]
      if op in ("BiasAddV1", "Complex"):
        continue
      if op == "Cross":
        shapes = [((2, 3), (2, 3)), ((3,), (3,)), ((0, 3), (0, 3))]
      elif not same:
        shapes += [((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 2)), ((2, 1, 2), (3, 1)), ((0, 3), (1, 3))]
      for a, b in shapes:
        case(op, values(t, a, op + "x", low, high), values(t, b, op + "y", ylow, yhigh))
      if t in ("float32", "float64") and not same and op != "Cross":
        pair = np.array(list(itertools.product([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan], repeat=2))).astype(t)
        case(op, pair[:, 0], pair[:, 1])


def choices():
  for s in types("Cast", "SrcT"):
    if s == "string":
      continue
    for d in ORDER[:-1]:
      low, high = (0, 100) if d.startswith("u") or s.startswith("u") else (-100, 100)
      case("Cast", values(s, (2, 5), d, low, high), DstT=Type(d))
    case("Cast", values(s, (0,), "c"), DstT=Type("float32"))
  for op in ("Select", "SelectV2"):
    for t in types(op):
      case(op, values("bool", (2, 3), op), values(t, (2, 3), "a"), values(t, (2, 3), "b"))
      case(op, np.array(True), values(t, (2, 3), "a"), values(t, (2, 3), "b"))
      if op == "Select":
        case(op, np.array([True, False]), values(t, (2, 3), "a"), values(t, (2, 3), "b"))
      else:
        case(op, values("bool", (2, 1), op), values(t, (1, 3), "a"), values(t, (), "b"))
        case(op, values("bool", (3,), op), values(t, (2, 1), "a"), values(t, (2, 3), "b"))
  for t in types("ClipByValue"):
    if t not in COMPLEX:
      one = values(t, (), "o", 1, 1)
      case("ClipByValue", values(t, (2, 5), "clip", 0, 5), one, (one + one).astype(one.dtype))
      case("ClipByValue", values(t, (2, 3), "clip", 0, 5), values(t, (2, 3), "lo", 0, 1), values(t, (2, 3), "hi", 3, 4))
  for t in types("AddN"):
    for n in (1, 2, 3, 9):
      case("AddN", [values(t, (2, 3), i) for i in range(n)])
  for t in types("Bincount"):
    case("Bincount", i32(1, 2, 1, 0, 9), np.int32(5), values(t, (5,), "w"))
    case("Bincount", i32(1, 2, 1, 0, 9), np.int32(5), values(t, (0,), "w"))
  for t, c in (("float32", "complex64"), ("float64", "complex128")):
    case("Complex", values(t, (2, 3), "re"), values(t, (3,), "im"), Tout=Type(c))
    case("ComplexAbs", values(c, (2, 3), "a"), Tout=Type(t))
  for t in types("ApproximateEqual"):
    case("ApproximateEqual", values(t, (9,), "a", 0, 2), values(t, (9,), "b", 0, 2), tolerance=0.5)


def integrals():
  for t in types("Betainc"):
    a, b, x = values(t, (3, 4), "a", 0.1, 9), values(t, (3, 4), "b", 0.1, 9), values(t, (3, 4), "x", 0, 1)
    case("Betainc", a, b, x)
    case("Betainc", a[0, 0], b[0, 0], x)
    case("Betainc", a, b[0, 0], x[0, 0])
    case("Betainc", a[0, 0], b[0, 0], x[0, 0])
    case("Betainc", a[:0], b[:0], x[:0])
    edges = np.array(list(itertools.product([0.5, 1.0, 0.0, -1.0, np.nan], [2.0, 0.0], [0.0, 1.0, 0.25, -0.5, 1.5, np.nan]))).astype(t)
    case("Betainc", edges[:, 0], edges[:, 1], edges[:, 2])
  for op in ("Igamma", "Igammac", "IgammaGradA", "RandomGammaGrad"):
    for t in types(op):
      case(op, values(t, (40,), op + "a", 0.05, 3), values(t, (40,), op + "x", 0.05, 6))
      if t == "float64":  # TensorFlow's float32 loses digits there
        case(op, values(t, (20,), op + "a", 5, 30), values(t, (20,), op + "x", 5, 30))
  for t in types("Zeta"):
    case("Zeta", values(t, (40,), "zeta x", 1.1, 9), values(t, (40,), "zeta q", 0.1, 20))
    case("Polygamma", values("int32", (40,), "order", 0, 6).astype(t), values(t, (40,), "polygamma", 0.2, 20))
