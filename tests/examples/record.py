#!/usr/bin/env python3
"""Records tests/examples/recorded: a training that TensorFlow began, and how TensorFlow goes on with it.

    TF_CPP_MIN_LOG_LEVEL=3 python tests/examples/record.py tests/examples/recorded

A small net learns a fixed batch by Adam: a checkpoint with its MetaGraph after ten steps, and in
losses.txt the losses of the twenty steps that follow.
"""
import os
import shutil
import sys

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

tf1 = tf.compat.v1
tf1.disable_eager_execution()


def main():
  out = sys.argv[1]
  shutil.rmtree(out, ignore_errors=True)
  os.makedirs(out)
  def ramp(shape):
    return (np.arange(np.prod(shape)) * 7 % 11 * 0.1 - 0.5).astype(np.float32).reshape(shape)
  x, y = tf.constant(ramp([8, 3])), tf.constant(ramp([8, 1]) ** 2)
  w1, b1 = tf1.get_variable("hidden/kernel", initializer=ramp([3, 4])), tf1.get_variable("hidden/bias", initializer=ramp([4]))
  w2, b2 = tf1.get_variable("out/kernel", initializer=ramp([4, 1])), tf1.get_variable("out/bias", initializer=ramp([1]))
  error = tf.tanh(x @ w1 + b1) @ w2 + b2 - y
  loss = tf.reduce_mean(tf.square(error), name="loss")
  step = tf1.train.get_or_create_global_step()
  train = tf1.train.AdamOptimizer(0.02).minimize(loss, global_step=step, name="train")
  tf1.add_to_collection(tf1.GraphKeys.LOSSES, loss)
  tf1.add_to_collection(tf1.GraphKeys.TRAIN_OP, train)
  saver = tf1.train.Saver()
  with tf1.Session() as session:
    session.run(tf1.global_variables_initializer())
    for _ in range(10):
      session.run(train)
    saver.save(session, os.path.join(out, "model"), global_step=step, write_state=False, strip_default_attrs=True)
    losses = [session.run([loss, train])[0] for _ in range(20)]
  with open(os.path.join(out, "losses.txt"), "w") as f:
    f.write("\n".join("%.9g" % v for v in losses) + "\n")


if __name__ == "__main__":
  main()
