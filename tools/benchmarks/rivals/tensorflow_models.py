"""The training steps of models_main.cc in TensorFlow: a graph session, or tf.function, whichever is faster.

    tensorflow_models.py NAME THREADS SECONDS [WAY]       NAME: one of model_data.MODELS

With WAY, "a session" or another of those below, that one alone is tried.
"""
import sys

import model_data as data
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
name, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
model = data.MODELS[name]
tf.config.threading.set_intra_op_parallelism_threads(threads)
tf.config.threading.set_inter_op_parallelism_threads(threads)
v1.logging.set_verbosity(v1.logging.ERROR)


# The losses of a step, from its variables and what it is fed.
def word2vec(variables, centres, neighbours):
    vectors, weights, biases = variables
    inputs = tf.nn.embedding_lookup(vectors, centres)
    drawn = tf.random.log_uniform_candidate_sampler(neighbours, 1, model.sampled, True, model.words, seed=3)
    return tf.reduce_mean(v1.nn.nce_loss(weights, biases, neighbours, inputs, model.sampled, model.words, sampled_values=drawn))


def cells_unrolled(x, kernel, bias):
    """x [time, batch, units]. As ours, the inputs' part of all steps is one product."""
    of_input, of_state = tf.split(kernel, 2)
    forget = tf.constant(np.repeat(np.float32([0, 0, 1, 0]), model.units))
    projected = tf.reshape(tf.nn.bias_add(tf.matmul(tf.reshape(x, [-1, model.units]), of_input), bias + forget), [model.time, model.batch, 4 * model.units])
    c = h = tf.zeros([model.batch, model.units])
    outputs = []
    for row in tf.unstack(projected):
        i, j, f, o = tf.split(tf.matmul(h, of_state) + row, 4, 1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(j)
        h = tf.sigmoid(o) * tf.tanh(c)
        outputs.append(h)
    return tf.stack(outputs)


def cells_block(x, kernel, bias):
    """By one op for all steps."""
    nothing, peephole = tf.zeros([model.batch, model.units]), tf.zeros([model.units])
    return tf.raw_ops.BlockLSTM(seq_len_max=tf.constant(model.time, tf.int64), x=x, cs_prev=nothing, h_prev=nothing, w=kernel, wci=peephole, wcf=peephole,
                                wco=peephole, b=bias, forget_bias=1.0, cell_clip=-1.0, use_peephole=False).h


def lstm(cells):
    def loss(variables, x, y):
        table, kernel0, bias0, kernel1, bias1, kernel, bias = variables
        h = tf.nn.embedding_lookup(table, tf.transpose(x))
        h = cells(cells(h, kernel0, bias0), kernel1, bias1)
        rows = tf.reshape(tf.transpose(h, [1, 0, 2]), [-1, model.units])
        return words_loss(rows, kernel, bias, y)
    return loss


def words_loss(rows, kernel, bias, labels):
    logits = tf.nn.bias_add(tf.matmul(rows, kernel), bias)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(labels, [-1]), logits=logits))


def wide_and_deep(variables, crossed, columns, numbers, clicked):
    variables = list(variables)
    remembered = tf.reduce_sum(tf.nn.embedding_lookup(variables.pop(0), crossed), 1)
    parts = [tf.nn.embedding_lookup(variables.pop(0), ids) for ids in tf.unstack(columns, axis=1)]
    h = tf.concat(parts + [numbers], 1)
    while variables:
        h = tf.nn.bias_add(tf.matmul(h, variables.pop(0)), variables.pop(0))
        if variables:
            h = tf.nn.relu(h)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=clicked, logits=h + remembered))


def transformer(variables, words, wanted):
    variables = list(variables)
    shape, size = [model.batch, model.time, model.heads, model.width // model.heads], model.width // model.heads

    def norm(y):
        mean, variance = tf.nn.moments(y, [-1], keepdims=True)
        gamma, beta = variables.pop(0), variables.pop(0)
        return tf.nn.batch_normalization(y, mean, variance, beta, gamma, model.epsilon)

    def dense(y):
        kernel, bias = variables.pop(0), variables.pop(0)
        z = tf.nn.bias_add(tf.matmul(tf.reshape(y, [-1, y.shape[-1]]), kernel), bias)
        return tf.reshape(z, y.shape[:-1] + kernel.shape[1:])
    h = tf.nn.embedding_lookup(variables.pop(0), words) + variables.pop(0)
    for _ in range(model.layers):
        seen = norm(h)
        q, k, v = (tf.transpose(tf.reshape(dense(seen), shape), [0, 2, 1, 3]) for _ in range(3))
        attention = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * np.float32(1 / np.sqrt(size)))
        h = h + dense(tf.reshape(tf.transpose(tf.matmul(attention, v), [0, 2, 1, 3]), h.shape))
        h = h + dense(tf.nn.relu(dense(norm(h))))
    return words_loss(tf.reshape(norm(h), [-1, model.width]), *variables, wanted)


