"""Records what TensorFlow's CPU kernels make of variables, in state_cases.txt.gz.

  TF_ENABLE_ONEDNN_OPTS=0 TF_CPP_MIN_LOG_LEVEL=3 python tests/ops/record_state_cases.py

A line a case, in the form of record_cases.py:

  Op attr=value ... | the variable before ; input ; input | the variable after ; output

The op's first input is the variable: a reference, or a resource handle. Outputs are recorded for ops that do not change the variable. Ops on
references are recorded from the op that does the same to resource variables.
"""
import numpy as np
import tensorflow as tf

import record_cases as base
from record_cases import DEFS, Type, i32, i64, values

CASES = []


def case(op, variable, *inputs, keep_output=False, **attrs):
  CASES.append((op, variable, inputs, keep_output, attrs))


def dtypes(op):
  return [t for t in base.types(op, "T" if "T" in DEFS[op]["attrs"] else "dtype") if t != "string"]


def build():
  for op in ["Assign", "AssignAdd", "AssignSub", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"]:
    for t in dtypes(op):
      case(op, values(t, (2, 3), "v"), values(t, (2, 3), "w", 0, 2))
      case(op, values(t, (), "v"), values(t, (), "w", 0, 2))
  for form in ("", "Resource"):
    for kind in ("Add", "Sub", "Mul", "Div", "Min", "Max", "Update"):
      op = form + "Scatter" + kind
      low = 1 if kind == "Div" else 0
      for t in dtypes(op):
        v = values(t, (4, 2), "v", low, 9)
        # Nobody says which of two updates of one row is the last.
        once, twice = i32(2, 0, 3), i64(1, 1, 3)
        case(op, v, once, values(t, (3, 2), "u", low, 3))
        if kind != "Update":
          case(op, v, twice, values(t, (3, 2), "u", low, 3))
        case(op, v, np.array([[0, 1], [2, 3]], np.int32), values(t, (2, 2, 2), "u", low, 3))
        case(op, v, i32(0, 2), values(t, (), "u", 1, 3))
        case(op, v, i32(), values(t, (0, 2), "u"))
    for kind in ("Add", "Sub", "Min", "Max", "Update"):
      op = form + "ScatterNd" + kind
      for t in dtypes(op):
        v = values(t, (3, 2, 2), "v", 0, 9)
        case(op, v, np.array([[2], [0]], np.int32), values(t, (2, 2, 2), "u", 0, 3))
        case(op, v, np.array([[1, 1], [0, 1]], np.int64), values(t, (2, 2), "u", 0, 3))
        case(op, v, np.array([[[2, 0, 1]], [[0, 1, 0]]], np.int32), values(t, (2, 1), "u", 0, 3))
        if kind not in ("Update",):
          case(op, v, np.array([[1, 1], [1, 1]], np.int32), values(t, (2, 2), "u", 0, 3))
  for t in base.types("ResourceGather", "dtype"):
    if t == "string":
      continue
    v = values(t, (3, 2, 2), "v")
    case("ResourceGather", v, i32(2, 0, 0), keep_output=True, dtype=Type(t))
    case("ResourceGather", v, np.array([[1], [2]], np.int64), keep_output=True, dtype=Type(t))
    case("ResourceGather", v, np.array([[1], [0], [1]], np.int32), keep_output=True, batch_dims=1, dtype=Type(t))
    case("ResourceGatherNd", v, np.array([[2, 1], [0, 0]], np.int32), keep_output=True, dtype=Type(t))
    case("ResourceGatherNd", v, np.array([[1]], np.int64), keep_output=True, dtype=Type(t))
  for t in ("int32", "int64"):
    case("CountUpTo", values(t, (), "v", 1, 3), keep_output=True, limit=5)
    case("ResourceCountUpTo", values(t, (), "v", 1, 3), keep_output=True, limit=5, T=Type(t))


# The op on resource variables that does the same as an op on references.
TWINS = {"Assign": "AssignVariableOp", "AssignAdd": "AssignAddVariableOp", "AssignSub": "AssignSubVariableOp"}


def main():
  build()
  lines, failed = [], {}
  for number, (op, variable, inputs, keep_output, attrs) in enumerate(CASES):
    by_ref = DEFS[op]["inputs"][0][1].startswith("Ref")
    twin = TWINS.get(op, "Resource" + op) if by_ref else op
    t = tf.as_dtype(variable.dtype)
    kwargs = {k: tf.as_dtype(str(x)) if isinstance(x, Type) else x for k, x in attrs.items()}
    if twin == "ResourceCountUpTo":
      kwargs["T"] = t
    try:
      with tf.device("/CPU:0"):
        v = tf.raw_ops.VarHandleOp(shape=variable.shape, dtype=t, shared_name="v%d" % number)
        tf.raw_ops.AssignVariableOp(resource=v, value=tf.constant(variable))
        for (name, _), x in zip(DEFS[twin]["inputs"], (v,) + tuple(tf.constant(x) for x in inputs)):
          kwargs[name] = x
        got = getattr(tf.raw_ops, twin)(**kwargs)
        outputs = [tf.raw_ops.ReadVariableOp(resource=v, dtype=t).numpy()] + ([got.numpy()] if keep_output else [])
    except Exception as e:  # TensorFlow refuses it: not a case of values
      failed.setdefault(op, []).append(str(e).split("\n")[0][:110])
      continue
    head = op + "".join(" %s=%s" % (k, base.attr_text(x)) for k, x in attrs.items())
    lines.append("%s | %s | %s" % (head, " ; ".join(base.tensor_text(np.asarray(x)) for x in (variable,) + inputs),
                                   " ; ".join(base.tensor_text(np.asarray(x)) for x in outputs)))
  base.write("state_cases.txt.gz", "record_state_cases.py", lines, failed)


main()
