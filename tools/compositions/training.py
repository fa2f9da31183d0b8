"""Small networks that are trained for 20 steps by one of TensorFlow's optimizers or by a bare
Apply op."""

import random

import numpy as np
import tensorflow as tf

from case import Case, Step

v1 = tf.compat.v1
STEPS = 20
LOOKED_AT = (0, 4, STEPS - 1)  # the variables are compared after these
TOLERANCE = {"float64": 1e-9, "float32": 5e-4}


class Network:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.np = np.random.RandomState(seed % 2**32)
        self.dtype = self.r.choice([tf.float32, tf.float32, tf.float64])
        self.resource = self.r.random() < 0.5
        self.weights = []

    def variable(self, shape, name):
        value = (self.np.randn(*shape) * 0.4).astype(self.dtype.as_numpy_dtype)
        self.weights.append(v1.Variable(value, use_resource=self.resource, name=name))
        return self.weights[-1]

    def loss(self, x):
        r, h = self.r, x
        if len(x.shape) == 4:
            h = tf.nn.conv2d(
                h, self.variable((3, 3, int(x.shape[3]), 4), "filter"), r.choice([1, 2]), r.choice(["SAME", "VALID"])
            )
            h = tf.nn.relu(tf.nn.bias_add(h, self.variable((4,), "filter_bias")))
            h = r.choice(
                [
                    lambda t: tf.nn.max_pool2d(t, 2, 2, "SAME"),
                    lambda t: tf.nn.avg_pool2d(t, 2, 1, "SAME"),
                    lambda t: t,
                ]
            )(h)
            h = tf.reshape(h, [int(x.shape[0]), -1])
        for k in range(r.randint(1, 2)):
            units = r.choice([3, 5])
            h = tf.matmul(h, self.variable((int(h.shape[1]), units), "weights%d" % k))
            bias = self.variable((units,), "bias%d" % k)
            h = tf.nn.bias_add(h, bias) if r.random() < 0.6 else h + bias
            h = r.choice([tf.tanh, tf.sigmoid, tf.nn.elu, tf.nn.softplus, tf.nn.relu])(h)
        h = tf.matmul(h, self.variable((int(h.shape[1]), 3), "last"))
        n = int(x.shape[0])
        labels = self.np.randint(0, 3, n)
        loss = r.choice(
            [
                lambda: tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=h)),
                lambda: tf.reduce_mean(
                    tf.nn.softmax_cross_entropy_with_logits(
                        labels=np.eye(3)[labels].astype(self.dtype.as_numpy_dtype), logits=h
                    )
                ),
                lambda: tf.reduce_sum(tf.square(h - tf.constant(self.np.randn(n, 3), self.dtype)))
                * tf.constant(0.1, self.dtype),
            ]
        )()
        if r.random() < 0.3:
            loss += tf.constant(0.01, self.dtype) * tf.add_n([tf.nn.l2_loss(w) for w in self.weights])
        return loss


def optimizer(r, dtype):
    rate = r.choice([0.05, 0.01])
    if r.random() < 0.3 and dtype == tf.float32:
        step = v1.train.get_or_create_global_step()
        rate = r.choice(
            [
                lambda: v1.train.exponential_decay(0.05, step, 3, 0.9, staircase=r.random() < 0.5),
                lambda: v1.train.polynomial_decay(0.05, step, 15, 0.01),
                lambda: v1.train.piecewise_constant(step, [5, 10], [0.05, 0.02, 0.01]),
            ]
        )()
    return r.choice(
        [
            lambda: v1.train.GradientDescentOptimizer(rate),
            lambda: v1.train.MomentumOptimizer(rate, 0.9, use_nesterov=r.random() < 0.5),
            lambda: v1.train.AdamOptimizer(rate),
            lambda: v1.train.AdagradOptimizer(rate),
            lambda: v1.train.AdadeltaOptimizer(1.0),
            lambda: v1.train.FtrlOptimizer(
                rate,
                l1_regularization_strength=r.choice([0.0, 0.01]),
                l2_regularization_strength=r.choice([0.0, 0.01]),
            ),
            lambda: v1.train.RMSPropOptimizer(
                rate, momentum=r.choice([0.0, 0.5]), centered=r.random() < 0.5, epsilon=1e-3
            ),
        ]
    )()


