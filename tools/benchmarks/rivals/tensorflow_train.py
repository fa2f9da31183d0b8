"""The training step of E5 and E8 in a TensorFlow graph session, as train_main.cc times ours.

    tensorflow_train.py E5|E8 THREADS FOLDER SECONDS
"""
import sys

import train_data as data
import tensorflow as tf
from tensorflow_nets import loss_of

net, threads, folder, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
v1 = tf.compat.v1
v1.disable_eager_execution()
v1.disable_resource_variables()

x = v1.placeholder(tf.float32, [None, 28, 28, 1])
t = v1.placeholder(tf.float32, [None, 10])
rate = v1.placeholder(tf.float32, [])
loss = loss_of(net, x, t)
train = v1.train.AdamOptimizer(rate).minimize(loss)

session = v1.Session(config=v1.ConfigProto(inter_op_parallelism_threads=threads, intra_op_parallelism_threads=threads))
session.run(v1.global_variables_initializer())
step = session.make_callable(train, feed_list=[x, t, rate])
batches = data.batches(folder)
data.serve(tf.__version__, seconds, lambda i: step(*batches[i % len(batches)], 1e-3))
