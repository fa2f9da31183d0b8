"""Writes frozen graphs of well-known networks with random weights, as TensorFlow 1 froze them: nothing is folded.

    networks.py FOLDER NAME...       one file FOLDER/NAME.pb each; "x" is the input, "out" the output
"""
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1
v1.disable_eager_execution()
v1.logging.set_verbosity(v1.logging.ERROR)
random = np.random.RandomState(0)


def weights(shape, deviation):
    return tf.constant(random.normal(0, deviation, shape).astype(np.float32))


def vector(n, low=-0.1, high=0.1):
    return tf.constant(random.uniform(low, high, [n]).astype(np.float32))


# Layers of image networks.
def channels(x):
    return int(x.shape[-1])


def norm(x):
    n = channels(x)
    return v1.nn.fused_batch_norm(x, vector(n, 0.8, 1.2), vector(n), mean=vector(n), variance=vector(n, 0.5, 1.5), epsilon=1e-3, is_training=False)[0]


def conv(x, window, outputs, stride=1, padding="SAME", activation=tf.nn.relu, normed=True):
    height, width = window if isinstance(window, tuple) else (window, window)
    filters = weights([height, width, channels(x), outputs], np.sqrt(2 / (height * width * channels(x))))
    y = v1.nn.conv2d(x, filters, strides=[1, stride, stride, 1], padding=padding)
    y = norm(y) if normed else tf.nn.bias_add(y, vector(outputs))
    return activation(y) if activation else y


def depthwise(x, window, stride=1, activation=tf.nn.relu6):
    y = v1.nn.depthwise_conv2d_native(x, weights([window, window, channels(x), 1], np.sqrt(2) / window), strides=[1, stride, stride, 1], padding="SAME")
    return activation(norm(y))


def dense(x, outputs, activation=None):
    y = tf.nn.bias_add(tf.matmul(x, weights([channels(x), outputs], np.sqrt(1 / channels(x)))), vector(outputs))
    return activation(y) if activation else y


def max_pool(x, window, stride, padding="SAME"):
    return tf.nn.max_pool2d(x, window, stride, padding)


def classes(x, n=1000):
    """The mean of each channel, and a dense layer."""
    return tf.nn.softmax(dense(tf.reduce_mean(x, [1, 2]), n))


def swish(x):
    return x * tf.sigmoid(x)


# The image networks.
def resnet50(x):
    y = max_pool(conv(tf.pad(x, [[0, 0], [3, 3], [3, 3], [0, 0]]), 7, 64, 2, "VALID"), 3, 2)
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            stride = 2 if block == 0 and width > 64 else 1
            cut = conv(y, 1, 4 * width, stride, activation=None) if block == 0 else y
            z = conv(conv(y, 1, width), 3, width, stride)
            y = tf.nn.relu(conv(z, 1, 4 * width, activation=None) + cut)
    return classes(y)


def mobilenetv1(x):
    y = conv(x, 3, 32, 2, activation=tf.nn.relu6)
    for outputs, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)):
        y = conv(depthwise(y, 3, stride), 1, outputs, activation=tf.nn.relu6)
    return classes(y)


def mobilenetv2(x):
    y = conv(x, 3, 32, 2, activation=tf.nn.relu6)
    for expansion, outputs, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(blocks):
            z = conv(y, 1, channels(y) * expansion, activation=tf.nn.relu6) if expansion > 1 else y
            z = conv(depthwise(z, 3, stride if block == 0 else 1), 1, outputs, activation=None)
            y = y + z if block else z
    return classes(conv(y, 1, 1280, activation=tf.nn.relu6))


def inception_branches(x, branches, pooled=None):
    """branches: lists of (window, outputs, stride, padding); `pooled`: a branch behind a pool, or the pool itself."""
    ends = []
    for branch in branches:
        y = x
        for layer in branch:
            y = conv(y, *layer)
        ends.append(y)
    if pooled is not None:
        ends.append(pooled)
    return tf.concat(ends, 3)


