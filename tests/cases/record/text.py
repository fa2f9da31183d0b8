"""The form of recorded cases (README.md) in Python: values as text and back, and whole files."""
import os
import re

import numpy as np
import tensorflow as tf

CASES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(os.path.dirname(CASES))
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]


class Type(str):
  """The value of an attr that is a dtype."""


class Shape(list):
  """The value of an attr that is a shape."""


def scalar_text(x, dtype):
  if dtype in COMPLEX:
    return "(%s,%s)" % (float_text(x.real), float_text(x.imag))
  if dtype in FLOATS:
    return float_text(x)
  if dtype == "bool":
    return "1" if x else "0"
  if dtype == "string":
    return quoted(x if isinstance(x, bytes) else x.encode())
  return str(int(x))


def quoted(data):
  """A string as in C: every byte that is no plain character as three octal digits."""
  return '"%s"' % "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else "\\%03o" % c for c in data)


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
    return quoted(v.encode())
  if isinstance(v, list):
    return "{" + ",".join(attr_text(x) for x in v) + "}"
  return repr(v)


def read_tensor(text):
  """The array of "float32[2]{1 2}"; None for "none"."""
  m = re.fullmatch(r"\s*(\w+)\[([\d,]*)\]\{(.*)\}\s*", text)
  if not m:
    return None
  dtype, dims, words = m.group(1), [int(d) for d in m.group(2).split(",") if d], m.group(3)
  if words == "*":  # as in case_file.cc
    i = np.arange(int(np.prod(dims)))
    numbers = i * 7919 % 1001 * 1e-3 - 0.5 if dtype in FLOATS + COMPLEX else i * 7 % 11
    return numbers.astype(tf.as_dtype(dtype).as_numpy_dtype).reshape(dims)
  if dtype == "string":
    return np.array(re.findall(r'"([^"]*)"', words), dtype=object).reshape(dims)
  of = {"bool": lambda w: w == "1"}
  of.update({t: lambda w: complex(*map(float, w[1:-1].split(","))) for t in COMPLEX})
  of.update({t: float for t in FLOATS})
  numbers = [of.get(dtype, int)(w) for w in words.split()]
  return np.array(numbers).astype(tf.as_dtype(dtype).as_numpy_dtype).reshape(dims)


def read_attr(text):
  if text.startswith('"'):
    return text[1:-1]
  if text.startswith("{"):
    return [read_attr(w) for w in text[1:-1].split(",") if w]
  if text.startswith("["):
    return Shape(int(w) for w in text[1:-1].split(",") if w)
  if text in ("true", "false"):
    return text == "true"
  if re.fullmatch(r"-?\d+", text):
    return int(text)
  return float(text) if re.match(r"-?[\d.]", text) else Type(text)


def case_text(op, sizes, attrs, *parts):
  head = op + (" <%s>" % ",".join(map(str, sizes)) if sizes else "") + "".join(" %s=%s" % (k, attr_text(v)) for k, v in attrs.items())
  return " | ".join([head] + [" ; ".join("none" if x is None else tensor_text(np.asarray(x)) for x in part) for part in parts])


def write(path, script, lines):
  """A file of cases, `path` below tests/cases."""
  path = os.path.join(CASES, path)
  os.makedirs(os.path.dirname(path), exist_ok=True)
  with open(path, "w") as f:
    f.write("@from TensorFlow %s, by record/%s\n" % (tf.__version__, script) + "\n".join(lines) + "\n")


def rooms():
  """op -> the folder of kernels/ that defines it."""
  found, kernels = {}, os.path.join(ROOT, "kernels")
  for folder, _, files in os.walk(kernels):
    for name in files:
      if folder != kernels and name.endswith((".cc", ".h")):
        with open(os.path.join(folder, name)) as f:
          for op in re.findall(r'\bTROUPE_\w+\(\s*"?([A-Z_]\w+)"?', f.read()):
            found.setdefault(op, os.path.relpath(folder, kernels).split(os.sep)[0])
  return found
