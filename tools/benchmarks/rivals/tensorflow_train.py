"""The training step of E5 and E8 in a TensorFlow graph session, as train_main.cc times ours.

    tensorflow_train.py E5|E8 THREADS FOLDER SECONDS
"""
import sys

import train_data as data
import tensorflow as tf

net, threads, folder, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
v1 = tf.compat.v1
v1.disable_eager_execution()
v1.disable_resource_variables()

x = v1.placeholder(tf.float32, [None, 28, 28, 1])
t = v1.placeholder(tf.float32, [None, 10])
rate = v1.placeholder(tf.float32, [])


def weights(*shape):
    return v1.Variable(v1.truncated_normal(shape, stddev=0.1, seed=1))


def bias(n):
    return v1.Variable(tf.fill([n], 0.1))


def dense(value, inputs, outputs):
    return tf.nn.bias_add(tf.matmul(value, weights(inputs, outputs)), bias(outputs))


def conv(value, window, inputs, outputs, stride):
    return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(value, weights(window, window, inputs, outputs), stride, "SAME"), bias(outputs)))


if net == "E5":
    h = tf.reshape(x, [-1, 784])
    for i in range(4):
        h = tf.nn.relu(dense(h, data.MLP[i], data.MLP[i + 1]))
    logits = dense(h, 30, 10)
else:
    h = conv(conv(conv(x, 6, 1, 6, 1), 5, 6, 12, 2), 4, 12, 24, 2)
    h = tf.nn.relu(dense(tf.reshape(h, [-1, 1176]), 1176, 200))
    logits = dense(tf.nn.dropout(h, rate=0.25), 200, 10)
loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=t, logits=logits)) * 100
train = v1.train.AdamOptimizer(rate).minimize(loss)

session = v1.Session(config=v1.ConfigProto(inter_op_parallelism_threads=threads, intra_op_parallelism_threads=threads))
session.run(v1.global_variables_initializer())
step = session.make_callable(train, feed_list=[x, t, rate])
batches = data.batches(folder)
data.serve(tf.__version__, seconds, lambda i: step(*batches[i % len(batches)], 1e-3))
