#!/usr/bin/env python3
"""Records tests/cases/training/layers.txt: what TensorFlow's ops make of the variables of layers.

    python tests/cases/record/layers.py

A line is a name, the outputs, and the gradients of the sum of the outputs' squares with respect to the
inputs and variables. tests/train/layers_recorded_test.cc builds the same. Every input and variable
number k is numbers(shape, k).
"""
import os

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import text  # noqa: E402

lines = []


def numbers(shape, k):
  i = np.arange(int(np.prod(shape)))
  return tf.constant(((i * 7 + k * 3) % 11 * 0.1 - 0.5).astype(np.float32).reshape(shape))


def record(name, shapes, f):
  """`f` of tensors of these shapes gives a list of outputs."""
  xs = [numbers(shape, k) for k, shape in enumerate(shapes)]
  with tf.GradientTape() as tape:
    tape.watch(xs)
    ys = f(*xs)
    loss = tf.add_n([tf.reduce_sum(y * y) for y in ys])
  grads = tape.gradient(loss, xs, unconnected_gradients="zero")
  tensors = list(ys) + [tf.convert_to_tensor(g) for g in grads]
  lines.append("%s | %s" % (name, " ; ".join(text.tensor_text(t.numpy()) for t in tensors)))


def transposed(strides, padding, shape):
  def f(x, w, b):
    return [tf.nn.conv2d_transpose(x, w, shape, strides, padding) + b]
  return f


def separable(x, depth, point, b):
  return [tf.nn.relu(tf.nn.separable_conv2d(x, depth, point, [1, 2, 2, 1], "SAME") + b)]


def depthwise(x, w, b):
  return [tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "VALID", dilations=[2, 2]) + b]


def lengths_of(n, lengths):
  return tf.cast(tf.range(n)[:, None] < tf.constant(lengths), tf.float32)[:, :, None]


def lstm(lengths=None):
  """The op of the fused cell. Its gates are those of BasicLSTMCell."""
  def f(x, w, b):
    time, batch, _ = x.shape
    units = b.shape[0] // 4
    zero, none = tf.zeros([batch, units]), tf.zeros([units])
    if lengths is None:
      r = tf.raw_ops.BlockLSTM(seq_len_max=time, x=x, cs_prev=zero, h_prev=zero, w=w, wci=none, wcf=none, wco=none, b=b,
                               forget_bias=0.5, cell_clip=-1)
      return [r.h, r.cs[-1], r.h[-1]]
    live = lengths_of(time, lengths)
    c, h, all_h = zero, zero, []
    for t in range(time):
      r = tf.raw_ops.BlockLSTM(seq_len_max=1, x=x[t:t + 1], cs_prev=c, h_prev=h, w=w, wci=none, wcf=none, wco=none, b=b,
                               forget_bias=0.5, cell_clip=-1)
      c, h = live[t] * r.cs[0] + (1 - live[t]) * c, live[t] * r.h[0] + (1 - live[t]) * h
      all_h.append(live[t] * h)
    return [tf.stack(all_h), c, h]
  return f


def gru(reverse):
  def f(x, wg, bg, wc, bc):
    h, all_h = tf.zeros([x.shape[1], bc.shape[0]]), []
    for t in range(x.shape[0])[::-1 if reverse else 1]:
      r, u = tf.split(tf.sigmoid(tf.concat([x[t], h], 1) @ wg + bg), 2, 1)
      c = tf.tanh(tf.concat([x[t], r * h], 1) @ wc + bc)
      h = u * h + (1 - u) * c
      all_h.append(h)
    return [tf.stack(all_h[::-1] if reverse else all_h), h]
  return f


def batch_norm(x, gamma, beta, mean, variance):
  """Its outputs, and what moving averages become."""
  if len(x.shape) == 4:
    y, m, v = tf.compat.v1.nn.fused_batch_norm(x, gamma, beta, epsilon=0.01, is_training=True)
  else:
    m, v = tf.nn.moments(x, [0])
    y = tf.nn.batch_normalization(x, m, v, beta, gamma, 0.01)
  return [y, tf.stop_gradient(0.9 * mean + 0.1 * m), tf.stop_gradient(0.9 * variance + 0.1 * v)]


