"""The models of tools/benchmarks/models.h for the programs of this folder: sizes, variables and what they begin with, batches; and the protocol of serve.h."""
import json
import os
import resource
import statistics
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import drawn  # noqa: E402
import numpy as np  # noqa: E402

STEPS = 10     # first ones, by which ways are chosen
COMPARED = 5   # of these, whose losses are compared: Adam makes steps of gradients that are nothing but rounding errors


class Word2Vec:
    words, width, batch, sampled, batches = 50000, 128, 128, 64, 64
    feeds = [((128,), "int64", 50000), ((128, 1), "int64", 50000)]
    variables = [("vectors", (50000, 128)), ("weights", (50000, 128)), ("biases", (50000,))]
    rate = 0.5


class Lstm:
    words, units, layers, batch, time, batches = 10000, 650, 2, 20, 35, 8
    feeds = [((20, 35), "int32", 10000)] * 2
    variables = ([("embeddings", (10000, 650))] + [("cell", (1300, 2600)), ("bias", (2600,))] * 2 + [("softmax", (650, 10000)), ("bias", (10000,))])
    rate, clip = 0.002, 5.0


class WideAndDeep:
    batch, columns, batches = 256, 8, 64
    feeds = [((256, 10), "int64", 100000), ((256, 8), "int64", 10000), ((256, 13), "float32", 0), ((256, 1), "float32", 2)]
    layers = [8 * 32 + 13, 1024, 512, 256, 1]
    variables = [("wide", (100000, 1))] + [("column", (10000, 32))] * 8
    wide_rate, l1, deep_rate = 0.1, 0.001, 0.05


for n, m in zip(WideAndDeep.layers, WideAndDeep.layers[1:]):
    WideAndDeep.variables += [("kernel", (n, m)), ("bias", (m,))]


class Transformer:
    batch, time, words, width, heads, inner, layers, batches = 16, 64, 8000, 256, 4, 1024, 6, 8
    feeds = [((16, 64), "int32", 8000)] * 2
    norm = [("gamma", (256,)), ("beta", (256,))]
    variables = [("embeddings", (8000, 256)), ("places", (64, 256))]
    rate, epsilon = 1e-3, 1e-3  # the latter of the norms


def dense(n, m):
    return [("kernel", (n, m)), ("bias", (m,))]


for _ in range(Transformer.layers):
    # Norm, query, key, value, output; norm, two layers.
    Transformer.variables += Transformer.norm + dense(256, 256) * 4 + Transformer.norm + dense(256, 1024) + dense(1024, 256)
Transformer.variables += Transformer.norm + dense(256, 8000)


class Images:
    """Networks of images; `build` calls a method of its first argument for each layer."""
    # One batch, and a small rate: deep normalised layers make of a rounding error a loss that differs in the third digit, as soon as steps are large or the images others.
    classes, batches = 1000, 1
    feeds = [((8, 224, 224, 3), "float32", 0), ((8,), "int32", 1000)]
    momentum, keep, epsilon = 0.9, 0.99, 1e-3  # the last two of the norms


class ResNet50(Images):
    rate = 1e-7

    @staticmethod
    def build(l, x):
        y = l.max_pool(l.conv(x, 7, 64, 2, "relu"))
        for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
            for block in range(blocks):
                stride = 2 if block == 0 and width > 64 else 1
                cut = l.conv(y, 1, 4 * width, stride) if block == 0 else y
                inner = l.conv(l.conv(y, 1, width, 1, "relu"), 3, width, stride, "relu")
                y = l.activation(l.add(l.conv(inner, 1, 4 * width, 1), cut), "relu")
        return l.classes(y)


class MobileNetV2(Images):
    rate = 5e-7

    @staticmethod
    def build(l, x):
        y = l.conv(x, 3, 32, 2, "relu6")
        for expansion, outputs, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
            for block in range(blocks):
                wide = l.conv(y, 1, expansion * l.channels(y), 1, "relu6") if expansion > 1 else y
                narrow = l.conv(l.depthwise(wide, stride if block == 0 else 1, "relu6"), 1, outputs, 1)
                y = l.add(y, narrow) if block else narrow
        return l.classes(l.conv(y, 1, 1280, 1, "relu6"))


