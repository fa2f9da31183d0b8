"""Times the cases of an op of tests/cases/speed with TensorFlow, one thread, for tools/test-op.

  TF_CPP_MIN_LOG_LEVEL=3 python tests/cases/record/speed.py MatMul

A line a case: seconds of one run, the median of several samples of 50 ms.
"""
import os
import statistics
import sys
import time

import tensorflow as tf

from again import compute, read_case
from text import CASES

SAMPLES = 7


def seconds_of(op, sizes, attrs, inputs):
  # A compiled function of one node: Python's way to the kernel is some microseconds, and not the
  # kernel's.
  step = tf.function(lambda *given: compute(op, sizes, attrs, list(given)))
  step = step.get_concrete_function(*inputs)
  step(*inputs)
  samples = []
  for _ in range(SAMPLES):
    start, runs = time.perf_counter(), 0
    while time.perf_counter() - start < 0.05:
      step(*inputs)
      runs += 1
    samples.append((time.perf_counter() - start) / runs)
  return statistics.median(samples)


def main():
  tf.config.threading.set_intra_op_parallelism_threads(1)
  tf.config.threading.set_inter_op_parallelism_threads(1)
  with open(os.path.join(CASES, "speed", "ops.txt")) as f:
    for line in f:
      if line.split(" ")[0] != sys.argv[1]:
        continue
      op, sizes, attrs, parts = read_case(line)
      print("%g" % seconds_of(op, sizes, attrs, [tf.constant(x) for x in parts[0]]), flush=True)


main()
