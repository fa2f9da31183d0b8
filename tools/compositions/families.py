"""Families of random cases. The same name and seed give the same case."""

import random

import tensorflow as tf

from case import Case, Gradients, Step, stripped
from generator import Builder
from oracle import DEVICES, NoCase
from training import training

v1 = tf.compat.v1
TOLERANCE = {"float64": 1e-9, "float32": 2e-4, "complex64": 2e-4, "complex128": 1e-9}


def build(seed, make):
    graph = tf.Graph()
    with graph.as_default():
        return graph, make(graph)


def steps_of(init, fetches, count):
    return ([Step([init.name])] if init is not None else []) + [Step([], list(fetches)) for _ in range(count)]


def stateless(seed, nodes=None):
    r = random.Random(seed)
    builder = Builder(seed, exact=r.random() < 0.5, nodes=nodes or r.choice([8, 15, 30, 60]), depth=0)

    def make(graph):
        env = [builder.source() for _ in range(r.randint(2, 5))]
        return builder.block(env, 0, 100)[len(env) :]

    graph, env = build(seed, make)
    fetches = [t.name for t in r.sample(env, min(len(env), 8))]
    if not fetches:
        raise NoCase("nothing was built")
    return Case("", graph, [Step([], fetches)] * 1, builder.feeds, tolerance={} if builder.exact else TOLERANCE)


def control(seed, nodes=None):
    r = random.Random(seed)
    builder = Builder(
        seed,
        exact=True,
        nodes=nodes or r.choice([8, 15, 30]),
        depth=r.choice([1, 2, 2, 3]),
        variables=r.random() < 0.7,
    )

    def make(graph):
        if builder.use_variables:
            builder.make_variables()
        env = [builder.source() for _ in range(r.randint(2, 4))]
        for grow in r.sample([builder.cond, builder.loop, builder.loop], 2):
            env = env + grow(env, 0)
        results = builder.block(env, 0, 100)
        return results, v1.global_variables_initializer() if builder.variables else None

    graph, (env, init) = build(seed, make)
    fetches = [t.name for t in r.sample(env, min(len(env), 8))]
    if builder.order is not None:
        fetches.append(builder.order.name)
    return Case("", graph, steps_of(init, fetches, 2), builder.feeds)


def gradient(seed, nodes=None):
    r = random.Random(seed)
    builder = Builder(
        seed, exact=False, types=[tf.float64], nodes=nodes or r.choice([5, 10, 20]), depth=r.choice([0, 1, 1, 2])
    )

    def make(graph):
        xs = [builder.source(tf.float64, fed=True) for _ in range(2)]
        env = xs + [builder.source() for _ in range(2)]
        if builder.depth:
            env += builder.loop(env, 0) if r.random() < 0.7 else builder.cond(env, 0)
        grown = builder.block(env, 0, 100)[4:]
        ys = [t for t in grown if t.dtype == tf.float64]
        if not ys:
            raise NoCase("nothing was built")
        return xs, tf.add_n([tf.reduce_sum(t) for t in r.sample(ys, min(len(ys), 3))])

    graph, (xs, y) = build(seed, make)
    case = Case("", graph, [Step([], [y.name, "@first:0", "@first:1"])], builder.feeds, tolerance=TOLERANCE)
    case.gradients.append(Gradients("first", [y], xs))
    if r.random() < 0.5:
        # Where there is a loop TensorFlow refuses; kinks make differences useless, but are rare.
        loops = any(op.type == "LoopCond" for op in graph.get_operations())
        case.gradients.append(Gradients("second", ["@first:%d" % r.randrange(2)], xs, refusable=loops))
        case.steps[0].fetches += ["@second:0", "@second:1"]
        if loops:
            case.tolerance = {"float64": 2e-4}
    return case


def placed(seed, nodes=None):
    """A case of another family, with nodes on devices at random: results do not depend on where a
    node runs."""
    r = random.Random(seed)
    case = r.choice([stateless, control, control])(seed, nodes)
    states = {
        op.name
        for op in case.graph.get_operations()
        if any(t.dtype._is_ref_dtype or t.dtype == tf.resource for t in list(op.inputs) + list(op.outputs))
    }
    case.graph_def = stripped(case.graph.as_graph_def())
    for node in case.graph_def.node:
        if node.name not in states and "_class" not in node.attr and r.random() < 0.5:
            node.device = "/cpu:%d" % r.randrange(DEVICES)
    case.devices = DEVICES
    return case


FAMILIES = {"stateless": stateless, "control": control, "gradient": gradient, "training": training, "placed": placed}
SHARES = ["stateless"] * 4 + ["control"] * 4 + ["gradient"] * 4 + ["training"] * 2 + ["placed"] * 3


def make(family, seed, nodes=None):
    try:
        case = FAMILIES[family](seed, nodes)
    except (ValueError, TypeError, tf.errors.OpError) as e:  # some gradients and loops TensorFlow cannot even build
        raise NoCase(str(e).split("\n")[0])
    case.name = "%s/%d" % (family, seed) if nodes is None else "%s/%d/%d" % (family, seed, nodes)
    return case
