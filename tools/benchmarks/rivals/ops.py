"""Writes graphs of single ops at the shapes at which the networks of networks.py have them, and the same as ONNX where tf2onnx is there.

    ops.py FOLDER       FOLDER/NAME.pb each, "x" is the input, "out" the output; FOLDER/inputs.json, what x is; and FOLDER/names.json, their order
"""
import json
import os
import sys

from networks import cell, channels, conv, dense, depthwise, max_pool, norm, random, swish, tf, v1, vector, weights
import numpy as np


def plain(window, outputs, stride=1, padding="SAME"):
    """A convolution and nothing else."""
    def made(x):
        height, width = window if isinstance(window, tuple) else (window, window)
        filters = weights([height, width, channels(x), outputs], np.sqrt(2 / (height * width * channels(x))))
        return v1.nn.conv2d(x, filters, strides=[1, stride, stride, 1], padding=padding)
    return made


def by_channel(window, stride=1):
    return lambda x: v1.nn.depthwise_conv2d_native(x, weights([window, window, channels(x), 1], np.sqrt(2) / window), strides=[1, stride, stride, 1], padding="SAME")


def product(outputs):
    return lambda x: tf.matmul(x, weights([channels(x), outputs], np.sqrt(1 / channels(x))))


def constant_like(x):
    return weights([int(d) for d in x.shape], 1)


def normalise(x, axes, epsilon):
    mean, variance = tf.nn.moments(x, axes, keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + epsilon) * vector(channels(x), 0.8, 1.2) + vector(channels(x))


def gelu(z):
    return 0.5 * z * (1 + tf.tanh(np.float32(np.sqrt(2 / np.pi)) * (z + 0.044715 * tf.pow(z, 3))))