def inceptionv3(x):
    average = lambda y: tf.nn.avg_pool2d(y, 3, 1, "SAME")
    half = lambda y: max_pool(y, 3, 2, "VALID")
    y = conv(conv(conv(x, 3, 32, 2, "VALID"), 3, 32, 1, "VALID"), 3, 64)
    y = half(conv(conv(half(y), 1, 80, 1, "VALID"), 3, 192, 1, "VALID"))
    for pool in (32, 64, 64):
        y = inception_branches(y, [[(1, 64)], [(1, 48), (5, 64)], [(1, 64), (3, 96), (3, 96)]], conv(average(y), 1, pool))
    y = inception_branches(y, [[(3, 384, 2, "VALID")], [(1, 64), (3, 96), (3, 96, 2, "VALID")]], half(y))
    for n in (128, 160, 160, 192):
        long = [(1, n), ((7, 1), n), ((1, 7), n), ((7, 1), n), ((1, 7), 192)]
        y = inception_branches(y, [[(1, 192)], [(1, n), ((1, 7), n), ((7, 1), 192)], long], conv(average(y), 1, 192))
    long = [(1, 192), ((1, 7), 192), ((7, 1), 192), (3, 192, 2, "VALID")]
    y = inception_branches(y, [[(1, 192), (3, 320, 2, "VALID")], long], half(y))
    for _ in range(2):
        wide, deep = conv(y, 1, 384), conv(conv(y, 1, 448), 3, 384)
        forks = [inception_branches(z, [[((1, 3), 384)], [((3, 1), 384)]]) for z in (wide, deep)]
        y = tf.concat([conv(y, 1, 320), *forks, conv(average(y), 1, 192)], 3)
    return classes(y)


def inceptionv1(x):
    c = lambda y, window, outputs, stride=1: conv(y, window, outputs, stride, normed=False)
    lrn = lambda y: tf.nn.local_response_normalization(y, 2, 1.0, 2e-5, 0.75)
    y = lrn(max_pool(c(x, 7, 64, 2), 3, 2))
    y = max_pool(lrn(c(c(y, 1, 64), 3, 192)), 3, 2)
    blocks = ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
              (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128), (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128))
    for i, (a, b, bb, d, dd, e) in enumerate(blocks):
        y = tf.concat([c(y, 1, a), c(c(y, 1, b), 3, bb), c(c(y, 1, d), 5, dd), c(max_pool(y, 3, 1), 1, e)], 3)
        if i in (1, 6):
            y = max_pool(y, 3, 2)
    return classes(y)


def vgg16(x):
    y = x
    for layers, outputs in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(layers):
            y = conv(y, 3, outputs, normed=False)
        y = max_pool(y, 2, 2, "VALID")
    y = dense(tf.reshape(y, [-1, 7 * 7 * 512]), 4096, tf.nn.relu)
    return tf.nn.softmax(dense(dense(y, 4096, tf.nn.relu), 1000))