class ImageLayers:
    """The layers of model_data.Images.build. `moving`: pairs of variables, `updates` the operations that move them."""

    def __init__(self, variables, moving):
        self.variables, self.moving, self.updates = iter(variables), iter(moving), []

    def channels(self, y):
        return int(y.shape[-1])

    def normed(self, y, activation):
        gamma, beta = next(self.variables), next(self.variables)
        y, *found = v1.nn.fused_batch_norm(y, gamma, beta, epsilon=model.epsilon, is_training=True)
        self.updates += [m.assign_sub((m - now) * (1 - model.keep)) for m, now in zip(next(self.moving), found)]
        return self.activation(y, activation)

    def conv(self, y, window, filters, stride, activation=None):
        return self.normed(v1.nn.conv2d(y, next(self.variables), strides=[1, stride, stride, 1], padding="SAME"), activation)

    def depthwise(self, y, stride, activation=None):
        return self.normed(v1.nn.depthwise_conv2d_native(y, next(self.variables), strides=[1, stride, stride, 1], padding="SAME"), activation)

    def max_pool(self, y):
        return tf.nn.max_pool2d(y, 3, 2, "SAME")

    def activation(self, y, name):
        return {"relu": tf.nn.relu, "relu6": tf.nn.relu6}[name](y) if name else y

    def add(self, y, z):
        return y + z

    def classes(self, y):
        return tf.nn.bias_add(tf.matmul(tf.reduce_mean(y, [1, 2]), next(self.variables)), next(self.variables))


def moving_variables():
    sizes = [shape for kind, shape in model.variables if kind == "gamma"]
    return [[v1.Variable(make(shape), use_resource=True, trainable=False) for make in (tf.zeros, tf.ones)] for shape in sizes]


def image_loss():
    """The loss; what moves the moving variables is in loss.updates afterwards. These variables are made once for each graph."""
    made = {}

    def loss(variables, images, wanted):
        # In a function they are made outside, when it is first traced.
        graph = v1.get_default_graph()
        graph = None if graph.building_function else graph
        if graph not in made:
            with tf.init_scope():
                made[graph] = moving_variables()
        layers = ImageLayers(variables, made[graph])
        logits = model.build(layers, images)
        loss.updates = layers.updates
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=wanted, logits=logits))
    loss.updates = []
    return loss


def updater():
    """A function that makes, of the loss's gradients and the variables, the update; optimizers are made once."""
    if name == "wide_and_deep":
        ftrl = v1.train.FtrlOptimizer(model.wide_rate, l1_regularization_strength=model.l1)
        adagrad = v1.train.AdagradOptimizer(model.deep_rate)
        return lambda pairs: tf.group(ftrl.apply_gradients(pairs[:1]), adagrad.apply_gradients(pairs[1:]))
    if name == "word2vec":
        return v1.train.AdagradOptimizer(model.rate).apply_gradients
    if issubclass(model, data.Images):
        return v1.train.MomentumOptimizer(model.rate, model.momentum).apply_gradients
    adam = v1.train.AdamOptimizer(model.rate)
    if name == "transformer":
        return adam.apply_gradients

    def clipped(pairs):
        gradients, variables = zip(*pairs)
        return adam.apply_gradients(list(zip(tf.clip_by_global_norm(gradients, model.clip)[0], variables)))
    return clipped


def by_session(loss_of):
    def prepare():
        with tf.Graph().as_default() as graph:
            # Values come by feeds: as constants they would be in the graph.
            holders = [v1.placeholder(tf.float32, shape) for _, shape in model.variables]
            variables = [v1.Variable(h, use_resource=True) for h in holders]
            feeds = [v1.placeholder(dtype, shape) for shape, dtype, _ in model.feeds]
            loss = loss_of(variables, *feeds)
            train = tf.group(updater()(list(zip(tf.gradients(loss, variables), variables))), *getattr(loss_of, "updates", []))
            session = v1.Session(graph=graph, config=v1.ConfigProto(inter_op_parallelism_threads=threads, intra_op_parallelism_threads=threads))
            session.run(v1.global_variables_initializer(), dict(zip(holders, values)))
            call = session.make_callable([loss, train], feed_list=feeds)
        return lambda i: call(*batches[i % len(batches)])[0]
    return prepare


def by_function(loss_of):
    def prepare():
        variables, update = [tf.Variable(v) for v in values], updater()

        @tf.function
        def step(*feeds):
            with tf.GradientTape() as tape:
                loss = loss_of(variables, *feeds)
            update(list(zip(tape.gradient(loss, variables), variables)))
            return loss
        tensors = [[tf.constant(a) for a in batch] for batch in batches]
        return lambda i: step(*tensors[i % len(tensors)]).numpy()
    return prepare


values, batches = data.initial_values(model), data.batches(model)
losses = {"word2vec": word2vec, "wide_and_deep": wide_and_deep, "transformer": transformer, "resnet50": image_loss(), "mobilenetv2": image_loss()}
if name == "lstm":
    ways = {"a session": by_session(lstm(cells_unrolled)), "a session, BlockLSTM": by_session(lstm(cells_block)), "tf.function": by_function(lstm(cells_unrolled))}
else:
    ways = {"a session": by_session(losses[name]), "tf.function": by_function(losses[name])}
way, step, first = data.fastest(ways, *sys.argv[4:])
del values, ways
data.serve({"version": tf.__version__, "way": way, "losses": first}, seconds, step)
