"""Records what TensorFlow's CPU kernels make of variables, in tests/cases/variables.

  TF_ENABLE_ONEDNN_OPTS=0 TF_CPP_MIN_LOG_LEVEL=3 python tests/cases/record/variables.py

The op's first inputs are the variables: references, or resource handles. Outputs of the op itself are recorded for ops that do not change the variable. Ops on
references are recorded from the op that does the same to resource variables.
"""
import numpy as np
import tensorflow as tf

import text
from tensorflow_ops import DEFS, REFUSED, Type, i32, i64, types, values

# What an element may be off by after two steps of an optimizer.
TOLERANCES = {"float32": "2e-6", "float64": "1e-13", "float16": "4e-3", "bfloat16": "3e-2", "complex64": "5e-6"}
# Optimizer -> choices of (attrs, scalars by the names of its args).
ADAM = dict(beta1_power=0.9, beta2_power=0.999, lr=0.01, beta1=0.9, beta2=0.999, epsilon=0.001)
RMS = dict(lr=0.1, rho=0.9, momentum=0.5, epsilon=0.01)
FTRL = dict(lr=0.1, l1=0.2, l2=0.3, lr_power=-0.5)
OPTIMIZERS = [
    ("GradientDescent", {}, dict(alpha=0.1)),
    ("Momentum", dict(use_nesterov=False), dict(lr=0.1, momentum=0.9)),
    ("Momentum", dict(use_nesterov=True), dict(lr=0.1, momentum=0.9)),
    ("Adam", dict(use_nesterov=False), ADAM),
    ("Adam", dict(use_nesterov=True), ADAM),
    ("Adagrad", dict(update_slots=True), dict(lr=0.1)),
    ("Adagrad", dict(update_slots=False), dict(lr=0.1)),
    ("AdagradV2", dict(update_slots=True), dict(lr=0.1, epsilon=0.01)),
    ("RMSProp", {}, RMS),
    ("CenteredRMSProp", {}, dict(RMS, epsilon=1)),
    ("Adadelta", {}, dict(lr=0.1, rho=0.9, epsilon=0.01)),
    ("Ftrl", dict(multiply_linear_by_lr=False), FTRL),
    ("Ftrl", dict(multiply_linear_by_lr=True), FTRL),
    ("Ftrl", dict(multiply_linear_by_lr=False), dict(FTRL, lr_power=-0.7)),
    ("FtrlV2", dict(multiply_linear_by_lr=False), dict(FTRL, l2_shrinkage=0.05)),
    ("FtrlV2", dict(multiply_linear_by_lr=True), dict(FTRL, l2_shrinkage=0.05)),
    ("ProximalGradientDescent", {}, dict(alpha=0.1, l1=0.2, l2=0.3)),
    ("ProximalGradientDescent", {}, dict(alpha=0.1, l1=0, l2=0.3)),
    ("ProximalAdagrad", {}, dict(lr=0.1, l1=0.2, l2=0.3)),
    ("ProximalAdagrad", {}, dict(lr=0.1, l1=0, l2=0)),
    ("AdagradDA", {}, dict(lr=0.1, l1=0.05, l2=0.3, global_step=3)),
    ("AdagradDA", {}, dict(lr=0.1, l1=0, l2=0, global_step=3)),
]

CASES = []  # of the file that is being made


def case(op, *inputs, runs=1, keep_output=False, **attrs):
  CASES.append((op, inputs, runs, keep_output, attrs))


def dtypes(op):
  return [t for t in types(op, "T" if "T" in DEFS[op]["attrs"] else "dtype") if t != "string"]


def updates():
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
  for t in types("ResourceGather", "dtype"):
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


def numbers(t, v, imaginary):
  v = np.array(v, np.float64)
  return (v + imaginary * v * 1j if t.startswith("complex") else v).astype(tf.as_dtype(t).as_numpy_dtype)


def steps(t):
  """Two steps of each optimizer that has kernels for the type."""
  n = 19 if t == "float32" else 5  # more than one vector of a loop, and a rest
  i = np.arange(n)
  for (name, attrs, scalars), form in ((o, f) for o in OPTIMIZERS for f in ("Apply", "ResourceApply")):
    op = form + name
    if t not in dtypes(op):
      continue
    inputs = []
    for k, (arg, kind) in enumerate(DEFS[op]["inputs"]):
      if is_variable(kind):
        inputs.append(numbers(t, (i - 3) * 0.5 if k == 0 else 0.125 * (i + 1 + k), 0.5))
      elif arg in ("grad", "delta"):
        inputs.append(numbers(t, (2 - i) * 0.25 + 0.125, -0.25))
      else:
        inputs.append(numbers("int64" if kind == "int64" else t, scalars[arg], 0))
    case(op, *inputs, runs=2, **attrs)


