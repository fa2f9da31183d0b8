"""Writes the loops and conditionals that autodiff/imported_test.cc differentiates, and TensorFlow's gradients for them, into tests/cases/imported.

  TF_CPP_MIN_LOG_LEVEL=3 python tests/cases/record/imported.py

NAME.pbtxt is the forward graph; gradients.txt has a line per feed: the graph and its feeds, their values, y, and the gradients of the feeds ("none" of a bool).
again_NAME.pbtxt has a function y of the float64 scalar x and TensorFlow's gradient g of it, which is to be
differentiated again: TensorFlow itself does not do that.
"""
import os

import numpy as np
import tensorflow as tf

import text

tf1 = tf.compat.v1
tf1.disable_eager_execution()
tf1.disable_control_flow_v2()
HERE = os.path.join(text.CASES, "imported")
CASES = []


def case(feeds):
    def wrap(build):
        CASES.append((build.__name__, build, feeds))
        return build
    return wrap


def scalar(name, shape=()):
    return tf1.placeholder(tf.float32, shape, name=name)


def while_loop(cond, body, init, **kw):
    return tf1.while_loop(cond, body, init, **kw)


@case([{'x': 1.5, 'w': 0.5}, {'x': -2.0, 'w': 3.0}])
def fixed_trips():
    x, w = scalar('x'), scalar('w')
    _, a = while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x + w), (0, x))
    return a


@case([{'x': 1.25, 'limit': 100.0}, {'x': 3.0, 'limit': 100.0}, {'x': 3.0, 'limit': 1.0}])
def trips_depend_on_data():
    x, limit = scalar('x'), scalar('limit')
    return while_loop(lambda a: a < limit, lambda a: [a * a * x], [x], parallel_iterations=2)


@case([{'h': [[0.1, -0.2]], 'w': [[0.5, -1.0], [0.25, 0.75]], 'b': [0.1, 0.2], 'n': n} for n in (0.0, 1.0, 4.0)])
def recurrent():
    h, w, b, n = scalar('h', (1, 2)), scalar('w', (2, 2)), scalar('b', (2,)), scalar('n')
    _, r = while_loop(lambda i, h: i < n, lambda i, h: (i + 1.0, tf.tanh(tf.matmul(h, w) + b)), (0.0, h))
    return tf1.reduce_sum(r * r)


@case([{'h': [[0.1, -0.2]], 'w': [[0.5, -1.0], [0.25, 0.75]], 'b': [0.1, 0.2]}])
def recurrent_of_unknown_shape():
    h, w, b = scalar('h', (None, None)), scalar('w', None), scalar('b', None)
    _, r = while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w) + b)), (0, h),
                      shape_invariants=(tf.TensorShape([]), tf.TensorShape(None)))
    return tf1.reduce_sum(r * r)


@case([{'x': 1.1, 'w': 0.9, 'n': n} for n in (0.0, 1.0, 3.0)])
def nested():
    x, w, n = scalar('x'), scalar('w'), scalar('n')

    def outer(i, a):
        _, inner = while_loop(lambda j, b: j < i, lambda j, b: (j + 1.0, b * w + a * x), (0.0, a * x))
        return i + 1.0, inner * w + a
    _, a = while_loop(lambda i, a: i < n, outer, (0.0, x))
    return a


@case([{'x': 1.1, 'w': 0.9}])
def nested_thrice():
    x, w = scalar('x'), scalar('w')

    def third(i, j, a):
        return while_loop(lambda k, c: k < j, lambda k, c: (k + 1, c * x + a), (0, a))[1]

    def second(i, a):
        return while_loop(lambda j, b: j < i, lambda j, b: (j + 1, third(i, j, b) * w), (0, a))[1]
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, second(i, a) * w + a), (0, x))[1]


@case([{'x': 1.1, 'w': 0.9, 'p': p} for p in (True, False)])
def conditional():
    x, w = scalar('x'), scalar('w')
    p = tf1.placeholder(tf.bool, (), name='p')
    return tf1.cond(p, lambda: x * w, lambda: x * x * x) * w


