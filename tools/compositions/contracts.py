"""Cases by hand, each for a rule that holds between ops.

Where a reference is read, where a slot lives, which gradient a gradient has, what becomes of a NaN.
"""

import numpy as np
import tensorflow as tf

from case import Case, Gradients, Step
from oracle import DEVICES

v1 = tf.compat.v1
CASES = {}


def contract(f):
    CASES[f.__name__] = f
    return f


def cpu(k):
    return tf.device("/cpu:%d" % k)


def ref_variable(value, name="v", device=None):
    with tf.device(device):
        return v1.Variable(value, use_resource=False, name=name)


def runs(fetches, count, init=None, targets=()):
    first = [Step([init.name])] if init is not None else []
    return first + [Step(list(targets), [t.name for t in fetches]) for _ in range(count)]


# References are read after the reader's control inputs, wherever the reader is.


@contract
def reference_read_after_update_on_another_device():
    v = ref_variable(1.0, device="/cpu:0")
    with cpu(0):
        up = v1.assign_add(v, 1.0)
    with cpu(1), tf.control_dependencies([up.op]):
        read = tf.identity(v._ref(), name="read")
    return dict(steps=runs([read], 3, v.initializer), devices=DEVICES)


def update_loop(device_of_variable, device_of_loop):
    v = ref_variable(0.0, device=device_of_variable)

    def body(i, total):
        with tf.control_dependencies([i]):
            up = v1.assign_add(v, 1.0)
        with tf.control_dependencies([up]):
            return i + 1, total + (v.read_value() + 0.0)

    with tf.device(device_of_loop):
        i, total = v1.while_loop(lambda i, _: i < 3, body, [0, 0.0], parallel_iterations=1)
    return dict(steps=runs([total], 3, v.initializer), devices=DEVICES if device_of_loop else 1)


@contract
def loop_that_updates_and_reads_a_reference():
    return update_loop(None, None)


@contract
def loop_that_reads_a_reference():
    v = ref_variable(2.0)
    x = v1.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * v.read_value()), [0, 1.0])[1]
    return dict(steps=runs([x], 2, v.initializer))


@contract
def nested_loops_that_read_references():
    v, w = ref_variable(2.0), ref_variable(3.0, "w")

    def body(i, x):
        y = v1.while_loop(lambda j, y: j < 2, lambda j, y: (j + 1, y + w.read_value()), [0, x])[1]
        return i + 1, y * v.read_value()

    x = v1.while_loop(lambda i, x: i < 3, body, [0, 1.0])[1]
    init = tf.group(v.initializer, w.initializer)
    return dict(steps=runs([x], 2, init))


@contract
def reference_read_in_a_branch():
    v = ref_variable(5.0)
    p = v1.placeholder(tf.bool, (), name="p")
    y = v1.cond(p, lambda: v.read_value() * 2.0, lambda: v1.assign_add(v, 1.0) + 0.0)
    return dict(steps=runs([y], 3, v.initializer), feeds={p.name: np.array(False)})


@contract
def chain_of_updates_and_reads():
    v = ref_variable(np.array([1.0, 2.0], np.float32))
    reads = []
    last = []
    for k in range(4):
        with tf.control_dependencies(last):
            up = v1.assign_add(v, [1.0, float(k)])
        with tf.control_dependencies([up]):
            reads.append(v.read_value() * 2.0)
        last = [reads[-1]]
    return dict(steps=runs(reads, 3, v.initializer))


@contract
def update_then_matmul_elsewhere():
    v = ref_variable(np.eye(3, dtype=np.float32), device="/cpu:0")
    with cpu(0):
        up = v1.assign_add(v, np.ones((3, 3), np.float32))
    with cpu(2), tf.control_dependencies([up]):
        y = tf.matmul(tf.identity(v._ref()), tf.identity(v._ref()))
    return dict(steps=runs([y], 3, v.initializer), devices=DEVICES)


# Variables and what is updated with them live on one device, whichever signature comes first.