def batch_norm_inference(x, gamma, beta, mean, variance):
  return [tf.nn.batch_normalization(x, tf.stop_gradient(mean), tf.stop_gradient(variance + 1), beta, gamma, 0.01)]


def layer_norm(x, gamma, beta):
  m, v = tf.nn.moments(x, [-1], keepdims=True)
  return [tf.nn.batch_normalization(x, m, v, beta, gamma, 0.01)]


def attention(causal, mask=None):
  """Two heads of three."""
  def f(x, source, wq, bq, wk, bk, wv, bv, wo, bo):
    def parted(of, w, b):
      return tf.transpose(tf.reshape(of @ w + b, [2, -1, 2, 3]), [0, 2, 1, 3])
    q, k, v = parted(x, wq, bq), parted(source, wk, bk), parted(source, wv, bv)
    fit = tf.matmul(q, k, transpose_b=True) / np.sqrt(3.0)
    seen = tf.ones_like(fit)
    if causal:
      seen = tf.linalg.band_part(seen, -1, 0)
    if mask is not None:
      seen *= tf.reshape(tf.constant(mask, tf.float32), [2, 1, 1, -1])
    y = tf.matmul(tf.nn.softmax(tf.where(seen > 0, fit, -1e9)), v)
    return [tf.reshape(tf.transpose(y, [0, 2, 1, 3]), [2, -1, 6]) @ wo + bo]
  return f


def sparse(combiner, weighted):
  indices, ids = [[0, 0], [0, 1], [1, 0], [3, 0], [3, 1], [3, 2]], [4, 0, 2, 4, 4, 1]
  weights = [0.5, 1.5, 2.0, 1.0, -0.25, 0.75]
  def f(table):
    of = lambda v: tf.SparseTensor(indices, v, [4, 3])
    return [tf.nn.embedding_lookup_sparse(table, of(ids), of(weights) if weighted else None, combiner=combiner)]
  return f


def main():
  record("transposed_same", [[2, 3, 4, 2], [3, 3, 3, 2], [3]], transposed([2, 1], "SAME", [2, 6, 4, 3]))
  record("transposed_valid", [[1, 2, 3, 2], [3, 2, 3, 2], [3]], transposed([2, 3], "VALID", [1, 5, 9, 3]))
  record("separable", [[2, 5, 4, 2], [3, 3, 2, 2], [1, 1, 4, 3], [3]], separable)
  record("depthwise", [[1, 6, 5, 2], [2, 2, 2, 3], [6]], depthwise)
  record("lstm", [[4, 2, 3], [5, 8], [8]], lstm())
  record("lstm_lengths", [[4, 2, 3], [5, 8], [8]], lstm([3, 1]))
  record("gru", [[3, 2, 3], [5, 4], [4], [5, 2], [2]], gru(False))
  record("gru_reverse", [[3, 2, 3], [5, 4], [4], [5, 2], [2]], gru(True))
  record("batch_norm_4", [[2, 3, 2, 3]] + [[3]] * 4, batch_norm)
  record("batch_norm_2", [[5, 3]] + [[3]] * 4, batch_norm)
  record("batch_norm_4_inference", [[2, 3, 2, 3]] + [[3]] * 4, batch_norm_inference)
  record("batch_norm_2_inference", [[5, 3]] + [[3]] * 4, batch_norm_inference)
  record("layer_norm", [[2, 3, 4], [4], [4]], layer_norm)
  shapes = [[4, 6], [6], [5, 6], [6], [5, 6], [6], [6, 3], [3]]
  record("attention", [[2, 3, 4], [2, 4, 5]] + shapes, attention(False, [[1, 1, 0, 1], [0, 1, 1, 1]]))
  record("attention_causal", [[2, 3, 4], [2, 4, 5]] + shapes, attention(True))
  for combiner in ("sum", "mean", "sqrtn"):
    for weighted in (False, True):
      record("sparse_%s%s" % (combiner, "_weighted" if weighted else ""), [[5, 3]], sparse(combiner, weighted))
  text.write("training/layers.txt", "layers.py", lines)


if __name__ == "__main__":
  main()
