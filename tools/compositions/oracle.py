"""What TensorFlow makes of a case."""

import numpy as np
import tensorflow as tf

from case import name_of

v1 = tf.compat.v1
DEVICES = 3


class NoCase(Exception):
    """TensorFlow cannot build or run it: nothing to compare with."""


def session(graph):
    config = v1.ConfigProto(
        device_count={"CPU": DEVICES},
        inter_op_parallelism_threads=1,
        intra_op_parallelism_threads=1,
        operation_timeout_in_ms=20000,
        allow_soft_placement=True,
    )
    config.graph_options.rewrite_options.disable_meta_optimizer = True  # the graph as it is written
    config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    return v1.Session(graph=graph, config=config)


def fill(case):
    """Sets what is wanted: which gradients are connected, and the values of the fetches of every
    step. Fetches that have no value are dropped."""
    if case.graph_def is None:
        case.graph_def = case.graph.as_graph_def()  # before TensorFlow's own gradients are added
    tensors, numeric, doubtful = {}, {}, {}
    with case.graph.as_default():
        for g in case.gradients:
            add_gradients(case, g, tensors, numeric, doubtful)
    with session(case.graph) as s:
        for step in case.steps:
            try:
                known = [f for f in step.fetches if f not in numeric and (f in tensors or not f.startswith("@"))]
                targets = [case.graph.get_operation_by_name(t) for t in step.targets]
                values = s.run([[tensors.get(f, f) for f in known], targets], case.feeds)[0]
            except tf.errors.OpError as e:
                raise NoCase(str(e).split("\n")[0])
            want = dict(zip(known, (np.asarray(v) for v in values)))
            for f in set(known) & set(doubtful):
                if np.max(np.abs(want[f] - doubtful[f](s)), initial=0) > 1e-4 * max(
                    1, np.max(np.abs(want[f]), initial=0)
                ):
                    raise NoCase("TensorFlow's own gradient of a gradient is not what differences say")
            for f in step.fetches:
                if f in numeric:
                    value = numeric[f](s)
                    if np.any(value != 0):  # a constant may be unconnected
                        want[f] = value
            step.fetches = [f for f in step.fetches if f in want]
            step.want = [want[f] for f in step.fetches]
    return case


def add_gradients(case, g, tensors, numeric, doubtful):
    try:
        ys = [tensors[y] if isinstance(y, str) and y.startswith("@") else y for y in g.ys]
    except KeyError:
        raise NoCase("the gradient that is differentiated is none")
    names = ["@%s:%d" % (g.name, k) for k in range(len(g.xs))]
    if g.refusable:
        # TensorFlow refuses gradients of gradients of loops, or forgets them: differences tell the
        # truth.
        g.connected = [True] * len(g.xs)
        for name, x in zip(names, g.xs):
            numeric[name] = lambda s, x=x: differences(s, ys, x, case.feeds)
        return
    try:
        grads = tf.gradients(ys, g.xs)
        grads = [tf.convert_to_tensor(d) if d is not None else None for d in grads]
    except (ValueError, TypeError, LookupError, AttributeError, NotImplementedError, tf.errors.OpError) as e:
        raise NoCase(str(e).split("\n")[0])
    g.connected = [d is not None for d in grads]
    tensors.update((n, d) for n, d in zip(names, grads) if d is not None)
    if any(isinstance(y, str) for y in g.ys):
        # Second gradients of some ops are wrong (those of pooling, where elements are equal).
        doubtful.update((n, lambda s, x=x: differences(s, ys, x, case.feeds)) for n, x in zip(names, g.xs))


def differences(s, ys, x, feeds):
    """The gradient of the sum of ys by central differences."""
    at = np.asarray(feeds[name_of(x)])
    out = np.zeros(at.shape, at.dtype)
    h = 1e-5
    for i in np.ndindex(*at.shape):
        values = []
        for sign in (1, -1):
            moved = at.copy()
            moved[i] += sign * h
            values.append(sum(float(np.sum(v)) for v in s.run(ys, {**feeds, name_of(x): moved})))
        out[i] = (values[0] - values[1]) / (2 * h)
    return out
