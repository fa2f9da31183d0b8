"""The training steps of models_main.cc in PyTorch: eager, or what torch.compile makes of it, whichever is faster.

    torch_models.py NAME THREADS SECONDS [WAY]       NAME: one of model_data.MODELS

With WAY, "eager" or another of those below, that one alone is tried. Where the loss draws classes (word2vec), they are drawn beforehand, which favours PyTorch, and the losses are others than TensorFlow's.
"""
import itertools
import sys

import model_data as data
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

name, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
model = data.MODELS[name]
torch.set_num_threads(threads)
random = np.random.RandomState(1)


def drawn_classes():
    """(classes, how often each is expected) of a log-uniform draw of different ones, and the probability of a class."""
    probability = lambda k: np.log((k + 2.0) / (k + 1.0)) / np.log(model.words + 1.0)
    classes, tries = [], 0
    while len(classes) < model.sampled:
        tries += 1
        k = int(np.exp(random.rand() * np.log(model.words + 1.0))) - 1
        if k < model.words and k not in classes:
            classes.append(k)
    expected = lambda k: -np.expm1(tries * np.log1p(-probability(k)))
    return np.array(classes), expected


# The losses of a step, from its variables and what it is fed.
def word2vec(variables, centres, neighbours, classes, expected_true, expected_sampled):
    vectors, weights, biases = variables
    inputs = F.embedding(centres, vectors, sparse=True)
    ids = torch.cat([neighbours[:, 0], classes])
    rows, offsets = F.embedding(ids, weights, sparse=True), F.embedding(ids, biases, sparse=True)[:, 0]
    n = len(centres)
    known = (inputs * rows[:n]).sum(1) + offsets[:n] - expected_true
    others = torch.addmm(offsets[n:] - expected_sampled, inputs, rows[n:].t())
    return (F.softplus(-known) + F.softplus(others).sum(1)).mean()


class Language(nn.Module):
    def __init__(self, values):
        super().__init__()
        table, kernel0, bias0, kernel1, bias1, kernel, bias = values
        self.table = nn.Parameter(table)
        self.cells = nn.LSTM(model.units, model.units, model.layers)
        # TensorFlow's order of the gates is i, j, f, o; PyTorch's i, f, j, o, with a bias for the inputs and one for the state.
        order = lambda w: torch.cat([w.chunk(4, -1)[k] for k in (0, 2, 1, 3)], -1)
        forget = torch.from_numpy(np.repeat(np.float32([0, 1, 0, 0]), model.units))
        with torch.no_grad():
            for i, (k, b) in enumerate(((kernel0, bias0), (kernel1, bias1))):
                getattr(self.cells, "weight_ih_l%d" % i).copy_(order(k[:model.units]).t())
                getattr(self.cells, "weight_hh_l%d" % i).copy_(order(k[model.units:]).t())
                getattr(self.cells, "bias_ih_l%d" % i).copy_(order(b) + forget)
                fixed = getattr(self.cells, "bias_hh_l%d" % i)
                fixed.zero_()
                fixed.requires_grad_(False)
        self.kernel, self.bias = nn.Parameter(kernel), nn.Parameter(bias)

    def forward(self, x, y):
        h = self.cells(F.embedding(x.t(), self.table))[0]
        return F.cross_entropy(torch.addmm(self.bias, h.transpose(0, 1).reshape(-1, model.units), self.kernel), y.reshape(-1).long())


def wide_and_deep(variables, crossed, columns, numbers, clicked):
    wide, tables, layers = variables[0], variables[1:9], variables[9:]
    remembered = F.embedding(crossed, wide, sparse=True).sum(1)
    h = torch.cat([F.embedding(columns[:, i], t, sparse=True) for i, t in enumerate(tables)] + [numbers], 1)
    for i in range(0, len(layers), 2):
        h = torch.addmm(layers[i + 1], h, layers[i])
        if i + 2 < len(layers):
            h = F.relu(h)
    return F.binary_cross_entropy_with_logits(h + remembered, clicked)


