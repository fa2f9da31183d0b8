"""Records files as TensorFlow writes them: checkpoints of both formats, record files, an event file.

  TF_CPP_MIN_LOG_LEVEL=3 python tests/checkpoint/record.py tests/checkpoint/recorded

The values are such that the tests can make them again: element i of a tensor is i * 0.5 - 1 for floating
types, i for integers. Event files contain times, so that file alone differs from run to run.
"""
import glob
import os
import shutil
import sys

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
out = sys.argv[1]
shutil.rmtree(out, ignore_errors=True)
os.makedirs(out)


def ramp(dtype, shape):
  n = int(np.prod(shape, dtype=np.int64))
  dtype = tf.as_dtype(dtype)
  if dtype.is_floating or dtype.is_complex:
    values = np.arange(n, dtype=np.float64) * 0.5 - 1
  elif dtype == tf.bool:
    values = np.arange(n) % 2 == 0
  else:
    values = np.arange(n)
  return values.astype(dtype.as_numpy_dtype).reshape(shape)


STRINGS = np.array(["", "a", "words with spaces", "x" * 300, "\x00\xff".encode("latin-1")], dtype=object)
TYPES = ["float32", "float64", "int32", "uint8", "int16", "int8", "complex64", "int64", "bool", "bfloat16",
         "uint16", "complex128", "float16", "uint32", "uint64"]
tensors = [("types/" + t, "", ramp(t, [2, 3])) for t in TYPES]
tensors += [("scalar", "", ramp("float32", [])), ("empty", "", ramp("float32", [0, 3])), ("strings", "", STRINGS),
            ("zeros", "", np.zeros([700], np.float32))]
whole = ramp("float32", [5, 4])
tensors += [("rows", "5 4 0,2:-", whole[:2]), ("rows", "5 4 2,3:-", whole[2:]),
            ("columns", "5 4 -:0,3", whole[:, :3]), ("columns", "5 4 -:3,1", whole[:, 3:]),
            ("far", "70010 70000,10", ramp("uint8", [10])),
            ("farther", "8589934602 8589934592,10", ramp("uint8", [10]))]


def save_v2(path, some):
  with tf.Graph().as_default(), v1.Session() as session:
    names, slices, values = zip(*some)
    session.run(tf.raw_ops.SaveV2(prefix=path, tensor_names=list(names), shape_and_slices=list(slices),
                                  tensors=[tf.constant(v) for v in values]))


def save_slices(path, some):
  with tf.Graph().as_default(), v1.Session() as session:
    names, slices, values = zip(*some)
    session.run(tf.raw_ops.SaveSlices(filename=path, tensor_names=list(names), shapes_and_slices=list(slices),
                                      data=[tf.constant(v) for v in values]))


save_v2(os.path.join(out, "bundle"), tensors)

# Three parts, merged: slices of one tensor in different data files.
parts = [os.path.join(out, "tmp", "part%d" % i) for i in range(3)]
save_v2(parts[0], [("rows", "5 4 0,2:-", whole[:2]), ("first", "", ramp("int32", [3]))])
save_v2(parts[1], [("rows", "5 4 2,3:-", whole[2:])])
save_v2(parts[2], [("last", "", STRINGS)])
with tf.Graph().as_default(), v1.Session() as session:
  session.run(tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=os.path.join(out, "merged")))

# The first format compresses its blocks with Snappy, and has no names for some types.
known = [t for t in tensors if t[0] not in ("types/bfloat16", "types/uint32", "types/uint64", "types/uint16")]
save_slices(os.path.join(out, "first_format.ckpt"), known)
save_slices(os.path.join(out, "first_sharded-00000-of-00002"), [("rows", "5 4 0,2:-", whole[:2])])
save_slices(os.path.join(out, "first_sharded-00001-of-00002"), [("rows", "5 4 2,3:-", whole[2:])])

RECORDS = [b"", b"one", b"x" * 5000, bytes(range(256))]
for kind in ["", "ZLIB", "GZIP"]:
  with tf.io.TFRecordWriter(os.path.join(out, "records" + kind.lower()), kind) as writer:
    for record in RECORDS:
      writer.write(record)

with tf.Graph().as_default():
  writer = v1.summary.FileWriter(os.path.join(out, "events"))
  for step in range(3):
    writer.add_summary(v1.Summary(value=[v1.Summary.Value(tag="loss", simple_value=1.0 / (step + 1))]), step)
  writer.close()
for path in glob.glob(os.path.join(out, "events", "*")):
  os.rename(path, os.path.join(out, "tfevents"))
shutil.rmtree(os.path.join(out, "events"))
shutil.rmtree(os.path.join(out, "tmp"), ignore_errors=True)
if os.path.exists(os.path.join(out, "checkpoint")):
  os.remove(os.path.join(out, "checkpoint"))