def sparse_steps(t):
  """Two steps of each optimizer on some rows, of which one is named twice."""
  n = np.arange(4 * 9 if t == "float32" else 4 * 2).reshape(4, -1)
  for name, attrs, scalars in OPTIMIZERS:
    for form, indices in ((f, i) for f in ("SparseApply", "ResourceSparseApply") for i in (i32(3, 0, 3), i64(1, 2))):
      op = form + name
      if op not in DEFS or t not in dtypes(op):
        continue
      inputs = []
      for k, (arg, kind) in enumerate(DEFS[op]["inputs"]):
        if is_variable(kind):
          inputs.append(numbers(t, (n % 7 - 3) * 0.5 if k == 0 else 0.125 * (n % 5 + 1 + k), 0.5))
        elif arg == "grad":
          inputs.append(numbers(t, (2 - n[:len(indices)] % 6) * 0.25 + 0.125, -0.25))
        elif arg == "indices":
          inputs.append(indices)
        else:
          inputs.append(numbers("int64" if kind == "int64" else t, scalars[arg], 0))
      case(op, *inputs, runs=2, **attrs)


def is_variable(kind):
  return kind.startswith("Ref(") or kind == "resource"


# The op on resource variables that does the same as an op on references.
TWINS = {"Assign": "AssignVariableOp", "AssignAdd": "AssignAddVariableOp", "AssignSub": "AssignSubVariableOp"}


def recorded():
  """The cases as text; CASES is empty afterwards."""
  lines = []
  for number, (op, inputs, runs, keep_output, attrs) in enumerate(CASES):
    kinds = [kind for _, kind in DEFS[op]["inputs"]]
    twin = TWINS.get(op, "Resource" + op) if kinds[0].startswith("Ref(") else op
    kwargs = {k: tf.as_dtype(str(x)) if isinstance(x, Type) else x for k, x in attrs.items()}
    if twin == "ResourceCountUpTo":
      kwargs["T"] = tf.as_dtype(inputs[0].dtype)
    try:
      with tf.device("/CPU:0"):
        handles = []
        for (name, _), kind, x in zip(DEFS[twin]["inputs"], kinds, inputs):
          kwargs[name] = tf.constant(x)
          if is_variable(kind):
            kwargs[name] = tf.raw_ops.VarHandleOp(shape=x.shape, dtype=x.dtype, shared_name="%s %d %d" % (x.dtype, number, len(handles)))
            tf.raw_ops.AssignVariableOp(resource=kwargs[name], value=tf.constant(x))
            handles.append((kwargs[name], x.dtype))
        for _ in range(runs):
          got = getattr(tf.raw_ops, twin)(**kwargs)
        outputs = [tf.raw_ops.ReadVariableOp(resource=h, dtype=t).numpy() for h, t in handles] + ([got.numpy()] if keep_output else [])
    except Exception as e:  # TensorFlow refuses it: not a case of values
      REFUSED.setdefault(op, []).append(str(e).split("\n")[0][:110])
      continue
    lines.append(text.case_text(op, [], attrs, inputs, outputs))
  CASES.clear()
  return lines


def main():
  updates()
  lines = recorded()
  text.write("variables/updates.txt", "variables.py", lines)
  print(len(lines), "updates")
  lines = ["@runs 2"]
  for t, tolerance in TOLERANCES.items():
    steps(t)
    lines += ["@tolerance " + tolerance] + recorded()
  text.write("variables/optimizers.txt", "variables.py", lines)
  print(sum(x[0] != "@" for x in lines), "of optimizers")
  lines = ["@runs 2"]
  for t, tolerance in TOLERANCES.items():
    sparse_steps(t)
    lines += ["@tolerance " + tolerance] + recorded()
  text.write("variables/sparse_optimizers.txt", "variables.py", lines)
  print(sum(x[0] != "@" for x in lines), "of optimizers on rows")
  for op, why in sorted(REFUSED.items()):
    print("  refused:", op, len(why), why[0])


if __name__ == "__main__":
  main()