def transformer(variables, words, wanted):
    rest = iter(variables)
    shape = [model.batch, model.time, model.heads, model.width // model.heads]

    def norm(y):
        return F.layer_norm(y, [model.width], next(rest), next(rest), model.epsilon)

    def dense(y):
        kernel, bias = next(rest), next(rest)
        return torch.addmm(bias, y.reshape(-1, y.shape[-1]), kernel).reshape(*y.shape[:-1], -1)
    h = F.embedding(words, next(rest)) + next(rest)
    for _ in range(model.layers):
        seen = norm(h)
        q, k, v = (dense(seen).reshape(shape).transpose(1, 2) for _ in range(3))
        h = h + dense(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(h.shape))
        h = h + dense(F.relu(dense(norm(h))))
    return F.cross_entropy(dense(norm(h).reshape(-1, model.width)), wanted.reshape(-1).long())


class ImageLayers:
    """The layers of model_data.Images.build."""

    def __init__(self, variables, moving):
        self.variables, self.moving = iter(variables), iter(moving)

    def channels(self, y):
        return y.shape[1]

    def normed(self, y, activation):
        gamma, beta = next(self.variables), next(self.variables)
        y = F.batch_norm(y, *next(self.moving), gamma, beta, True, 1 - model.keep, model.epsilon)
        return self.activation(y, activation)

    def conv(self, y, window, filters, stride, activation=None):
        if window == 1 and stride == 2:
            # Of turned images, TensorFlow's every other pixel begins with the second.
            y, stride = y[:, :, 1::2, 1::2], 1
        return self.normed(F.conv2d(y, next(self.variables), None, stride, window // 2), activation)

    def depthwise(self, y, stride, activation=None):
        return self.normed(F.conv2d(y, next(self.variables), None, stride, 1, 1, y.shape[1]), activation)

    def max_pool(self, y):
        return F.max_pool2d(y, 3, 2, 1)

    def activation(self, y, name):
        return {"relu": F.relu, "relu6": F.relu6}[name](y) if name else y

    def add(self, y, z):
        return y + z

    def classes(self, y):
        kernel, bias = next(self.variables), next(self.variables)
        return torch.addmm(bias, y.mean([2, 3]), kernel)


class ImageNetwork:
    """TensorFlow's SAME, of even sides and a stride of 2, leaves out the first row where PyTorch's padding leaves out the last one: images and windows are turned by half a turn, and the sums are the same."""

    def __init__(self, values, order):
        self.order = {"memory_format": order}
        self.moving = [[torch.zeros_like(v), torch.ones_like(v)] for v, (kind, _) in zip(values, model.variables) if kind == "gamma"]
        self.variables = [nn.Parameter(self.turned(v)) for v in values]

    def turned(self, v):
        if v.dim() != 4:
            return v
        # A convolution by channel has [height, width, channels, 1], where PyTorch's outputs are the channels.
        dims = (2, 3, 0, 1) if v.shape[3] == 1 else (3, 2, 0, 1)
        return v.permute(dims).flip(2, 3).contiguous(**self.order)

    def __call__(self, images, wanted):
        return F.cross_entropy(model.build(ImageLayers(self.variables, self.moving), images), wanted.long())


class Ftrl(torch.optim.Optimizer):
    """McMahan et al. (2013), of sparse gradients: what TensorFlow's SparseApplyFtrl does with the rows."""

    def __init__(self, parameters, rate, l1, initial=0.1):
        super().__init__(parameters, {"rate": rate, "l1": l1, "initial": initial})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["squares"], state["linear"] = torch.full_like(p, group["initial"]), torch.zeros_like(p)
                g = p.grad.coalesce()
                rows, values = g.indices()[0], g.values()
                before = state["squares"][rows]
                after = before + values * values
                linear = state["linear"][rows] + values - (after.sqrt() - before.sqrt()) / group["rate"] * p[rows]
                state["squares"][rows], state["linear"][rows] = after, linear
                p[rows] = torch.where(linear.abs() > group["l1"], (linear.sign() * group["l1"] - linear) * group["rate"] / after.sqrt(), torch.zeros_like(linear))


def make_loss_and_optimizers(order):
    """(loss of what is fed, parameters, their optimizers). `order`: of images in memory."""
    values = [torch.from_numpy(v) for v in data.initial_values(model)]
    if name == "lstm":
        language = Language(values)
        learned = [p for p in language.parameters() if p.requires_grad]
        return language, learned, [torch.optim.Adam(learned, model.rate, fused=True)]
    if issubclass(model, data.Images):
        network = ImageNetwork(values, order)
        return network, network.variables, [torch.optim.SGD(network.variables, model.rate, model.momentum, fused=True)]
    # A table of numbers is one of rows, as F.embedding wants it.
    variables = [nn.Parameter(v[:, None] if name == "word2vec" and v.dim() == 1 else v) for v in values]
    adagrad = lambda parameters, rate: torch.optim.Adagrad(parameters, rate, initial_accumulator_value=0.1)
    if name == "transformer":
        optimizers = [torch.optim.Adam(variables, model.rate, fused=True)]
    elif name == "word2vec":
        optimizers = [adagrad(variables, model.rate)]
    else:
        optimizers = [Ftrl(variables[:1], model.wide_rate, model.l1), adagrad(variables[1:], model.deep_rate)]
    function = {"word2vec": word2vec, "wide_and_deep": wide_and_deep, "transformer": transformer}[name]
    return lambda *feeds: function(variables, *feeds), variables, optimizers


def as_in_tensorflow(optimizer, steps):
    """Adam's epsilon of step number `steps`. PyTorch adds it behind the correction for the zeros at the start, TensorFlow before: with gradients as small as those of a language model, the losses would be 4e-4 apart after two steps."""
    if isinstance(optimizer, torch.optim.Adam):
        for group in optimizer.param_groups:
            group["eps"] = 1e-8 / (1 - group["betas"][1] ** steps) ** 0.5


def prepare(compiled, order=torch.contiguous_format):
    loss_of, learned, optimizers = make_loss_and_optimizers(order)
    given = batches
    if issubclass(model, data.Images):
        given = [[images.permute(0, 3, 1, 2).flip(2, 3).contiguous(memory_format=order), wanted] for images, wanted in batches]
    if compiled:
        loss_of = torch.compile(loss_of)

    count = itertools.count(1)

    def step(i):
        steps = next(count)
        for o in optimizers:
            o.zero_grad()
            as_in_tensorflow(o, steps)
        loss = loss_of(*given[i % len(given)])
        loss.backward()
        if name == "lstm":
            nn.utils.clip_grad_norm_(learned, model.clip)
        for o in optimizers:
            o.step()
        return loss.item()
    return step


batches = [[torch.from_numpy(a) for a in batch] for batch in data.batches(model)]
if name == "word2vec":
    for batch in batches:
        classes, expected = drawn_classes()
        logs = [torch.from_numpy(np.log(expected(k)).astype(np.float32)) for k in (batch[1].numpy()[:, 0], classes)]
        batch += [torch.from_numpy(classes), *logs]
ways = {"eager": lambda: prepare(False), "torch.compile": lambda: prepare(True)}
if issubclass(model, data.Images):
    ways.update({"eager, channels last": lambda: prepare(False, torch.channels_last), "torch.compile, channels last": lambda: prepare(True, torch.channels_last)})
way, step, losses = data.fastest(ways, *sys.argv[4:])
head = {"version": torch.__version__, "way": way, "losses": losses}
if name == "word2vec":
    del head["losses"]
data.serve(head, seconds, step)
