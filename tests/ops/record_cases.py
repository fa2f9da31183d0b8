"""Records what TensorFlow's CPU kernels compute, in cases.txt.gz.

  TF_ENABLE_ONEDNN_OPTS=0 TF_CPP_MIN_LOG_LEVEL=3 python tests/ops/record_cases.py

Types and args of the ops come from opdefs.txt. A line a case, parts parted by " | ":

  Op <sizes of list args> attr=value ... | input ; input | output ; output

Attr values are written as in text graphs, tensors as dtype[dims]{elements}. Deterministic: the same TensorFlow gives the same file.
"""
import gzip
import inspect
import itertools
import os
import zlib

import numpy as np
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
ORDER = FLOATS + ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"] + COMPLEX + ["bool", "string"]


class Type(str):
  pass


class Shape(list):
  pass


def read_defs():
  defs = {}
  for line in open(os.path.join(HERE, "opdefs.txt")):
    if line.startswith("#"):
      continue
    name, inputs, outputs, attrs, flags, kernels = line.rstrip("\n").split("\t")
    d = {"inputs": [s.split(": ") for s in inputs.split(" ; ") if s], "outputs": [s.split(": ") for s in outputs.split(" ; ") if s],
         "flags": flags.split(), "kernels": kernels, "attrs": {}}
    for s in attrs.split(" ; "):
      if s:
        d["attrs"][s.split(": ", 1)[0]] = s.split(": ", 1)[1]
    defs[name] = d
  return defs


DEFS = read_defs()


def types(op, attr="T"):
  """The types that TensorFlow has CPU kernels for and the definition allows, in a fixed order."""
  d = DEFS[op]
  allowed = d["attrs"].get(attr, "type")
  listed = set(allowed[1:allowed.index("}")].split(", ")) if allowed.startswith("{") else set(ORDER)
  for spec in d["kernels"].split(" ; "):
    if spec.startswith(attr + "="):
      listed &= set(spec[len(attr) + 1:].split(","))
  return [t for t in ORDER if t in listed]


def rng(*key):
  return np.random.RandomState(zlib.crc32(repr(key).encode()))


def values(dtype, shape, key, low=-3.0, high=3.0):
  r = rng(dtype, shape, key)
  n = int(np.prod(shape))
  if dtype == "bool":
    v = r.randint(0, 2, n).astype(bool)
  elif dtype == "string":
    v = np.array(["s%d" % i for i in r.randint(0, 5, n)], dtype=object)
  elif dtype in COMPLEX:
    v = np.round(r.uniform(low, high, n), 2) + 1j * np.round(r.uniform(low, high, n), 2)
  elif dtype in FLOATS:
    v = np.round(r.uniform(low, high, n), 2)
  else:
    lo = max(int(low), 0) if dtype.startswith("u") else int(low)
    v = r.randint(lo, max(int(high), lo) + 1, n)
  v = v.reshape(shape)
  return v if dtype == "string" else v.astype(tf.as_dtype(dtype).as_numpy_dtype)


def scalar_text(x, dtype):
  if dtype in COMPLEX:
    return "(%s,%s)" % (float_text(x.real), float_text(x.imag))
  if dtype in FLOATS:
    return float_text(x)
  if dtype == "bool":
    return "1" if x else "0"
  if dtype == "string":
    return '"%s"' % (x.decode() if isinstance(x, bytes) else x)
  return str(int(x))


def float_text(x):
  if np.isnan(x):
    return "nan"
  if np.isinf(x):
    return "inf" if x > 0 else "-inf"
  s = str(np.float32(x)) if x.dtype.itemsize < 4 else str(x)
  return s[:-2] if s.endswith(".0") else s


def tensor_text(a):
  dtype = tf.as_dtype(a.dtype).name if a.dtype != object else "string"
  return "%s[%s]{%s}" % (dtype, ",".join(map(str, a.shape)), " ".join(scalar_text(x, dtype) for x in a.reshape(-1)))


def attr_text(v):
  if isinstance(v, Type):
    return str(v)
  if isinstance(v, Shape):
    return "[" + ",".join(map(str, v)) + "]"
  if isinstance(v, bool):
    return "true" if v else "false"
  if isinstance(v, str):
    return '"%s"' % v
  if isinstance(v, list):
    return "{" + ",".join(attr_text(x) for x in v) + "}"
  return repr(v)