def bare_update(r, kind, v, grad, resource, dtype):
    """One Apply op with slots that nothing but its inputs ties to the variable."""

    def slot(name, value):
        with tf.control_dependencies(None):
            s = v1.Variable(
                np.full([int(d) for d in v.shape], value, dtype.as_numpy_dtype),
                use_resource=resource,
                name=v.op.name + "_" + name,
            )
        return s.handle if resource else s._ref()

    def c(x):
        return tf.constant(x, dtype)

    op = getattr(tf.raw_ops, ("Resource" if resource else "") + "Apply" + kind)
    var = v.handle if resource else v._ref()
    inputs = {
        "Adagrad": lambda: dict(accum=slot("a", 0.1), lr=c(0.1), update_slots=r.random() < 0.5),
        "Adam": lambda: dict(
            m=slot("m", 0),
            v=slot("v", 0),
            beta1_power=c(0.9),
            beta2_power=c(0.99),
            lr=c(0.02),
            beta1=c(0.9),
            beta2=c(0.99),
            epsilon=c(1e-3),
            use_nesterov=r.random() < 0.5,
        ),
        "Momentum": lambda: dict(accum=slot("a", 0), lr=c(0.05), momentum=c(0.8), use_nesterov=r.random() < 0.5),
        "Adadelta": lambda: dict(
            accum=slot("a", 0), accum_update=slot("u", 0), lr=c(1.0), rho=c(0.9), epsilon=c(1e-3)
        ),
        "FtrlV2": lambda: dict(
            accum=slot("a", 0.1),
            linear=slot("l", 0),
            lr=c(0.1),
            l1=c(0.01),
            l2=c(0.1),
            l2_shrinkage=c(0.01),
            lr_power=c(-0.5),
        ),
        "CenteredRMSProp": lambda: dict(
            mg=slot("g", 0),
            ms=slot("s", 1.0),
            mom=slot("m", 0),
            lr=c(0.02),
            rho=c(0.9),
            momentum=c(0.5),
            epsilon=c(1e-3),
        ),
    }[kind]()
    done = op(var=var, grad=grad, use_locking=r.random() < 0.5, **inputs)
    return done if isinstance(done, tf.Operation) else done.op


def training(seed, nodes=None):
    net = Network(seed)
    r = net.r
    graph = tf.Graph()
    feeds = {}
    with graph.as_default():
        shape = r.choice([(6, 4), (4, 6, 6, 2)]) if net.dtype == tf.float32 else (6, 4)
        x = v1.placeholder(net.dtype, shape, name="x")
        feeds[x.name] = net.np.randn(*shape).astype(net.dtype.as_numpy_dtype)
        loss = net.loss(x)
        # Each gradient after the loss, and each update after all gradients: TensorFlow leaves it
        # open otherwise what reads of reference variables see.
        if r.random() < 0.4:
            grads = tf.gradients(loss, net.weights)
            kind = r.choice(["Adagrad", "Adam", "Momentum", "Adadelta", "FtrlV2", "CenteredRMSProp"])
            with tf.control_dependencies([loss]):
                grads = tf.tuple([tf.identity(g) for g in grads])
            train = tf.group(
                *[bare_update(r, kind, v, g, net.resource, net.dtype) for v, g in zip(net.weights, grads)],
                name="train"
            )
        else:
            o = optimizer(r, net.dtype)
            pairs = o.compute_gradients(loss, net.weights, gate_gradients=v1.train.Optimizer.GATE_GRAPH)
            grads = [g for g, _ in pairs]
            if r.random() < 0.3:
                grads, _ = tf.clip_by_global_norm(grads, 1.0)
            with tf.control_dependencies([loss]):
                grads = tf.tuple([tf.identity(g) for g in grads])
            train = o.apply_gradients(
                list(zip(grads, net.weights)), global_step=v1.train.get_or_create_global_step(), name="train"
            )
        if r.random() < 0.3:
            average = v1.train.ExponentialMovingAverage(0.9)
            with tf.control_dependencies([train]):
                train = tf.group(average.apply(net.weights), name="train_and_average")
        reads = [
            tf.identity(v.value() if v.dtype._is_ref_dtype else v.read_value(), name="read%d" % k)
            for k, v in enumerate(v1.global_variables())
        ]
        init = v1.global_variables_initializer()
    steps = [Step([init.name])]
    for k in range(STEPS):
        steps.append(Step([train.name], [loss.name]))
        if k in LOOKED_AT:
            steps.append(Step([], [t.name for t in reads]))
    return Case("", graph, steps, feeds, tolerance=TOLERANCE)