def transposed(x):
    n, height, width, inputs = (int(d) for d in x.shape)
    return v1.nn.conv2d_transpose(x, weights([3, 3, inputs // 2, inputs], 0.1), [n, 2 * height, 2 * width, inputs // 2], [1, 2, 2, 1], "SAME")


def lstm_cell(x):
    """Of the state, 256 wide; the words of the step lie before it."""
    y, c = cell(x[:, :256], x[:, 256:], x[:, :256], weights([512, 1024], 0.06), vector(1024))
    return y + c


def image(side, n, batch=1):
    return [batch, side, side, n]


# name -> (the dimensions of x, function). Words: x holds numbers below 8000.
OPS = {
    "nothing": ([1], tf.identity),
    # ResNet-50
    "conv 7x7/2 3-64 @230": (image(230, 3), plain(7, 64, 2, "VALID")),
    "conv 1x1 64-64 @56": (image(56, 64), plain(1, 64)),
    "conv 3x3 64-64 @56": (image(56, 64), plain(3, 64)),
    "conv 1x1 64-256 @56": (image(56, 64), plain(1, 256)),
    "conv 1x1/2 256-512 @56": (image(56, 256), plain(1, 512, 2)),
    "conv 3x3 128-128 @28": (image(28, 128), plain(3, 128)),
    "conv 1x1 512-128 @28": (image(28, 512), plain(1, 128)),
    "conv 3x3 256-256 @14": (image(14, 256), plain(3, 256)),
    "conv 1x1 1024-256 @14": (image(14, 1024), plain(1, 256)),
    "conv 3x3 512-512 @7": (image(7, 512), plain(3, 512)),
    "conv 1x1 512-2048 @7": (image(7, 512), plain(1, 2048)),
    "conv, norm, Relu 3x3 64-64 @56": (image(56, 64), lambda x: conv(x, 3, 64)),
    "conv, norm, sum, Relu 1x1 64-256 @56": (image(56, 64), lambda x: tf.nn.relu(conv(x, 1, 256, activation=None) + weights([1, 56, 56, 256], 1))),
    "max pool 3x3/2 64 @112": (image(112, 64), lambda x: max_pool(x, 3, 2)),
    "mean of channels 2048 @7": (image(7, 2048), lambda x: tf.reduce_mean(x, [1, 2])),
    "pad 3 @224": (image(224, 3), lambda x: tf.pad(x, [[0, 0], [3, 3], [3, 3], [0, 0]])),
    "residual sum 256 @56": (image(56, 256), lambda x: x + constant_like(x)),
    "norm 256 @56": (image(56, 256), norm),
    "Relu 64 @112": (image(112, 64), tf.nn.relu),
    "MatMul 1x2048x1000": ([1, 2048], lambda x: dense(x, 1000)),
    # MobileNets and EfficientNet
    "conv 3x3/2 3-32 @224": (image(224, 3), plain(3, 32, 2)),
    "conv 1x1 16-96 @112": (image(112, 16), plain(1, 96)),
    "conv 1x1 96-24 @56": (image(56, 96), plain(1, 24)),
    "conv 1x1 24-144 @56": (image(56, 24), plain(1, 144)),
    "conv 1x1 32-192 @28": (image(28, 32), plain(1, 192)),
    "conv 1x1 384-64 @14": (image(14, 384), plain(1, 64)),
    "conv 1x1 160-960 @7": (image(7, 160), plain(1, 960)),
    "conv 1x1 320-1280 @7": (image(7, 320), plain(1, 1280)),
    "depthwise 3x3 32 @112": (image(112, 32), by_channel(3)),
    "depthwise 3x3/2 96 @112": (image(112, 96), by_channel(3, 2)),
    "depthwise 3x3 144 @56": (image(56, 144), by_channel(3)),
    "depthwise 3x3 512 @14": (image(14, 512), by_channel(3)),
    "depthwise 5x5 672 @14": (image(14, 672), by_channel(5)),
    "depthwise, norm, Relu6 3x3 144 @56": (image(56, 144), lambda x: depthwise(x, 3)),
    "Relu6 96 @112": (image(112, 96), tf.nn.relu6),
    "swish 96 @112": (image(112, 96), swish),
    "by a factor for each channel 96 @112": (image(112, 96), lambda x: x * vector(96)),
    # Inception, VGG, DenseNet
    "conv 1x7 192-192 @17": (image(17, 192), plain((1, 7), 192)),
    "conv 5x5 48-64 @35": (image(35, 48), plain(5, 64)),
    "average pool 3x3/1 288 @35": (image(35, 288), lambda x: tf.nn.avg_pool2d(x, 3, 1, "SAME")),
    "average pool 2x2/2 256 @56": (image(56, 256), lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID")),
    "max pool 2x2/2 64 @224": (image(224, 64), lambda x: max_pool(x, 2, 2, "VALID")),
    "response norm 192 @56": (image(56, 192), lambda x: tf.nn.local_response_normalization(x, 2, 1.0, 2e-5, 0.75)),
    "concat 192, 32 @56": (image(56, 192), lambda x: tf.concat([x, weights([1, 56, 56, 32], 1)], 3)),
    "bias 64 @224": (image(224, 64), lambda x: tf.nn.bias_add(x, vector(64))),
    "MatMul 1x4096x4096": ([1, 4096], product(4096)),
    # U-Net and style
    "conv 3x3 32-32 @256": (image(256, 32), plain(3, 32)),
    "conv 9x9 32-3 @256": (image(256, 32), plain(9, 3)),
    "transposed conv 3x3/2 128-64 @64": (image(64, 128), transposed),
    "resize bilinear 256 @32-64": (image(32, 256), lambda x: v1.image.resize_bilinear(x, [64, 64])),
    "instance norm 64 @128": (image(128, 64), lambda x: normalise(x, [1, 2], 1e-3)),
    "Tanh 3 @256": (image(256, 3), tf.tanh),
    # words
    "rows of a table 512 of 8000x256": ([8, 64], lambda x: tf.nn.embedding_lookup(weights([8000, 256], 0.3), x)),
    "MatMul 512x256x1024": ([512, 256], product(1024)),
    "MatMul 32x256x10000": ([32, 256], product(10000)),
    "LSTM cell 256, batch 32": ([32, 512], lstm_cell),
    "products of attention 8x4x64x64": ([8, 4, 64, 64], lambda x: tf.matmul(x, x, transpose_b=True)),
    "softmax of attention 8x4x64x64": ([8, 4, 64, 64], tf.nn.softmax),
    "softmax 32x10000": ([32, 10000], tf.nn.softmax),
    "layer norm 512x256": ([512, 256], lambda x: normalise(x, [-1], 1e-6)),
    "GELU 512x1024": ([512, 1024], gelu),
}


def is_of_words(name):
    return "rows of a table" in name


def file_name(name):
    """OpenVINO takes a comma for the end of a path."""
    return name.replace("/", "_").replace(",", "")


def write(folder):
    for name, (dims, function) in OPS.items():
        random.seed(0)
        file = os.path.join(folder, file_name(name))
        with tf.Graph().as_default() as graph:
            tf.identity(function(v1.placeholder(tf.int32 if is_of_words(name) else tf.float32, dims, "x")), "out")
            definition = v1.graph_util.extract_sub_graph(graph.as_graph_def(), ["out"])
        with open(file + ".pb", "wb") as f:
            f.write(definition.SerializeToString())
        try:
            import tf2onnx
            tf2onnx.convert.from_graph_def(definition, input_names=["x:0"], output_names=["out:0"], opset=17, output_path=file + ".onnx")
        except ImportError:
            pass
    with open(os.path.join(folder, "inputs.json"), "w") as f:
        json.dump({file_name(name): {"dims": dims, "words": is_of_words(name)} for name, (dims, _) in OPS.items()}, f)
    with open(os.path.join(folder, "names.json"), "w") as f:
        json.dump([file_name(name) for name in OPS], f)


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    write(sys.argv[1])
