"""Runs an op in TensorFlow and keeps what it gives as a case. For the recorders of values and of variables."""
import inspect
import os
import zlib

import numpy as np
import tensorflow as tf

from text import CASES, COMPLEX, FLOATS, Shape, Type, case_text  # noqa: F401: for those who import this

ORDER = FLOATS + ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"] + COMPLEX + ["bool", "string"]


def read_defs():
  defs = {}
  for line in open(os.path.join(CASES, "definitions", "ops.txt")):
    if line[0] in "#@":
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


RECORDED, REFUSED = [], {}  # (op, the case as text); op -> why TensorFlow refused cases of it
# What tf.raw_ops calls these args and attrs.
RENAMED = {"reduction_indices": "axis", "t": "x", "e": "y", "dim": "axis", "split_dim": "axis", "squeeze_dims": "axis", "input": "condition"}


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
    out = [o.numpy() for o in tf.nest.flatten(out)]
  except Exception as e:  # TensorFlow refuses it: not a case of values
    REFUSED.setdefault(op, []).append(str(e).split("\n")[0][:110])
    return
  out = [np.asarray(o, dtype=object) if isinstance(o, (bytes, str)) else np.asarray(o) for o in out]
  RECORDED.append((op, case_text(op, sizes, attrs, flat, [None if i in unset else o for i, o in enumerate(out)])))


def i32(*v):
  return np.array(v, np.int32)


def i64(*v):
  return np.array(v, np.int64)
