"""Records anew what TensorFlow computes for the cases of a file that are there: the inputs stay, the outputs are written.

  TF_ENABLE_ONEDNN_OPTS=0 TF_CPP_MIN_LOG_LEVEL=3 python tests/cases/record/again.py tests/cases/values/array.txt

For files of values or of gradients whose cases were written by hand. A new case has the head and the inputs, and "none" for what is to be recorded.
"""
import inspect
import os
import sys

import numpy as np
import tensorflow as tf

from tensorflow_ops import DEFS, RENAMED
from text import Type, case_text, read_attr, read_tensor


def read_case(line):
  """(op, sizes of lists, attrs, parts)."""
  head, *parts = [p.strip() for p in line.split("|")]
  words = head.split(" ")
  sizes = [int(n) for w in words[1:] if w[0] == "<" for n in w[1:-1].split(",")]
  attrs = {w.split("=", 1)[0]: read_attr(w.split("=", 1)[1]) for w in words[1:] if "=" in w}
  return words[0], sizes, attrs, [[read_tensor(t) for t in p.split(";")] if p else [] for p in parts]


def compute(op, sizes, attrs, inputs):
  known = inspect.signature(getattr(tf.raw_ops, op)).parameters
  kwargs = {k: tf.as_dtype(str(v)) if isinstance(v, Type) else v for k, v in attrs.items()}
  kwargs = {k if k in known else RENAMED[k]: v for k, v in kwargs.items()}
  at, sizes = 0, list(sizes)
  for name, kind in DEFS[op]["inputs"]:
    name = name if name in known else RENAMED[name]
    if " * " in kind or DEFS[op]["attrs"].get(kind, "").startswith("list("):
      n = sizes.pop(0)
      kwargs[name] = inputs[at:at + n]
      at += n
    else:
      kwargs[name] = inputs[at]
      at += 1
  with tf.device("/CPU:0"):
    out = getattr(tf.raw_ops, op)(**kwargs)
  if isinstance(out, tf.Operation) or out is None:
    return []
  return list(out) if isinstance(out, (list, tuple)) else [out]


def as_array(t):
  a = t.numpy()
  return np.asarray(a, dtype=object) if isinstance(a, (bytes, str)) else np.asarray(a)


def again(line, gradients):
  op, sizes, attrs, parts = read_case(line)
  inputs = [tf.constant(x) for x in parts[0]]
  if not gradients:
    return case_text(op, sizes, attrs, parts[0], [as_array(t) for t in compute(op, sizes, attrs, inputs)])
  xs = [x for x in inputs if x.dtype.is_floating or x.dtype.is_complex]
  with tf.GradientTape() as tape:
    for x in xs:
      tape.watch(x)
    ys = [y for y in compute(op, sizes, attrs, inputs) if y.dtype.is_floating or y.dtype.is_complex]
  grads = tape.gradient(ys, xs, output_gradients=[tf.constant(g) for g in parts[1]])
  return case_text(op, sizes, attrs, parts[0], parts[1], [None if g is None else as_array(tf.convert_to_tensor(g)) for g in grads])


def main():
  path = sys.argv[1]
  gradients = os.path.basename(os.path.dirname(os.path.abspath(path))) == "gradients"
  with open(path) as f:
    lines = f.read().splitlines()
  out, failed = [], 0
  for line in lines:
    try:
      out.append(line if not line or line[0] in "#@" else again(line, gradients))
    except Exception as e:  # the case stays as it is
      failed += 1
      print("kept:", line[:80], "|", str(e).split("\n")[0][:120])
      out.append(line)
  with open(path, "w") as f:
    f.write("\n".join(out) + "\n")
  print("%d cases, %d lines changed, %d kept" % (sum(1 for x in lines if x and x[0] not in "#@"), sum(a != b for a, b in zip(lines, out)), failed))


if __name__ == "__main__":
  main()