@case([{'x': [1.1, -0.4], 'w': [0.9, 2.0], 'p': p, 'q': q} for p in (True, False) for q in (True, False)])
def conditional_in_conditional():
    x, w = scalar('x', (2,)), scalar('w', None)
    p, q = tf1.placeholder(tf.bool, (), name='p'), tf1.placeholder(tf.bool, (), name='q')
    return tf1.reduce_sum(tf1.cond(p, lambda: x * tf1.cond(q, lambda: w * w, lambda: x + x), lambda: tf1.cond(q, lambda: w * x * x, lambda: x)))


@case([{'x': 1.1, 'w': 0.9}, {'x': 2.5, 'w': -0.3}])
def conditional_in_loop():
    x, w = scalar('x'), scalar('w')

    def body(i, a, b):
        c = tf1.cond(tf1.equal(i % 2, 0), lambda: a * x + tf.sin(b), lambda: b * a * w)
        return i + 1, c, a
    _, a, b = while_loop(lambda i, a, b: i < 5, body, (0, x, w))
    return a * 2.0 + b


@case([{'x': [[1.1, 0.3]], 'w': [[0.9], [0.5]]}])
def conditionals_in_loop_of_unknown_shape():
    x, w = scalar('x', None), scalar('w', None)

    def deep(i, a):
        return tf1.cond(tf1.equal(i, 2), lambda: tf.tanh(a), lambda: a * tf1.cond(i > 2, lambda: a, lambda: x))

    def body(i, a):
        return i + 1, tf1.cond(tf1.equal(i % 2, 0), lambda: deep(i, a), lambda: a + x * tf.matmul(a, w))
    _, a = while_loop(lambda i, a: i < 4, body, (0, x), shape_invariants=(tf.TensorShape([]), tf.TensorShape(None)))
    return tf1.reduce_sum(a)


@case([{'x': 1.1, 'w': 0.9, 'p': p} for p in (True, False)])
def loop_in_conditional():
    x, w = scalar('x'), scalar('w')
    p = tf1.placeholder(tf.bool, (), name='p')
    return tf1.cond(p, lambda: while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x * w), (0, w))[1], lambda: x * w) * x


@case([{'x': 1.1, 'w': 0.9}])
def loop_in_conditional_in_loop():
    x, w = scalar('x'), scalar('w')

    def inner(i, a):
        return while_loop(lambda j, b: j < i, lambda j, b: (j + 1, b * x + a), (0, a * w))[1]

    def body(i, a):
        return i + 1, tf1.cond(tf1.equal(i % 2, 1), lambda: inner(i, a), lambda: a * a * x)
    return while_loop(lambda i, a: i < 4, body, (0, x))[1]


@case([{'x': 1.1, 'w': 0.9}])
def unused_and_swapped_variables():
    x, w = scalar('x'), scalar('w')
    # d is never used afterwards, c only through b.
    _, a, b, c, d = while_loop(lambda i, a, b, c, d: i < 3, lambda i, a, b, c, d: (i + 1, b * x, a + c, c * w, d * x * c), (0, x, w, x, w))
    return b


@case([{'x': 1.1, 'w': 0.9}])
def two_loops():
    x, w = scalar('x'), scalar('w')
    _, a = while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a * x), (0, w))
    _, b = while_loop(lambda i, b: i < 3, lambda i, b: (i + 1, b * a + x), (0, w))
    return a * b


@case([{'x': [1.0, 2.0, 3.0], 'w': [[1.0], [2.0]]}])
def broadcast_in_loop():
    x, w = scalar('x', (3,)), scalar('w', (2, 1))
    _, a = while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a * w + x), (0, tf.zeros((2, 3)) + x))
    return tf1.reduce_sum(a * a)


AGAIN = {}


def again(build):
    AGAIN[build.__name__] = build
    return build


def repeat(times, f, x):
    return while_loop(lambda i, _: i < times, lambda i, v: (i + 1, f(i, v)), [0, x])[1]