def densenet121(x):
    grow = lambda y: tf.concat([y, plain(conv(plain_norm(y), 1, 128), 3, 32)], 3)
    plain_norm = lambda y: tf.nn.relu(norm(y))

    def plain(y, window, outputs):
        return v1.nn.conv2d(y, weights([window, window, channels(y), outputs], np.sqrt(2 / (window * window * channels(y)))), strides=[1, 1, 1, 1], padding="SAME")
    y = max_pool(conv(x, 7, 64, 2), 3, 2)
    for i, layers in enumerate((6, 12, 24, 16)):
        for _ in range(layers):
            y = grow(y)
        if i < 3:
            y = tf.nn.avg_pool2d(plain(plain_norm(y), 1, channels(y) // 2), 2, 2, "VALID")
    return classes(plain_norm(y))


def efficientnetb0(x):
    def squeeze(y, inner):
        z = tf.reduce_mean(y, [1, 2], keepdims=True)
        z = conv(conv(z, 1, inner, activation=swish, normed=False), 1, channels(y), activation=tf.sigmoid, normed=False)
        return y * z
    y = conv(x, 3, 32, 2, activation=swish)
    for expansion, outputs, blocks, stride, window in ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)):
        for block in range(blocks):
            inputs = channels(y)
            z = conv(y, 1, inputs * expansion, activation=swish) if expansion > 1 else y
            z = squeeze(depthwise(z, window, stride if block == 0 else 1, swish), inputs // 4)
            z = conv(z, 1, outputs, activation=None)
            y = y + z if block else z
    return classes(conv(y, 1, 1280, activation=swish))


def unet(x):
    y, kept = x, []
    for width in (32, 64, 128, 256):
        y = conv(conv(y, 3, width), 3, width)
        kept.append(y)
        y = max_pool(y, 2, 2)
    y = conv(conv(y, 3, 512), 3, 512)
    for width in (256, 128, 64, 32):
        size = 2 * int(y.shape[1])
        y = tf.concat([kept.pop(), v1.image.resize_bilinear(y, [size, size])], 3)
        y = conv(conv(y, 3, width), 3, width)
    return tf.sigmoid(conv(y, 1, 1, activation=None, normed=False))


def style(x):
    def instance_norm(y):
        mean, variance = tf.nn.moments(y, [1, 2], keepdims=True)
        return (y - mean) / tf.sqrt(variance + 1e-3) * vector(channels(y), 0.8, 1.2) + vector(channels(y))

    def c(y, window, outputs, stride=1):
        filters = weights([window, window, channels(y), outputs], np.sqrt(2 / (window * window * channels(y))))
        return instance_norm(v1.nn.conv2d(y, filters, strides=[1, stride, stride, 1], padding="SAME"))

    def up(y, outputs):
        size = 2 * int(y.shape[1])
        shape = tf.stack([tf.shape(y)[0], size, size, outputs])
        z = v1.nn.conv2d_transpose(y, weights([3, 3, outputs, channels(y)], 0.1), shape, [1, 2, 2, 1], "SAME")
        z.set_shape([None, size, size, outputs])
        return tf.nn.relu(instance_norm(z))
    y = x
    for window, outputs, stride in ((9, 32, 1), (3, 64, 2), (3, 128, 2)):
        y = tf.nn.relu(c(y, window, outputs, stride))
    for _ in range(5):
        y = y + c(tf.nn.relu(c(y, 3, 128)), 3, 128)
    return tf.tanh(c(up(up(y, 64), 32), 9, 3)) * 150 + 127.5


# The networks of words.
WORDS, WIDTH = 10000, 256


def cell(x, h, c, kernel, bias):
    i, j, f, o = tf.split(tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), kernel), bias), 4, 1)
    c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(j)
    return tf.sigmoid(o) * tf.tanh(c), c


def language_model(ids, steps, run):
    """`run` makes the outputs [batch, steps, WIDTH] of a function (x, state) -> (y, state) over the words."""
    words = tf.nn.embedding_lookup(weights([WORDS, WIDTH], 0.1), ids)
    layers = [(weights([2 * WIDTH, 4 * WIDTH], 0.06), vector(4 * WIDTH)) for _ in range(2)]
    nothing = tf.zeros(tf.stack([tf.shape(ids)[0], WIDTH]))
    nothing.set_shape([None, WIDTH])

    def step(x, state):
        after = []
        for i, layer in enumerate(layers):
            x, c = cell(x, state[2 * i], state[2 * i + 1], *layer)
            after += [x, c]
        return x, after
    y = tf.reshape(run(words, step, [nothing] * 4), [-1, WIDTH])
    return tf.nn.softmax(dense(y, WORDS))