LINES, FAILED = [], {}
# What tf.raw_ops calls these args.
RENAMED = {"reduction_indices": "axis", "t": "x", "e": "y"}


def case(op, *inputs, unset=(), **attrs):
  """Runs the op; a list among the inputs is a list arg. TensorFlow leaves the outputs `unset` as memory happens to be: they are recorded as none."""
  if op not in DEFS:
    return
  kwargs, flat, sizes = {}, [], []
  known = inspect.signature(getattr(tf.raw_ops, op)).parameters
  for (name, _), value in zip(DEFS[op]["inputs"], inputs):
    name = name if name in known else RENAMED[name]
    if isinstance(value, list):
      sizes.append(len(value))
      flat += value
      kwargs[name] = [tf.constant(v) for v in value]
    else:
      flat.append(value)
      kwargs[name] = tf.constant(value)
  for name, v in attrs.items():
    kwargs[name] = tf.as_dtype(str(v)) if isinstance(v, Type) else v
  try:
    with tf.device("/CPU:0"):
      out = getattr(tf.raw_ops, op)(**kwargs)
    out = [o.numpy() for o in (out if isinstance(out, (list, tuple)) else [out])]
  except Exception as e:  # TensorFlow refuses it: not a case of values
    FAILED.setdefault(op, []).append(str(e).split("\n")[0][:110])
    return
  head = op
  if sizes:
    head += " <%s>" % ",".join(map(str, sizes))
  for name, v in attrs.items():
    head += " %s=%s" % (name, attr_text(v))
  out = [np.asarray(o, dtype=object) if isinstance(o, (bytes, str)) else np.asarray(o) for o in out]
  LINES.append("%s | %s | %s" % (head, " ; ".join(tensor_text(np.asarray(a)) for a in flat), " ; ".join("none" if i in unset else tensor_text(o) for i, o in enumerate(out))))


def i32(*v):
  return np.array(v, np.int32)


def i64(*v):
  return np.array(v, np.int64)


POSITIVE = {"Log", "Log1p", "Sqrt", "Rsqrt", "Lgamma", "Digamma", "Acosh", "SqrtGrad", "RsqrtGrad"}
UNIT = {"Acos", "Asin", "Atanh"}
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 2.5, np.inf, -np.inf, np.nan, 1e-30, 100.0, -100.0])


# Not values: these ops act on frames of loops, or take a list.
FLOW = {"Enter", "Exit", "NextIteration", "LoopCond", "IdentityN"}
# Not element by element: see matrices().
SQUARE = {"Cholesky", "CholeskyGrad", "MatrixDeterminant"}


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


def mixed_math():
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