def slots(resource, kind):
    dtype = np.float32
    v = v1.Variable(np.array([1, 2], dtype), use_resource=resource, name="v")
    a = v1.Variable(np.array([3, 4], dtype), use_resource=resource, name="a")
    h = (lambda x: x.handle) if resource else (lambda x: x._ref())
    grad = tf.constant(np.array([0.5, -1], dtype))
    op = getattr(tf.raw_ops, ("Resource" if resource else "") + kind)
    if kind == "ApplyAdagrad":
        train = op(var=h(v), accum=h(a), lr=0.1, grad=grad)
    else:
        train = op(var=h(v), accum=h(a), lr=0.1, grad=grad, momentum=0.9)
    train = tf.group(train if isinstance(train, tf.Operation) else train.op, name="train")
    init = tf.group(v.initializer, a.initializer)
    reads = [tf.identity(x.read_value()) for x in (v, a)]
    return dict(
        steps=runs([], 1, init) + [Step([train.name]) for _ in range(3)] + runs(reads, 1), tolerance={"float32": 1e-6}
    )


@contract
def slots_of_a_resource_variable():
    return slots(True, "ApplyAdagrad")


@contract
def slots_of_a_reference_variable():
    return slots(False, "ApplyAdagrad")


@contract
def momentum_of_a_resource_variable():
    return slots(True, "ApplyMomentum")


@contract
def resource_variable_read_on_another_device():
    v = v1.Variable(np.array([1.0, 2.0], np.float32), use_resource=True, name="v")
    with cpu(1):
        read = v.read_value()
    return dict(steps=runs([read], 2, v.initializer), devices=DEVICES)


@contract
def average_of_a_resource_variable_after_its_training():
    return averaged(True)


@contract
def average_of_a_reference_variable_after_its_training():
    return averaged(False)


@contract
def read_that_stands_before_an_update_and_its_consumer_behind():
    v = ref_variable(1.0)
    read = tf.identity(v._ref())
    up = v1.assign_add(v, 1.0)
    with tf.control_dependencies([up.op]):
        y = read * 10.0
    return dict(steps=runs([y], 3, v.initializer))


@contract
def read_that_an_update_waits_for():
    v = ref_variable(3.0)
    old = tf.identity(v._ref()) * 2.0
    with tf.control_dependencies([old]):
        up = v1.assign_add(v, 1.0)
    return dict(steps=runs([old, up], 3, v.initializer))


def averaged(resource):
    v = v1.Variable(1.0, use_resource=resource, name="v")
    train = v1.train.GradientDescentOptimizer(0.25).minimize(tf.square(v) + v, name="train")
    average = v1.train.ExponentialMovingAverage(0.5)
    with tf.control_dependencies([train]):
        step = tf.group(average.apply([v]), name="step")
    init = v1.global_variables_initializer()
    read = tf.identity(average.average(v).read_value(), name="read")
    steps = [Step([init.name])]
    for _ in range(3):
        steps += [Step([step.name]), Step([], [read.name])]
    return dict(steps=steps, tolerance={"float32": 1e-6})


# The gradient of a gradient that went through a loop is right, or refused.


def second_order(make, at=0.7):
    x = v1.placeholder(tf.float64, (), name="x")
    y = make(x)
    return dict(
        steps=runs([y], 1) + [Step([], ["@first:0", "@second:0"])],
        feeds={x.name: np.array(at)},
        gradients=[Gradients("first", [y], [x]), Gradients("second", ["@first:0"], [x], refusable=True)],
        tolerance={"float64": 1e-4},
    )


def loop(times, f, start):
    return v1.while_loop(lambda i, _: i < times, lambda i, s: (i + 1, f(s)), [0, start])[1]


SECOND_ORDER = {
    "power": lambda x: loop(3, lambda s: s * x, tf.constant(1.0, tf.float64)),
    "square_of_the_state": lambda x: loop(2, tf.square, x),
    "sine_of_the_state": lambda x: loop(1, tf.sin, x),
    "sine_times_x": lambda x: x * loop(2, tf.sin, x),
    "linear_body": lambda x: loop(3, lambda s: 2.0 * s + x, x),
    "loop_invariant": lambda x: loop(2, lambda s: s + x * x, tf.constant(0.0, tf.float64)),
    "outside_of_a_linear_loop": lambda x: tf.square(loop(2, lambda s: 3.0 * s, x)),
    "nested": lambda x: loop(2, lambda s: loop(2, lambda t: t * x, s), x),
    "branch_in_the_loop": lambda x: loop(3, lambda s: v1.cond(s > 0.5, lambda: s * s, lambda: tf.exp(s)), x),
    "branch": lambda x: v1.cond(x > 0, lambda: x * x * x, lambda: x),
    "tanh_and_matrix": lambda x: tf.reduce_sum(
        loop(2, lambda s: tf.tanh(tf.matmul(s, s)), x * tf.constant([[0.5, 0.2], [-0.3, 0.4]], tf.float64))
    ),
}
for _name, _make in SECOND_ORDER.items():
    CASES["second_order_" + _name] = lambda make=_make: second_order(make)


