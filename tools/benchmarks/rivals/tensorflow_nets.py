"""The nets E5 and E8 as graphs of TensorFlow, for graph sessions."""
import tensorflow as tf

from train_data import MLP

v1 = tf.compat.v1


def weights(*shape):
    return v1.Variable(v1.truncated_normal(shape, stddev=0.1, seed=1))


def bias(n):
    return v1.Variable(tf.fill([n], 0.1))


def dense(value, inputs, outputs):
    return tf.nn.bias_add(tf.matmul(value, weights(inputs, outputs)), bias(outputs))


def conv(value, window, inputs, outputs, stride):
    return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(value, weights(window, window, inputs, outputs), stride, "SAME"), bias(outputs)))


def loss_of(net, x, t):
    """The loss of images x, [batch,28,28,1], with one-hot labels t, [batch,10]."""
    if net == "E5":
        h = tf.reshape(x, [-1, 784])
        for i in range(4):
            h = tf.nn.relu(dense(h, MLP[i], MLP[i + 1]))
        logits = dense(h, 30, 10)
    else:
        h = conv(conv(conv(x, 6, 1, 6, 1), 5, 6, 12, 2), 4, 12, 24, 2)
        h = tf.nn.relu(dense(tf.reshape(h, [-1, 1176]), 1176, 200))
        logits = dense(tf.nn.dropout(h, rate=0.25), 200, 10)
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=t, logits=logits)) * 100