def lm_unrolled(ids, steps=32):
    def run(words, step, state):
        outputs = []
        for x in tf.unstack(words, steps, 1):
            y, state = step(x, state)
            outputs.append(y)
        return tf.stack(outputs, 1)
    return language_model(ids, steps, run)


def lm_while(ids, steps=32):
    def run(words, step, state):
        v1.disable_control_flow_v2()
        inputs = tf.TensorArray(tf.float32, steps).unstack(tf.transpose(words, [1, 0, 2]))

        def body(i, outputs, *state):
            x = inputs.read(i)
            x.set_shape([None, WIDTH])
            y, state = step(x, list(state))
            return (i + 1, outputs.write(i, y), *state)
        result = v1.while_loop(lambda i, *_: i < steps, body, (tf.constant(0), tf.TensorArray(tf.float32, steps), *state))
        return tf.transpose(result[1].stack(), [1, 0, 2])
    return language_model(ids, steps, run)


def transformer(ids, length=64, layers=4, heads=4):
    def layer_norm(y):
        mean, variance = tf.nn.moments(y, [-1], keepdims=True)
        return (y - mean) * tf.math.rsqrt(variance + 1e-6) * vector(WIDTH, 0.8, 1.2) + vector(WIDTH)

    def linear(y, outputs):
        return tf.tensordot(y, weights([channels(y), outputs], np.sqrt(1 / channels(y))), [[2], [0]]) + vector(outputs)

    def split(y):
        return tf.transpose(tf.reshape(y, tf.stack([batch, length, heads, WIDTH // heads])), [0, 2, 1, 3])

    def gelu(z):
        return 0.5 * z * (1 + tf.tanh(np.float32(np.sqrt(2 / np.pi)) * (z + 0.044715 * tf.pow(z, 3))))

    def shaped(y, width):
        y.set_shape([None, length, width])
        return y
    batch = tf.shape(ids)[0]
    y = shaped(tf.nn.embedding_lookup(weights([8000, WIDTH], 0.3), ids) + weights([length, WIDTH], 0.1), WIDTH)
    for _ in range(layers):
        z = layer_norm(y)
        q, k, v = (split(linear(z, WIDTH)) for _ in range(3))
        attention = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / np.float32(np.sqrt(WIDTH // heads)))
        z = shaped(tf.reshape(tf.transpose(tf.matmul(attention, v), [0, 2, 1, 3]), tf.stack([batch, length, WIDTH])), WIDTH)
        y = y + linear(z, WIDTH)
        y = y + linear(shaped(gelu(linear(layer_norm(y), 4 * WIDTH)), 4 * WIDTH), WIDTH)
    return layer_norm(y)


# name -> (function, side of the images) or (function, None, words)
NETWORKS = {"resnet50": (resnet50, 224), "mobilenetv1": (mobilenetv1, 224), "mobilenetv2": (mobilenetv2, 224), "inceptionv1": (inceptionv1, 224),
            "inceptionv3": (inceptionv3, 299), "vgg16": (vgg16, 224), "densenet121": (densenet121, 224), "efficientnetb0": (efficientnetb0, 224),
            "unet": (unet, 256), "style": (style, 256), "lm_unrolled": (lm_unrolled, None, 32), "lm_while": (lm_while, None, 32), "transformer": (transformer, None, 64)}


def write(folder, name):
    function, side, *words = NETWORKS[name]
    random.seed(0)
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.int32, [None, words[0]], "x") if words else v1.placeholder(tf.float32, [None, side, side, 3], "x")
        tf.identity(function(x), "out")
        with open(os.path.join(folder, name + ".pb.tmp"), "wb") as f:
            f.write(v1.graph_util.extract_sub_graph(graph.as_graph_def(), ["out"]).SerializeToString())
        os.rename(f.name, os.path.join(folder, name + ".pb"))


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    for network in sys.argv[2:] or NETWORKS:
        write(sys.argv[1], network)
        print(network, flush=True)