# NaN and infinity pass through what is computed together.


def convolution_with_nan(activation, size, channels, units):
    r = np.random.RandomState(size * 100 + units)
    x = v1.placeholder(tf.float32, (1, 5, 5, channels), name="x")
    bias = r.randn(units).astype(np.float32)
    bias[units // 2] = np.nan
    y = activation(
        tf.nn.bias_add(tf.nn.conv2d(x, r.randn(size, size, channels, units).astype(np.float32), 1, "SAME"), bias)
    )
    return dict(
        steps=runs([y], 1), feeds={x.name: r.randn(1, 5, 5, channels).astype(np.float32)}, tolerance={"float32": 1e-5}
    )


for _activation in (tf.nn.relu, tf.nn.relu6, tf.nn.elu):
    for _shape in ((1, 4, 8), (2, 4, 16), (3, 4, 8), (3, 16, 16), (3, 4, 2)):
        CASES["nan_in_the_bias_of_a_convolution_%s_%d_%d_%d" % ((_activation.__name__,) + _shape)] = (
            lambda activation=_activation, shape=_shape: convolution_with_nan(activation, *shape)
        )


@contract
def nan_in_a_product():
    x = v1.placeholder(tf.float32, (2, 3), name="x")
    ys = [
        f(tf.nn.bias_add(tf.matmul(x, np.ones((3, 4), np.float32)), np.array([1, np.nan, -9, 2], np.float32)))
        for f in (tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.sigmoid, tf.tanh)
    ]
    return dict(steps=runs(ys, 1), feeds={x.name: np.ones((2, 3), np.float32)}, tolerance={"float32": 1e-5})


def infinite_segments(dtype):
    inf = np.inf
    x = v1.placeholder(dtype, (5,), name="x")
    up, down = (f(x, [0, 0, 1, 2, 2]) for f in (tf.math.segment_min, tf.math.segment_max))
    return dict(
        steps=runs([up, down], 1), feeds={x.name: np.array([inf, inf, -inf, -inf, -inf], dtype.as_numpy_dtype)}
    )


for _dtype in (tf.float16, tf.float32, tf.float64):
    CASES["infinite_segments_" + _dtype.name] = lambda dtype=_dtype: infinite_segments(dtype)


# Gradients by variables.


def gradient_by_variable(resource, read):
    v = v1.Variable(np.array([0.5, -2.0]), use_resource=resource, name="v")
    r = read(v)
    y = tf.reduce_sum(r * r * v)
    u = v1.Variable(1.0, use_resource=resource, name="unused")
    init = tf.group(v.initializer, u.initializer)
    return dict(
        steps=runs([y], 1, init) + [Step([], ["@first:0"])],
        gradients=[Gradients("first", [y], [v, u])],
        tolerance={"float64": 1e-9},
    )


for _resource in (False, True):
    CASES["gradient_by_a_variable_%s" % ("resource" if _resource else "reference")] = (
        lambda resource=_resource: gradient_by_variable(resource, lambda v: v.read_value())
    )
    CASES["gradient_by_a_variable_through_a_loop_%s" % ("resource" if _resource else "reference")] = (
        lambda resource=_resource: gradient_by_variable(
            resource, lambda v: loop(2, lambda s: s * 2.0, v.read_value())
        )
    )


# Two lists of one length.


@contract
def stitched_parts():
    x = v1.placeholder(tf.float32, (4, 2), name="x")
    part = tf.constant([1, 0, 1, 0])
    parts, places = tf.dynamic_partition(x, part, 2), tf.dynamic_partition(tf.range(4), part, 2)
    y = tf.dynamic_stitch(places, [parts[0] * 2.0, parts[1]])
    return dict(steps=runs([y], 1), feeds={x.name: np.arange(8, dtype=np.float32).reshape(4, 2)})


def make(name):
    graph = tf.Graph()
    with graph.as_default():
        parts = CASES[name]()
    return Case("contract/" + name, graph, parts.pop("steps"), **parts)
