#!/usr/bin/env python3
"""Records tests/cases/training/first_steps.txt with a real TensorFlow.

    TROUPE_WRITE_FIRST_STEPS=FOLDER build/release/bin/train_test --run_test=write_what_is_recorded
    python tests/cases/record/first_steps.py FOLDER > tests/cases/training/first_steps.txt

Its oneDNN kernels are off: they round differently from its plain ones, by as much as Adam makes of it within a few steps.
"""
import os
import sys

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

BATCH = 100
tf1 = tf.compat.v1
tf1.disable_eager_execution()


def losses(folder, words, images, labels):
    name, x, t, keep, rate, loss, train, init, keep_value = words[:9]
    definition = tf1.GraphDef()
    with open(os.path.join(folder, name + ".pb"), "rb") as f:
        definition.ParseFromString(f.read())
    out = []
    with tf.Graph().as_default() as graph:
        tf1.import_graph_def(definition, name="")
        with tf1.Session() as session:
            session.run(graph.get_operation_by_name(init))
            for step, rate_value in enumerate(words[9:]):
                at = slice(step * BATCH, (step + 1) * BATCH)
                feed = {x: images[at], t: labels[at], keep: float(keep_value), rate: float(rate_value)}
                out.append(session.run([loss, graph.get_operation_by_name(train)], feed)[0])
    return out


def main():
    folder = sys.argv[1]
    images = np.fromfile(os.path.join(folder, "images.f32"), np.float32).reshape(-1, 28, 28, 1)
    labels = np.fromfile(os.path.join(folder, "labels.f32"), np.float32).reshape(-1, 10)
    print("@from TensorFlow %s, by record/first_steps.py: losses on the small digits, batches of %d, seed 1" % (tf.__version__, BATCH))
    with open(os.path.join(folder, "experiments.txt")) as f:
        for line in f:
            words = line.split()
            print(words[0], *("%.8g" % v for v in losses(folder, words, images, labels)))


if __name__ == "__main__":
    main()
