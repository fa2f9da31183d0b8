"""Random graphs: ops, conditionals, loops and variables, of small tensors whose shapes are known
while they are built.

Two regimes keep comparison sharp. In the exact one all values are small whole numbers (every
result is taken modulo 7), so that every order of summation gives the same bits in every type. In
the smooth one values are real and bounded, and no op jumps, so that rounding stays rounding.
"""

import random

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
SHAPES = [(), (3,), (2,), (2, 3), (3, 2), (1, 3), (2, 1), (2, 3, 2)]
MOST = 48  # elements of a tensor


def prepare_tensorflow():
    v1.logging.set_verbosity(v1.logging.ERROR)
    v1.disable_eager_execution()
    v1.disable_control_flow_v2()
    v1.disable_resource_variables()


class Impossible(Exception):
    """The choice does not fit what there is; another one may."""


class Builder:
    def __init__(self, seed, exact, types=None, nodes=30, depth=2, variables=False):
        self.r = random.Random(seed)
        self.np = np.random.RandomState(seed % 2**32)
        self.exact = exact
        self.types = types or self.r.choice(
            [[tf.float32, tf.int32], [tf.float64, tf.int64], [tf.int32, tf.int64, tf.float32]]
            if exact
            else [[tf.float64], [tf.float32], [tf.float64]]
        )
        self.left = nodes
        self.depth = depth
        self.use_variables = variables
        self.feeds, self.variables = {}, []
        # The last tensor that reads or writes a variable: they follow one another.
        self.order = None

    # Values

    def value(self, dtype, shape):
        if dtype == tf.bool:
            return self.np.randint(0, 2, shape).astype(bool)
        v = self.np.randint(-6, 7, shape) if self.exact else self.np.uniform(-1.2, 1.2, shape)
        return np.asarray(v).astype(dtype.as_numpy_dtype)

    def const(self, dtype, shape):
        return tf.constant(self.value(dtype, shape))

    def source(self, dtype=None, shape=None, fed=None):
        dtype = dtype or self.r.choice(self.types)
        shape = self.r.choice(SHAPES) if shape is None else shape
        if fed if fed is not None else self.r.random() < 0.5:
            p = v1.placeholder(
                dtype, shape if self.r.random() < 0.6 else [None] * len(shape), name="feed%d" % len(self.feeds)
            )
            p.set_shape(shape)
            self.feeds[p.name] = self.value(dtype, shape)
            return p
        return self.const(dtype, shape)

    def pick(self, env, dtype=None, rank=None, least=0):
        fit = [
            t
            for t in env
            if t.dtype != tf.bool
            and dtype in (None, t.dtype)
            and len(t.shape) >= least
            and rank in (None, len(t.shape))
        ]
        if fit and self.r.random() < 0.95:
            return self.r.choice(fit[-6:] if self.r.random() < 0.6 else fit)
        shapes = [s for s in SHAPES if len(s) >= least and rank in (None, len(s))]
        return self.const(dtype or self.r.choice(self.types), self.r.choice(shapes))

    def partner(self, env, x):
        """A tensor that x broadcasts with."""

        def fits(t):
            try:
                return t.dtype == x.dtype and np.prod(np.broadcast_shapes(tuple(t.shape), tuple(x.shape))) <= MOST
            except ValueError:
                return False

        fit = [t for t in env if fits(t)]
        return self.r.choice(fit) if fit and self.r.random() < 0.9 else self.const(x.dtype, ())

    def bounded(self, x):
        return tf.math.floormod(x, tf.constant(7, x.dtype)) if self.exact else tf.tanh(x)

    def checked(self, t):
        if not t.shape.is_fully_defined() or t.shape.num_elements() > MOST:
            raise Impossible
        return t

    # Ops

    def node(self, env):
        kinds = (
            [self.binary] * 4
            + [self.unary] * 4
            + [self.reduce] * 2
            + [self.move] * 4
            + [self.index] * 3
            + [self.select, self.product]
        )
        if self.exact:
            kinds += [self.compare, self.partition, self.segment]
        else:
            kinds += [self.normalise] * 2 + [self.image]
        return [self.checked(t) for t in self.r.choice(kinds)(env)]

    def binary(self, env):
        x = self.pick(env)
        y = self.partner(env, x)
        fs = [tf.add, tf.subtract, tf.multiply, tf.maximum, tf.minimum, tf.math.squared_difference]
        if not self.exact:
            fs += [
                lambda a, b: a / (1.5 + b * b),
                lambda a, b: tf.atan2(a, b * b + 1.0),
                lambda a, b: tf.pow(a * a + 0.3, 0.5 * b),
            ]
        return [self.bounded(self.r.choice(fs)(x, y))]

    def unary(self, env):
        x = self.pick(env)
        if self.exact:
            return [
                self.r.choice(
                    [
                        tf.negative,
                        tf.abs,
                        tf.sign,
                        tf.identity,
                        tf.zeros_like,
                        tf.ones_like,
                        tf.stop_gradient,
                        lambda a: self.bounded(tf.square(a)),
                        lambda a: tf.nn.relu(a),
                        lambda a: tf.cast(a, self.r.choice(self.types)),
                    ]
                )(x)
            ]
        return [
            self.r.choice(
                [
                    tf.tanh,
                    tf.sigmoid,
                    tf.sin,
                    tf.cos,
                    tf.atan,
                    tf.nn.softplus,
                    tf.nn.softsign,
                    tf.nn.relu,
                    tf.nn.elu,
                    tf.nn.selu,
                    tf.nn.relu6,
                    tf.nn.leaky_relu,
                    tf.abs,
                    tf.negative,
                    tf.identity,
                    tf.math.erf,
                    tf.math.asinh,
                    lambda a: tf.square(tf.tanh(a)),
                    lambda a: tf.exp(-a * a),
                    lambda a: tf.sqrt(a * a + 0.5),
                    lambda a: tf.math.rsqrt(a * a + 0.5),
                    lambda a: tf.math.log1p(a * a),
                    lambda a: tf.math.reciprocal(a * a + 1.0),
                    lambda a: tf.math.expm1(tf.tanh(a)),
                ]
            )(x)
        ]

    def reduce(self, env):
        x = self.pick(env, least=1)
        axes = self.r.sample(range(len(x.shape)), self.r.randint(1, len(x.shape)))
        fs = [tf.reduce_sum, tf.reduce_max, tf.reduce_min] + (
            [] if self.exact else [tf.reduce_mean, tf.reduce_logsumexp, tf.math.reduce_euclidean_norm]
        )
        return [self.bounded(self.r.choice(fs)(x, axis=axes, keepdims=self.r.random() < 0.5))]

    def move(self, env):
        x = self.pick(env, least=1)
        n, rank = int(x.shape[0]), len(x.shape)
        axis = self.r.randrange(rank)
        k = self.r.randrange(10)
        if k == 0:
            return [tf.transpose(x, self.r.sample(range(rank), rank))]
        if k == 1:
            return [tf.reshape(x, [-1])]
        if k == 2:
            return [tf.concat([x, self.r.choice([x, tf.negative(x)])], axis)]
        if k == 3:
            return tf.split(x, int(x.shape[axis]), axis)
        if k == 4:
            return [tf.reverse(x, [axis])]
        if k == 5:
            return [tf.pad(x, [[self.r.randint(0, 1), self.r.randint(0, 1)] for _ in range(rank)])]
        if k == 6:
            return [tf.tile(x, [self.r.randint(1, 2) for _ in range(rank)])]
        if k == 7:
            return [x[tuple(slice(None, None, self.r.choice([1, -1, 2])) for _ in range(rank))]]
        if k == 8:
            return [
                self.bounded(tf.cumsum(x, axis=axis, exclusive=self.r.random() < 0.5, reverse=self.r.random() < 0.5))
            ]
        return [tf.stack(tf.unstack(x)[::-1], self.r.randint(0, rank - 1) if rank > 1 else 0)] if n else [x]

    def index(self, env):
        x = self.pick(env, least=1)
        n = int(x.shape[0])
        k = self.r.randrange(5)
        if n == 0:
            raise Impossible
        rows = [self.r.randrange(n) for _ in range(self.r.randint(1, 4))]
        if k == 0:
            return [tf.gather(x, tf.constant(rows, self.r.choice([tf.int32, tf.int64])))]
        if k == 1:
            return [tf.gather_nd(x, [[i] for i in rows])]
        if k == 2:
            return [
                self.bounded(
                    tf.scatter_nd([[i] for i in rows], tf.gather(x, rows), [n] + [int(d) for d in x.shape[1:]])
                )
            ]
        if k == 3:
            return [tf.expand_dims(x, self.r.randint(0, len(x.shape)))]
        return [tf.slice(x, [0] * len(x.shape), [self.r.randint(1, int(d)) for d in x.shape])]

    def select(self, env):
        x = self.pick(env)
        y = self.pick([t for t in env if t.shape == x.shape], x.dtype, len(x.shape))
        if x.shape != y.shape:
            raise Impossible
        condition = self.const(tf.bool, tuple(x.shape)) if not self.exact else x > y
        return [v1.where(condition, y, x)]

    def product(self, env):
        x = self.pick(env, rank=2)
        y = self.pick([t for t in env if len(t.shape) == 2 and t.shape[0] == x.shape[1]], x.dtype, 2)
        if x.shape[1] != y.shape[0]:
            return [self.bounded(tf.matmul(x, x, transpose_b=True))]
        z = tf.matmul(x, y)
        if self.r.random() < 0.4:
            z = tf.nn.bias_add(z, self.const(x.dtype, (int(y.shape[1]),)))
            if not self.exact or x.dtype.is_floating:
                z = self.r.choice([tf.nn.relu, tf.identity])(z)
        return [self.bounded(z)]

    def compare(self, env):
        x = self.pick(env)
        y = self.partner(env, x)
        p = self.r.choice([tf.less, tf.equal, tf.not_equal, tf.greater_equal])(x, y)
        if self.r.random() < 0.3:
            p = tf.logical_or(tf.logical_not(p), tf.reduce_any(p))
        return [tf.cast(p, self.r.choice(self.types))]

    def partition(self, env):
        x = self.pick(env, least=1)
        n = int(x.shape[0])
        part = tf.constant([self.r.randrange(2) for _ in range(n)], tf.int32)
        parts, places = tf.dynamic_partition(x, part, 2), tf.dynamic_partition(tf.range(n), part, 2)
        t = tf.dynamic_stitch(places, [tf.negative(parts[0]), parts[1]])
        t.set_shape(x.shape)
        return [t]

    def segment(self, env):
        x = self.pick(env, least=1)
        n = int(x.shape[0])
        if n == 0:
            raise Impossible
        ids = np.cumsum([0] + [self.r.randint(0, 1) for _ in range(n - 1)])
        f = self.r.choice(
            [
                tf.math.segment_sum,
                tf.math.segment_max,
                tf.math.segment_min,
                lambda a, i: tf.math.unsorted_segment_sum(a, i, int(ids[-1]) + 1),
            ]
        )
        t = f(x, tf.constant(ids, tf.int32))
        t.set_shape([int(ids[-1]) + 1] + [int(d) for d in x.shape[1:]])
        return [self.bounded(t)]

    def normalise(self, env):
        x = self.pick(env, least=1)
        if x.shape.num_elements() == 0:
            raise Impossible
        k = self.r.randrange(4)
        if k == 0:
            return [tf.nn.softmax(x)]
        if k == 1:
            return [tf.tanh(tf.nn.log_softmax(x))]
        if k == 2:
            mean, variance = tf.nn.moments(x, [len(x.shape) - 1], keepdims=True)
            return [tf.nn.batch_normalization(x, mean, variance, None, None, 0.1)]
        classes = int(x.shape[-1])
        logits = tf.reshape(x, [-1, classes])
        labels = [self.r.randrange(classes) for _ in range(int(logits.shape[0]))]
        return [tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)]

    def image(self, env):
        x = self.pick(env)
        if x.shape.num_elements() == 0:
            raise Impossible
        depth = self.r.choice([1, 2, 4])
        flat = tf.tile(tf.reshape(x, [-1]), [1 + 16 * depth // x.shape.num_elements()])[: 16 * depth]
        y = tf.nn.conv2d(
            tf.reshape(flat, [1, 4, 4, depth]),
            self.const(x.dtype, (self.r.choice([1, 3]), 3, depth, 2)),
            self.r.choice([1, 2]),
            self.r.choice(["SAME", "VALID"]),
        )
        y = self.r.choice([tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.identity])(
            tf.nn.bias_add(y, self.const(x.dtype, (2,)))
        )
        pool = self.r.choice([tf.nn.max_pool2d, tf.nn.avg_pool2d, lambda a, *_: a])
        return [tf.tanh(tf.reduce_sum(pool(y, 2, 2, "SAME"), self.r.choice([[1, 2], [0, 3], [1]])))]

    # Control flow

    def block(self, env, depth, count):
        """Grows the environment by about `count` nodes, of which some are whole conditionals and loops."""
        env = list(env)
        for _ in range(count):
            if self.left <= 0:
                break
            self.left -= 1
            k = self.r.random()
            try:
                if depth < self.depth and k < 0.10:
                    env += self.cond(env, depth)
                elif depth < self.depth and k < 0.22:
                    env += self.loop(env, depth)
                elif self.variables and k < 0.36:
                    env.append(self.variable_op(env))
                else:
                    env += self.node(env)
            except Impossible:
                pass
        return env

    def in_order(self):
        return tf.control_dependencies([self.order] if self.order is not None else [])

    def predicate(self, env):
        x = tf.reduce_sum(self.pick(env))
        return x > (
            tf.constant(self.r.randint(-3, 3), x.dtype)
            if self.exact
            else tf.constant(self.r.uniform(-0.5, 0.5), x.dtype)
        )

    def cond(self, env, depth):
        want = [self.pick(env) for _ in range(self.r.randint(1, 2))]
        outer = self.order
        with self.in_order():
            p = tf.identity(self.predicate(env))

        def branch():
            self.order = None
            inner = self.block(env, depth + 1, self.r.randint(1, 4))
            out = []
            for w in want:
                fit = [t for t in inner if t.dtype == w.dtype and t.shape == w.shape]
                chosen = self.r.choice(fit[-3:]) if fit else self.const(w.dtype, tuple(w.shape))
                out.append(chosen * tf.constant(1, w.dtype))
            if self.order is not None:
                with tf.control_dependencies([self.order]):
                    out = [tf.identity(t) for t in out]
            return out

        out = v1.cond(p, branch, branch)
        out = list(out) if isinstance(out, (list, tuple)) else [out]
        for t, w in zip(out, want):
            t.set_shape(w.shape)
        self.order = out[0] if self.variables else outer
        return out

    def loop(self, env, depth):
        start = [self.pick(env) for _ in range(self.r.randint(1, 2))]
        times = self.r.choice([0, 1, 2, 3])
        stack = self.r.random() < 0.4
        outer = self.order
        with self.in_order():
            i0 = tf.identity(tf.constant(0))
        limit = tf.constant(times) if self.r.random() < 0.5 else self.count(times)
        changed = [False]

        def body(i, *state):
            state = list(state)
            array = state.pop() if stack else None
            self.order = None
            with tf.control_dependencies([i]):
                inner = self.block(
                    list(env) + state + ([tf.cast(i, state[0].dtype)] if self.exact else []),
                    depth + 1,
                    self.r.randint(1, 5),
                )
                out = []
                for s in state:
                    fit = [t for t in inner[len(env) :] if t.dtype == s.dtype and t.shape == s.shape]
                    out.append(self.bounded((self.r.choice(fit[-4:]) if fit else s) + s))
                if array is not None:
                    array = array.write(i, out[0])
                changed[0] |= self.order is not None
                with self.in_order():
                    following = i + 1
            return [following] + out + ([array] if stack else [])

        arrays = (
            [tf.TensorArray(start[0].dtype, size=0, dynamic_size=True, element_shape=start[0].shape)] if stack else []
        )
        out = v1.while_loop(
            lambda i, *_: i < limit, body, [i0] + start + arrays, parallel_iterations=self.r.choice([1, 10])
        )
        self.order = out[0] if changed[0] or outer is not None else None
        results = list(out[1 : 1 + len(start)])
        for t, s in zip(results, start):
            t.set_shape(s.shape)
        if stack:
            total = tf.reduce_sum(out[-1].stack(), 0)
            total.set_shape(start[0].shape)
            results.append(self.bounded(total))
        return results

    def count(self, times):
        with tf.control_dependencies(None):
            p = v1.placeholder(tf.int32, (), name="feed%d" % len(self.feeds))
        self.feeds[p.name] = np.array(times, np.int32)
        return p

    # Variables

    def make_variables(self):
        for k in range(self.r.randint(1, 3)):
            shape = self.r.choice([(), (3,), (2, 3)])
            dtype = self.r.choice([t for t in self.types if t != tf.bool])
            self.variables.append(
                v1.Variable(self.value(dtype, shape), use_resource=self.r.random() < 0.5, name="v%d" % k)
            )

    def variable_op(self, env):
        v = self.r.choice(self.variables)
        dtype, shape = v.dtype.base_dtype, tuple(int(d) for d in v.shape)
        with self.in_order():
            k = self.r.randrange(4)
            after = []
            if k > 0:
                fit = [t for t in env if t.dtype == dtype and tuple(t.shape) == shape]
                by = tf.identity(self.r.choice(fit) if fit else self.const(dtype, shape))
                done = [None, v1.assign, v1.assign_add, v1.assign_sub][k](v, by)
                after = [done.op if getattr(done, "op", None) is not None else done]
            with tf.control_dependencies(after):
                # What is read is a value of its own: TensorFlow may hand out the variable's own
                # memory, which the next update changes.
                read = v.read_value() + tf.constant(0, dtype)
        self.order = read
        t = self.bounded(read)
        t.set_shape(shape)
        return t
