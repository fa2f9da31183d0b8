#!/usr/bin/env python3
"""Records tests/cases/training/optimizers.txt: twenty steps of TensorFlow 1's optimizers.

    python tests/cases/record/optimizers.py

The problem is that of tests/train/twenty_steps_test.cc: a table of which two gathers read some rows, one of them twice, and a dense vector.
"""
import os

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import text  # noqa: E402

tf1 = tf.compat.v1
tf1.disable_eager_execution()
STEPS = 20


def number(x):
  return np.float64(x)


class Adam(tf1.train.AdamOptimizer):
  """With powers in float32, as Adam has them when its constants are plain numbers, and constants in float64."""

  def _create_non_slot_variable(self, initial_value, name, colocate_with):
    return super()._create_non_slot_variable(tf.cast(initial_value, tf.float32), name, colocate_with)

  def _finish(self, update_ops, name_scope):
    powers = self._get_beta_accumulators()
    with tf.control_dependencies(update_ops), tf1.colocate_with(powers[0]):
      moved = [p.assign(p * tf.cast(b, tf.float32)) for p, b in zip(powers, (self._beta1_t, self._beta2_t))]
    return tf.group(*update_ops + moved, name=name_scope)


def optimizers(step):
  """Name in the file -> an optimizer, and what is done to the gradients."""
  t, n = tf1.train, number
  rate = lambda x: tf.constant(x, tf.float64)  # noqa: E731
  none = lambda gv: gv  # noqa: E731
  clip = lambda f: (lambda gv: list(zip(f([g for g, _ in gv]), [v for _, v in gv])))  # noqa: E731
  return {
      "GradientDescent": (t.GradientDescentOptimizer(rate(0.05)), none),
      "Momentum": (t.MomentumOptimizer(rate(0.02), rate(0.9)), none),
      "Nesterov": (t.MomentumOptimizer(rate(0.02), rate(0.9), use_nesterov=True), none),
      "Adagrad": (t.AdagradOptimizer(rate(0.3), 0.2), none),
      "AdagradDA": (t.AdagradDAOptimizer(rate(0.3), step, 0.2, n(0.01), n(0.02)), none),
      "Adadelta": (t.AdadeltaOptimizer(rate(0.5), rate(0.9), rate(0.01)), none),
      "RMSProp": (t.RMSPropOptimizer(rate(0.01), rate(0.8), rate(0.5), rate(0.01)), none),
      "CenteredRMSProp": (t.RMSPropOptimizer(rate(0.01), rate(0.8), rate(0.5), rate(1.0), centered=True), none),
      "Adam": (Adam(rate(0.05), rate(0.8), rate(0.95), rate(0.001)), none),
      "AdamW": (Adam(rate(0.05), rate(0.8), rate(0.95), rate(0.001), name="AdamW"), none),
      "Ftrl": (t.FtrlOptimizer(n(0.2), n(-0.5), 0.3, n(0.01), n(0.02)), none),
      "FtrlV2": (t.FtrlOptimizer(n(0.2), n(-0.6), 0.3, n(0.01), n(0.02), l2_shrinkage_regularization_strength=n(0.03)), none),
      "ProximalGradientDescent": (t.ProximalGradientDescentOptimizer(rate(0.05), n(0.1), n(0.2)), none),
      "ProximalAdagrad": (t.ProximalAdagradOptimizer(rate(0.3), 0.2, n(0.01), n(0.02)), none),
      "ClipByValue": (t.GradientDescentOptimizer(rate(0.05)), clip(lambda g: [tf.clip_by_value(x, n(-0.5), n(0.75)) for x in g])),
      "ClipByNorm": (t.GradientDescentOptimizer(rate(0.05)), clip(lambda g: [tf.clip_by_norm(x, n(1.5)) for x in g])),
      "ClipByGlobalNorm": (t.GradientDescentOptimizer(rate(0.05)), clip(lambda g: tf.clip_by_global_norm(g, n(1.5))[0])),
  }


def run(name):
  with tf.Graph().as_default(), tf1.Session() as session:
    w = tf1.get_variable("w", initializer=(np.arange(18).reshape(6, 3) % 7 - 3) * 0.25, use_resource=True)
    b = tf1.get_variable("b", initializer=np.array([0.5, -0.25, 0.125]), use_resource=True)
    step = tf1.train.get_or_create_global_step()
    first = tf.gather(w, [1, 4, 1]) * np.array([[1.0, 0.5, -1.0]]) - 0.75
    second = tf.gather(w, tf.constant([0, 4], tf.int64)) + b
    loss = tf.reduce_sum(first * first) + tf.reduce_sum(second * second)
    optimizer, change = optimizers(step)[name]
    grads = change(optimizer.compute_gradients(loss, [w, b]))
    assert isinstance(grads[0][0], tf.IndexedSlices)
    before = []
    if name == "AdamW":
      rows = tf.constant([0, 1, 4])
      with tf.control_dependencies([grads[0][0].values, grads[1][0]]):
        before = [w.scatter_sub(tf.IndexedSlices(0.01 * tf.gather(w, rows), rows)), b.assign_sub(0.01 * b)]
    with tf.control_dependencies(before):
      train = optimizer.apply_gradients(grads, step)
    session.run(tf1.global_variables_initializer())
    for _ in range(STEPS):
      session.run(train)
    variables = sorted((v.op.name, v) for v in tf1.global_variables() if v is not step)
    return " ; ".join("%s %s" % (n, text.tensor_text(session.run(v))) for n, v in variables)


def main():
  with tf.Graph().as_default():
    names = list(optimizers(tf1.train.get_or_create_global_step()))
  text.write("training/optimizers.txt", "optimizers.py", ["%s | %s" % (n, run(n)) for n in names])


if __name__ == "__main__":
  main()
