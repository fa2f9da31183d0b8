"""Records TensorFlow's definitions of ops, and the types of its CPU kernels, in tests/cases/definitions/ops.txt.

  troupe ops --names | TF_CPP_MIN_LOG_LEVEL=3 python tests/cases/record/op_definitions.py > tests/cases/definitions/ops.txt

Reads names of ops, one a line; those that TensorFlow does not have are left out. A line an op, fields parted by tabs:

  name  inputs  outputs  attrs  flags  kernels

Inputs, outputs and attrs are specs of op definitions, parted by " ; ". Flags are words of "stateful", "commutative", "aggregate",
"uninitialized" (takes variables that have no value) and "deprecated:VERSION". Kernels are "attr=type,type" for every type attr that CPU kernels
constrain, parted by " ; "; "any" when a kernel has no constraint, "none" when there is no kernel for the CPU. Types
that TensorFlow 1.x does not have (quantities of 4 or 8 bits and such) are left out.
"""
import sys

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.python.framework import kernels as tf_kernels
from tensorflow.python.framework import op_def_registry

KNOWN = set(range(1, 24))


def type_name(number):
  if number == 20:
    return "resource"
  if number == 21:
    return "variant"
  return tf.as_dtype(number).name


def arg(a):
  kind = a.type_list_attr or a.type_attr or type_name(a.type)
  if a.number_attr:
    kind = f"{a.number_attr} * {kind}"
  return f"{a.name}: Ref({kind})" if a.is_ref else f"{a.name}: {kind}"


def shape(s):
  if s.unknown_rank:
    return "{ unknown_rank: true }"
  return "{ " + " ".join("dim { size: %d }" % d.size for d in s.dim) + " }" if s.dim else "{}"


def scalar(kind, v):
  if kind == "string":
    return '"%s"' % v.s.decode().replace("\n", "\\n").replace("\t", "\\t")
  if kind == "int":
    return str(v.i)
  if kind == "float":
    return repr(float(str(np.float32(v.f))))
  if kind == "bool":
    return "true" if v.b else "false"
  if kind == "type":
    return type_name(v.type)
  if kind == "shape":
    return shape(v.shape)
  if kind == "tensor":
    return "{ %s }" % text_format.MessageToString(v.tensor, as_one_line=True)
  raise ValueError(kind)


def default(kind, v):
  if not kind.startswith("list("):
    return scalar(kind, v)
  texts = []
  texts += ['"%s"' % s.decode() for s in v.list.s] + [str(i) for i in v.list.i] + [repr(float(str(np.float32(f)))) for f in v.list.f]
  texts += ["true" if b else "false" for b in v.list.b] + [type_name(t) for t in v.list.type] + [shape(s) for s in v.list.shape]
  return "[" + ", ".join(texts) + "]"


def attr(a):
  kind = a.type
  allowed = a.allowed_values.list
  if allowed.type:
    types = "{" + ", ".join(type_name(t) for t in sorted(allowed.type) if t in KNOWN) + "}"
    kind = f"list({types})" if kind.startswith("list") else types
  elif allowed.s:
    strings = "{" + ", ".join('"%s"' % s.decode() for s in allowed.s) + "}"
    kind = f"list({strings})" if kind.startswith("list") else strings
  text = f"{a.name}: {kind}"
  if a.has_minimum:
    text += f" >= {a.minimum}"
  if a.HasField("default_value"):
    text += " = " + default(a.type, a.default_value)
  return text


def flags(op):
  words = []
  if op.is_stateful:
    words.append("stateful")
  if op.is_commutative:
    words.append("commutative")
  if op.is_aggregate:
    words.append("aggregate")
  if op.allows_uninitialized_input:
    words.append("uninitialized")
  if op.HasField("deprecation"):
    words.append(f"deprecated:{op.deprecation.version}")
  return " ".join(words)


def kernels(name):
  types, seen = {}, False
  free = False
  for k in tf_kernels.get_registered_kernels_for_op(name).kernel:
    if k.device_type not in ("CPU", "DEFAULT") or k.label:
      continue
    if k.device_type == "DEFAULT" and seen:
      continue
    seen = True
    named = [c for c in k.constraint if c.allowed_values.list.type]
    free = free or not named
    for c in named:
      types.setdefault(c.name, set()).update(t for t in c.allowed_values.list.type if t in KNOWN)
  if not seen:
    return "none"
  if free or not types:
    return "any"
  return " ; ".join("%s=%s" % (a, ",".join(type_name(t) for t in sorted(ts))) for a, ts in sorted(types.items()))


def main():
  print(f"@from TensorFlow {tf.__version__}, by record/op_definitions.py, which tells the form")
  for name in sorted(set(sys.stdin.read().split())):
    op = op_def_registry.get(name)
    if op is None:
      continue
    print("\t".join([name, " ; ".join(arg(a) for a in op.input_arg), " ; ".join(arg(a) for a in op.output_arg),
                     " ; ".join(attr(a) for a in op.attr), flags(op), kernels(name)]))


main()