def array(size, shape=()):
    return tf1.TensorArray(tf.float64, size, clear_after_read=False, element_shape=shape)


@again
def array_of_rows(x):
    rows = array(2).unstack(tf.stack([x * x, x * x * x]))
    return rows.read(0) * rows.read(1)


@again
def array_read_in_a_loop(x):
    rows = array(2).unstack(tf.stack([x, 2 * x]))
    return repeat(2, lambda i, v: v * rows.read(i), 1.0 * x)


@again
def array_written_in_a_loop(x):
    def body(i, v, a):
        return i + 1, v * x, a.write(i, v)
    a = while_loop(lambda i, *_: i < 3, body, [0, x, array(3)])[2]
    return tf1.reduce_sum(tf.square(a.stack()))


@again
def array_with_elements_that_nothing_reads(x):
    # Their shape is known once they are written.
    rows = array(3, None).unstack(tf.stack([x * x * [1.0, 2.0], x * [3.0, 4.0], x * x * x * [5.0, 6.0]]))
    return tf1.reduce_sum(rows.read(1) * rows.read(1) * x)


@again
def array_in_each_iteration_of_a_loop(x):
    def body(i, v):
        rows = array(2).unstack(tf.stack([v * x, v + x]))
        return rows.read(0) * rows.read(1)
    return repeat(2, body, x)


@again
def map_of_rows(x):
    return tf1.reduce_prod(tf1.map_fn(lambda r: r * r * x, tf.stack([x, tf.sin(x), x * x])))


@again
def branch_by_the_counter(x):
    return repeat(1, lambda i, v: tf1.cond(i < 5, lambda: v * x, lambda: v * x), x)


@again
def branches_that_differ(x):
    return repeat(3, lambda i, v: tf1.cond(i > 0, lambda: tf.square(v) * x, lambda: tf.sin(v) * x), x)


@again
def branch_by_a_constant_in_nested_loops(x):
    def inner(v):
        return repeat(2, lambda j, w: tf1.cond(x > 0.4, lambda: tf.square(w), lambda: w * v), v * x)
    return repeat(2, lambda i, v: inner(v), x)


@again
def loop_in_a_branch_in_a_loop(x):
    def body(i, u):
        return tf1.cond(u > 0.4, lambda: repeat(2, lambda j, v: v * u, x), lambda: u * u * x)
    return repeat(2, body, x)


def write(name, graph):
    def_ = graph.as_graph_def()
    for n in def_.node:
        n.attr.pop('_class', None)
        for k in [k for k in n.attr if k.startswith('_')]:
            n.attr.pop(k)
    with open(os.path.join(HERE, name + '.pbtxt'), 'w') as f:
        f.write(str(def_))


def main():
    lines = []
    for name, build, feeds in CASES:
        with tf.Graph().as_default() as g:
            y = tf1.convert_to_tensor(build()) if not isinstance(build, list) else None
            y = tf1.identity(y, name='y')
            write(name, g)
            names = [k for k in feeds[0] if g.get_tensor_by_name(k + ':0').dtype == tf.float32]
            xs = [g.get_tensor_by_name(k + ':0') for k in names]
            grads = tf1.gradients(y, xs)
            with tf1.Session() as s:
                for feed in feeds:
                    fd = {k + ':0': v for k, v in feed.items()}
                    out = s.run([y] + [t if t is not None else tf.zeros_like(x) for t, x in zip(grads, xs)], fd)
                    of = dict(zip(names, out[1:]))
                    arrays = [np.asarray(v, None if isinstance(v, bool) else np.float32) for v in feed.values()]
                    lines.append(text.case_text(name, [], {'feeds': list(feed)}, arrays, [out[0]], [of.get(k) for k in feed]))
    text.write('imported/gradients.txt', 'imported.py', lines)
    for name, build in AGAIN.items():
        with tf.Graph().as_default() as g:
            x = tf1.placeholder(tf.float64, (), name='x')
            y = tf1.identity(build(x), name='y')
            tf1.identity(tf1.gradients(y, x)[0], name='g')
            write('again_' + name, g)


main()