def nn():
  for op in ("Softmax", "LogSoftmax"):
    for t in types(op):
      for shape in ((2, 5), (7,), (2, 2, 3), (0, 3)):
        case(op, values(t, shape, op))
  for t in types("SoftmaxCrossEntropyWithLogits"):
    labels = np.array([[0.2, 0.3, 0.5], [0, 1, 0]]).astype(tf.as_dtype(t).as_numpy_dtype)
    case("SoftmaxCrossEntropyWithLogits", values(t, (2, 3), "x"), labels)
    case("SoftmaxCrossEntropyWithLogits", values(t, (2, 3), "x"), labels[:1])
    for labels in (i32(2, 0), i64(1, 1)):
      case("SparseSoftmaxCrossEntropyWithLogits", values(t, (2, 3), "x"), labels)
  for t in types("BiasAdd"):
    case("BiasAdd", values(t, (2, 3), "x"), values(t, (3,), "b"))
    case("BiasAdd", values(t, (2, 2, 2, 3), "x"), values(t, (3,), "b"), data_format="NHWC")
    case("BiasAdd", values(t, (2, 3, 2, 2), "x"), values(t, (3,), "b"), data_format="NCHW")
    case("BiasAddV1", values(t, (2, 3), "x"), values(t, (3,), "b"))
    case("BiasAddGrad", values(t, (2, 2, 2, 3), "x"))
    case("BiasAddGrad", values(t, (2, 3, 2, 2), "x"), data_format="NCHW")
  for t in types("L2Loss"):
    case("L2Loss", values(t, (3, 4), "x"))
    case("L2Loss", values(t, (0,), "x"))
  for op in ("LeakyRelu",):
    for t in types(op):
      case(op, values(t, (2, 4), op), alpha=0.125)
      case("LeakyReluGrad", values(t, (2, 4), "g"), values(t, (2, 4), op), alpha=0.125)
  windows = [dict(strides=[1, 1, 1, 1], padding="SAME"), dict(strides=[1, 2, 2, 1], padding="VALID"), dict(strides=[1, 2, 1, 1], padding="SAME")]
  for t in types("Conv2D"):
    x, w = values(t, (2, 5, 6, 3), "x", -1, 1), values(t, (3, 2, 3, 4), "w", -1, 1)
    extra = windows + [dict(strides=[1, 1, 1, 1], padding="VALID", dilations=[1, 2, 2, 1]),
                       dict(strides=[1, 1, 1, 1], padding="EXPLICIT", explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0])]
    for a in extra:
      case("Conv2D", x, w, **a)
      if t in FLOATS:
        y = tf.raw_ops.Conv2D(input=tf.constant(x), filter=tf.constant(w), **a).shape
        g = values(t, tuple(y), "g", -1, 1)
        case("Conv2DBackpropInput", i32(*x.shape), w, g, **a)
        case("Conv2DBackpropFilter", x, i32(*w.shape), g, **a)
    case("Conv2D", values(t, (1, 4, 4, 3), "x"), values(t, (1, 1, 3, 2), "w"), strides=[1, 1, 1, 1], padding="VALID")
    case("Conv2D", values(t, (0, 4, 4, 3), "x"), values(t, (2, 2, 3, 2), "w"), strides=[1, 1, 1, 1], padding="SAME")
  for t in types("DepthwiseConv2dNative"):
    x, w = values(t, (2, 5, 4, 2), "x", -1, 1), values(t, (3, 2, 2, 2), "w", -1, 1)
    for a in [windows[0], dict(strides=[1, 2, 2, 1], padding="VALID"), dict(strides=[1, 2, 2, 1], padding="SAME")]:
      case("DepthwiseConv2dNative", x, w, **a)
      g = values(t, tuple(tf.raw_ops.DepthwiseConv2dNative(input=tf.constant(x), filter=tf.constant(w), **a).shape), "g", -1, 1)
      case("DepthwiseConv2dNativeBackpropInput", i32(*x.shape), w, g, **a)
      case("DepthwiseConv2dNativeBackpropFilter", x, i32(*w.shape), g, **a)
  pools = [dict(ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID"), dict(ksize=[1, 3, 2, 1], strides=[1, 2, 1, 1], padding="SAME")]
  for a in pools:
    for t in types("AvgPool"):
      x = values(t, (2, 5, 4, 2), "x")
      case("AvgPool", x, **a)
      g = values(t, tuple(tf.raw_ops.AvgPool(value=tf.constant(x), **a).shape), "g")
      case("AvgPoolGrad", i32(*x.shape), g, **a)
    for t in types("MaxPool"):
      x = values(t, (2, 5, 4, 2), "x", -90, 90)
      case("MaxPool", x, **a)
      case("MaxPoolV2", x, i32(*a["ksize"]), i32(*a["strides"]), padding=a["padding"])
      if t in types("MaxPoolGrad"):
        y = tf.raw_ops.MaxPool(input=tf.constant(x), **a).numpy()
        g = values(t, y.shape, "g")
        case("MaxPoolGrad", x, y, g, **a)
        case("MaxPoolGradV2", x, y, g, i32(*a["ksize"]), i32(*a["strides"]), padding=a["padding"])
        case("MaxPoolGradGrad", x, y, values(t, x.shape, "gg"), **a)
  for op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"):
    for t in types(op):
      if t not in FLOATS:
        continue
      for shape in ((2, 3, 2, 3), (4, 1, 1, 2)):
        c = shape[-1]
        x = values(t, shape, "x")
        scale, offset, mean, var = (values("float32", (c,), k, 0.5, 2) for k in "abcd")
        empty = np.zeros((0,), np.float32)
        grad = {"FusedBatchNorm": "FusedBatchNormGrad", "FusedBatchNormV2": "FusedBatchNormGradV2", "FusedBatchNormV3": "FusedBatchNormGradV3"}[op]
        case(op, x, scale, offset, mean, var, epsilon=0.001, is_training=False, unset=(1, 2, 3, 4))
        case(op, x, scale, offset, empty, empty, epsilon=0.001, is_training=True)
        case(op, x, scale, offset, mean, var, epsilon=0.001, exponential_avg_factor=0.25, is_training=True)
        more = [values("float32", (c,), "r")] if op == "FusedBatchNormV3" else []
        case(grad, values(t, shape, "g"), x, scale, mean, var, *more, epsilon=0.001, is_training=False)
        case(grad, values(t, shape, "g"), x, scale, mean, var, *more, epsilon=0.001, is_training=True)
  for k in (1, 2, 4):
    x = values("float32", (3, 4), "top")
    for targets in (i32(0, 1, 3), i64(2, 2, 9)):
      case("InTopK", x, targets, k=k)
      case("InTopKV2", x, targets, targets.dtype.type(k))
    for t in types("TopKV2"):
      case("TopK", values(t, (3, 5), "top"), k=k)
      case("TopKV2", values(t, (2, 2, 5), "top"), np.int32(k), sorted=True)


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


def images():
  ways = [dict(), dict(align_corners=True), dict(half_pixel_centers=True)]
  sizes = [((2, 3, 4, 2), (6, 5)), ((1, 5, 7, 1), (2, 3)), ((1, 4, 4, 1), (4, 4)), ((1, 2, 2, 3), (1, 1)), ((1, 1, 3, 1), (2, 9)), ((0, 2, 2, 1), (3, 3))]
  for op in ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "ResizeArea"):
    for t in types(op):
      for (shape, size), way in itertools.product(sizes, ways[:2] if op == "ResizeArea" else ways):
        case(op, values(t, shape, op, 0, 100), i32(*size), **way)
    for shape, size, way in itertools.product([(1, 1, 1, 2), (2, 4, 1, 1)], [(3, 3), (1, 7)], ways[:2]):
      case(op, values("float32", shape, op, 0, 100), i32(*size), **way)
  for op in ("ResizeBilinearGrad", "ResizeBicubicGrad"):
    for t in types(op):
      for (shape, size), way in itertools.product(sizes, ways):
        case(op, values("float32", shape[:1] + size + shape[3:], "g"), values(t, shape, "x"), **way)
  for t in types("ResizeNearestNeighborGrad"):
    for (shape, size), way in itertools.product(sizes[:-1], ways):
      case("ResizeNearestNeighborGrad", values(t, shape[:1] + size + shape[3:], "g"), i32(*shape[1:3]), **way)
  for t in types("ExtractImagePatches"):
    x = values(t, (2, 5, 6, 2), "x", -90, 90)
    for k, s, r in [((2, 3), (1, 1), (1, 1)), ((3, 2), (2, 3), (1, 1)), ((2, 2), (1, 2), (2, 3)), ((1, 1), (1, 1), (1, 1)), ((5, 6), (9, 9), (1, 1))]:
      for padding in ("SAME", "VALID"):
        case("ExtractImagePatches", x, ksizes=[1, *k, 1], strides=[1, *s, 1], rates=[1, *r, 1], padding=padding)
  for t in types("LRN"):
    for a in [dict(), dict(depth_radius=2, bias=0.5, alpha=0.25, beta=0.75), dict(depth_radius=0, beta=1.0), dict(depth_radius=1, beta=2.0, alpha=0.5)]:
      x = values(t, (2, 2, 1, 7), "lrn", -2, 2)
      case("LRN", x, **a)
      y = tf.raw_ops.LRN(input=tf.constant(x), **a).numpy()
      case("LRNGrad", values(t, x.shape, "g"), x, y, **a)
      case("LRN", values(t, (0, 1, 1, 3), "lrn"), **a)


def crops():
  # Inside, upside down, over the edges, outside, the whole image, a point.
  corners = np.array([[0.1, 0.2, 0.7, 0.9], [0.8, 0.7, 0.2, 0.1], [-0.3, 0.1, 0.6, 1.4], [1.2, 1.3, 2.0, 1.5], [0, 0, 1, 1], [0.3, 0.4, 0.3, 0.4]], np.float32)
  image_of = i32(0, 1, 1, 0, 0, 1)
  for shape, size in [((2, 5, 4, 2), (3, 4)), ((2, 3, 6, 1), (1, 5)), ((2, 1, 4, 1), (4, 1)), ((2, 4, 4, 1), (1, 1)), ((2, 3, 3, 0), (2, 2))]:
    for t in types("CropAndResize"):
      x = values(t, shape, "crop", 0, 100)
      for method in ("bilinear", "nearest"):
        case("CropAndResize", x, corners, image_of, i32(*size), method=method, extrapolation_value=-1.5)
      if shape[3]:
        case("CropAndResizeGradBoxes", values("float32", (6,) + size + shape[3:], "g"), x, corners, image_of)
    for t in types("CropAndResizeGradImage"):
      for method in ("bilinear", "nearest"):
        case("CropAndResizeGradImage", values("float32", (6,) + size + shape[3:], "g"), corners, image_of, i32(*shape), T=Type(t), method=method)
  case("CropAndResize", values("float32", (2, 3, 3, 1), "crop"), corners[:0], image_of[:0], i32(2, 2))


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


def boxes():
  for t in types("NonMaxSuppressionV3"):
    corners = values(t, (12, 4), "boxes", 0, 4)
    corners[3] = corners[4]
    corners[5, 2] = corners[5, 0]  # without area
    scores = values(t, (12,), "scores", 0, 1)
    scores[7] = scores[8]
    number = lambda x: np.array(x, corners.dtype)
    for most, iou in itertools.product((0, 1, 3, 12, 30), (0.0, 0.25, 0.5, 1.0)):
      if t == "float32":
        case("NonMaxSuppression", corners, scores, np.int32(most), iou_threshold=iou)
      case("NonMaxSuppressionV2", corners, scores, np.int32(most), number(iou))
      case("NonMaxSuppressionV3", corners, scores, np.int32(most), number(iou), number(0.4))
      for pad in (False, True):
        case("NonMaxSuppressionV4", corners, scores, np.int32(most), number(iou), number(0.4), pad_to_max_output_size=pad)
        for sigma in (0, 0.5, 2):
          case("NonMaxSuppressionV5", corners, scores, np.int32(most), number(iou), number(0.4), number(sigma), pad_to_max_output_size=pad)
    for sigma in (0.1, 1):
      case("NonMaxSuppressionV5", corners, scores, np.int32(12), number(0.5), number(0), number(sigma))
    case("NonMaxSuppressionV3", corners[:0], scores[:0], np.int32(3), number(0.5), number(0))


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


def passing():
  """Ops that hand a value on."""
  for t in ORDER:
    x = values(t, (2, 2), "pass")
    for op in ("Identity", "StopGradient", "PreventGradient", "Snapshot", "DeepCopy"):
      case(op, x)
    case("PlaceholderWithDefault", x, shape=Shape([2, 2]))
    case("EnsureShape", x, shape=Shape([2, 2]))


# Ops whose values are recorded in tests/array.
ARRAY = {l.split(" ")[0] for l in open(os.path.join(HERE, "../array/cases.txt")) if not l.startswith("#")}


def write(name, script, lines, failed):
  text = "# What TensorFlow %s computes; recorded by %s, which tells the form.\n" % (tf.__version__, script) + "\n".join(lines) + "\n"
  with open(os.path.join(HERE, name), "wb") as raw:
    with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as f:
      f.write(text.encode())
  print("%d cases of %d ops, %d bytes" % (len(lines), len({l.split(" ")[0] for l in lines}), len(text)))
  for op, why in sorted(failed.items()):
    print("  refused:", op, len(why), why[0])


def main():
  for f in (unary, binary, reductions, segments, mixed_math, nn, matrices, orthogonal, images, crops, bands, boxes, integrals, passing):
    f()
  write("cases.txt.gz", "record_cases.py", LINES, FAILED)


if __name__ == "__main__":
  main()
