"""Records what TensorFlow draws of distributions with parameters, in tests/cases/draws/random.txt.

  TF_CPP_MIN_LOG_LEVEL=3 python tests/cases/record/draws.py

A line a node; its outputs are those of its first run and of its second.
"""
import numpy as np
import tensorflow as tf

import text

v1 = tf.compat.v1
# How many threads share a batch decides TensorFlow's truncated normal numbers.
CONFIG = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
lines = []


def case(op, inputs, kinds, **attrs):
  with tf.Graph().as_default(), v1.Session(config=CONFIG) as session:
    values = dict(zip(kinds, inputs))
    given = {k: tf.as_dtype(v) if isinstance(v, type) else v for k, v in attrs.items()}
    node = getattr(tf.raw_ops, op)(**{k: tf.constant(v) for k, v in values.items()}, **given)
    # Of a candidate sampler, the classes.
    first = node.sampled_candidates if hasattr(node, "sampled_candidates") else node
    outs = [x for _ in range(2) for x in tf.nest.flatten(session.run(first))]
  kept = {k: text.Type(np.dtype(v).name) if isinstance(v, type) else v for k, v in attrs.items()}
  lines.append(text.case_text(op, [], kept, inputs, outs))


def main():
  i32 = lambda *v: np.array(v, np.int32)
  for t in (np.float16, np.float32, np.float64):
    for alphas in ([0.3, 1.0, 2.5], [[7.0], [0.9]], 40.0):
      case("RandomGamma", [i32(7), np.array(alphas, t)], ["shape", "alpha"], seed=42, seed2=7)
    case("RandomGamma", [np.array([2, 3], np.int64), np.array([0.5, 3], t)], ["shape", "alpha"], seed=-3, seed2=1 << 40)
  for t in (np.float16, np.float32, np.float64, np.int32, np.int64):
    for out in (np.float16, np.float32, np.float64, np.int32, np.int64):
      case("RandomPoissonV2", [i32(3, 2), np.array([0, 3, 9, 10, 60], t)], ["shape", "rate"], seed=42, seed2=7, dtype=out)
  case("RandomPoissonV2", [i32(9), np.array([0.5, 1e3, 1e6], np.float64)], ["shape", "rate"], seed=5, seed2=0, dtype=np.int64)
  bounds = [(0.0, 1.0, -2.0, 2.0), (1.0, 2.0, -1.0, 10.0), (0.0, 1.0, 3.0, np.inf), (0.0, 1.0, -np.inf, -3.0), (0.0, 1.0, 0.25, 0.5), (5.0, 0.5, 4.75, 5.5), (0.0, 1.0, 1.0, 9.0)]
  names = ["shape", "means", "stdevs", "minvals", "maxvals"]
  for t in (np.float16, np.float32, np.float64):
    for b in bounds:
      case("ParameterizedTruncatedNormal", [i32(30)] + [np.array(x, t) for x in b], names, seed=42, seed2=7)
    case("ParameterizedTruncatedNormal", [i32(1, 3, 7)] + [np.array([x], t) for x in bounds[1]], names, seed=1, seed2=2)
    case("ParameterizedTruncatedNormal", [i32(1, 41)] + [np.array(x, t) for x in bounds[1]], names, seed=1, seed2=2)
  boxes = np.array([[[0.1, 0.2, 0.6, 0.7], [0.5, 0.0, 1.0, 0.4]]], np.float32)
  for t in (np.uint8, np.int32, np.int64):
    for size in ((40, 60, 3), (100, 7, 1), (1, 1, 3)):
      for a in (dict(), dict(area_range=[0.3, 0.9], aspect_ratio_range=[0.5, 2.0], max_attempts=10)):
        case("SampleDistortedBoundingBox", [np.array(size, t), boxes], ["image_size", "bounding_boxes"], seed=42, seed2=7, **a)
        case("SampleDistortedBoundingBoxV2", [np.array(size, t), boxes, np.float32(0.5)], ["image_size", "bounding_boxes", "min_object_covered"], seed=3, seed2=1, **a)
  case("SampleDistortedBoundingBox", [i32(33, 44, 3), boxes[:, :0]], ["image_size", "bounding_boxes"], seed=9, seed2=9, use_image_if_no_bounding_boxes=True)
  for op in ("UniformCandidateSampler", "LogUniformCandidateSampler"):
    for unique in (False, True):
      for size in (16, 17, 100000):
        case(op, [np.array([[1, 3], [0, 2]], np.int64)], ["true_classes"], num_true=2, num_sampled=15, unique=unique, range_max=size, seed=42, seed2=7)
  known = np.array([[1, 3], [0, 2]], np.int64)
  weights = [3.0, 0.5, 7.25, 1.0, 2.0, 0.125, 11.0, 4.0]
  for unique in (False, True):
    common = dict(num_true=2, unique=unique, seed=42, seed2=7)
    for op in ("LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler"):
      for size in (8, 9, 1000):
        case(op, [known], ["true_classes"], num_sampled=6, range_max=size, **common)
    for more in (dict(), dict(distortion=0.75), dict(num_reserved_ids=3), dict(num_reserved_ids=1, num_shards=2, shard=1)):
      kept = 4 if "shard" in more else 8 + more.get("num_reserved_ids", 0)
      case("FixedUnigramCandidateSampler", [known], ["true_classes"], num_sampled=4, range_max=kept, unigrams=weights, **common, **more)
    case("AllCandidateSampler", [known], ["true_classes"], num_sampled=5, **common)
  text.write("draws/random.txt", "draws.py", lines)
  print(len(lines), "cases")


main()