class Listed:
    """Layers that only note their variables; what goes between them is a number of channels."""

    def __init__(self):
        self.variables = []

    def channels(self, y):
        return y

    def normed(self, kernel, n):
        self.variables += [("kernel", kernel), ("gamma", (n,)), ("beta", (n,))]
        return n

    def conv(self, y, window, filters, stride, activation=None):
        return self.normed((window, window, y, filters), filters)

    def depthwise(self, y, stride, activation=None):
        return self.normed((3, 3, y, 1), y)

    def max_pool(self, y):
        return y

    def activation(self, y, name):
        return y

    def add(self, y, z):
        return y

    def classes(self, y):
        self.variables += dense(y, Images.classes)


for m in (ResNet50, MobileNetV2):
    listed = Listed()
    m.build(listed, 3)
    m.variables = listed.variables

MODELS = {"word2vec": Word2Vec, "lstm": Lstm, "wide_and_deep": WideAndDeep, "transformer": Transformer, "resnet50": ResNet50, "mobilenetv2": MobileNetV2}


def initial_values(model):
    """What the variables begin with."""
    values = []
    for i, (name, shape) in enumerate(model.variables):
        middle = np.float32(1 if name == "gamma" else 0)
        values.append((middle + (drawn.units(int(np.prod(shape)), i + 1) - np.float32(0.5)) * np.float32(0.125)).reshape(shape))
    return values


def batches(model):
    """Lists of arrays, one for each of model.feeds."""
    made, seed = [], 0
    for _ in range(model.batches):
        made.append([])
        for shape, dtype, below in model.feeds:
            seed += 1
            n = int(np.prod(shape))
            values = drawn.words(n, seed, below) if dtype != "float32" else drawn.flags(n, seed) if below == 2 else drawn.units(n, seed)
            made[-1].append(values.astype(dtype).reshape(shape))
    return made


def first_steps(step):
    """The losses of the first steps, and the seconds of one."""
    losses, times = [], []
    for i in range(STEPS):
        begin = time.perf_counter()
        losses.append(float(step(i)))
        times.append(time.perf_counter() - begin)
    return losses[:COMPARED], statistics.median(times[STEPS // 2:])


def fastest(ways, only=None):
    """ways: name -> function that prepares the model and gives its step. (name, step, losses) of the one with the shortest first steps; one that breaks is passed over."""
    best, errors = None, []
    for name, prepare in ways.items():
        if only not in (None, name):
            continue
        try:
            step = prepare()
            losses, seconds = first_steps(step)
        except Exception as e:  # noqa: B902: whatever a rival raises
            errors.append("%s: %s" % (name, str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__))
            continue
        print("%s: %.4g s" % (name, seconds), file=sys.stderr)
        if best is None or seconds < best[0]:
            best = (seconds, name, step, losses)
        step = None
    if best is None:
        sys.exit("; ".join(errors))
    for line in errors:
        print(line, file=sys.stderr)
    return best[1:]


def serve(head, seconds, step):
    """Prints `head`, then the seconds of a step for each line that comes."""
    print(json.dumps(head), flush=True)
    at, processor = STEPS, 0.0
    for _ in sys.stdin:
        pieces, start = [], time.perf_counter()
        processor -= time.process_time()
        while not pieces or time.perf_counter() - start < seconds:
            begin, first = time.perf_counter(), at
            while at == first or time.perf_counter() - begin < 2e-3:
                step(at)
                at += 1
            pieces.append((time.perf_counter() - begin) / (at - first))
        processor += time.process_time()
        print("%.9g" % statistics.median(pieces), flush=True)
    print(json.dumps({"peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, "cpu_s_per_step": processor / max(at - STEPS, 1)}), flush=True)
