#!/usr/bin/env python3
"""Records tests/cases/training/pieces.txt: averages, metrics, and sampled losses of TensorFlow 1.

    python tests/cases/record/train_pieces.py

A line is a name and tensors. tests/train/pieces_test.cc builds the same.
"""
import os

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import text  # noqa: E402

tf1 = tf.compat.v1
tf1.disable_eager_execution()
lines = []


def fetched(build, steps=1):
  """What `build` returns: what to run in each step, what to fetch at the end."""
  with tf.Graph().as_default(), tf1.Session() as session:
    run, end = build()
    session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
    for i in range(steps):
      feeds = {}
      for p in tf1.get_collection("fed"):
        feeds[p] = FEEDS[p.op.name][i]
      session.run(run, feeds)
    return session.run(end)


def line(name, tensors):
  lines.append("%s | %s" % (name, " ; ".join(text.tensor_text(np.asarray(t)) for t in tensors)))


def average(num_updates, debias):
  def build():
    w = tf1.get_variable("w", initializer=np.array([1.0, -2.0, 0.5]))
    n = tf1.get_variable("n", initializer=np.int64(0), trainable=False)
    ema = tf1.train.ExponentialMovingAverage(0.75, num_updates=n if num_updates else None, zero_debias=debias)
    with tf.control_dependencies([w.assign_add([0.5, 0.25, -1.0]), n.assign_add(1)]):
      if debias:
        value = tf.identity(w.read_value(), name="value")
        update = ema.apply([value])
        return update, [ema.average(value)]
      update = ema.apply([w])
    return update, [ema.average(w)]
  return fetched(build, 5)


FEEDS = {
    "labels": [np.array([1, 0, 1, 1, 0, 0], np.int64), np.array([0, 1, 1, 0, 1, 0], np.int64)],
    "scores": [np.array([0.9, 0.2, 0.4, 0.7, 0.6, 0.1], np.float32), np.array([0.3, 0.8, 0.55, 0.5, 0.15, 0.45], np.float32)],
    "weights": [np.array([1, 2, 0.5, 1, 1, 3], np.float32), np.array([0.5, 1, 1, 2, 1, 1], np.float32)],
}


def metric(name, weighted):
  def build():
    fed = {}
    for key, kind in (("labels", tf.int64), ("scores", tf.float32), ("weights", tf.float32)):
      fed[key] = tf1.placeholder(kind, [6], name=key)
      tf1.add_to_collection("fed", fed[key])
    labels, scores, weights = fed["labels"], fed["scores"], fed["weights"] if weighted else None
    said = tf.cast(scores > 0.5, tf.int64)
    m = tf1.metrics
    value, update = {
        "mean": lambda: m.mean(scores, weights),
        "accuracy": lambda: m.accuracy(labels, said, weights),
        "precision": lambda: m.precision(labels, said, weights),
        "recall": lambda: m.recall(labels, said, weights),
        "auc_roc": lambda: m.auc(labels, scores, weights, num_thresholds=50),
        "auc_pr": lambda: m.auc(labels, scores, weights, num_thresholds=50, curve="PR"),
    }[name]()
    return update, [value]
  return fetched(build, 2)


def sampled(loss, num_true, given, hits=False):
  def build():
    w = tf1.get_variable("w", initializer=((np.arange(21).reshape(7, 3) % 8 - 3) * 0.25).astype(np.float32))
    b = tf1.get_variable("b", initializer=(np.arange(7) * 0.1 - 0.3).astype(np.float32))
    x = tf.constant((np.arange(12).reshape(4, 3) % 5 - 2) * 0.5, tf.float32)
    labels = tf.constant(np.array([[1, 5], [0, 2], [6, 3], [3, 4]])[:, :num_true], tf.int64)
    values = None
    if given:
      values = (tf.constant([5, 0, 3, 3], tf.int64), tf.constant(np.arange(1, 1 + 4 * num_true).reshape(4, -1) * 0.1, tf.float32), tf.constant([0.5, 0.25, 0.75, 0.75], tf.float32))
    else:
      values = tf.random.log_uniform_candidate_sampler(labels, num_true, 4, True, 7, seed=11)
    args = dict(weights=w, biases=b, labels=labels, inputs=x, num_sampled=4, num_classes=7, num_true=num_true, sampled_values=values)
    y = tf1.nn.nce_loss(remove_accidental_hits=hits, **args) if loss == "nce" else tf1.nn.sampled_softmax_loss(**args)
    dw, db = tf.gradients(y, [w, b])
    return y, [y, tf.convert_to_tensor(dw), tf.convert_to_tensor(db)]
  with tf.Graph().as_default(), tf1.Session() as session:
    _, end = build()
    session.run(tf1.global_variables_initializer())
    return session.run(end)


def main():
  line("average", average(False, False))
  line("average_num_updates", average(True, False))
  line("average_debiased", average(False, True))
  for name in ("mean", "accuracy", "precision", "recall", "auc_roc", "auc_pr"):
    for weighted in (False, True):
      line(name + ("_weighted" if weighted else ""), metric(name, weighted))
  for loss in ("nce", "softmax"):
    for num_true in (1, 2):
      line("%s_%d" % (loss, num_true), sampled(loss, num_true, True))
  line("nce_hits", sampled("nce", 2, True, True))
  line("nce_drawn", sampled("nce", 1, False))
  text.write("training/pieces.txt", "train_pieces.py", lines)


if __name__ == "__main__":
  main()
