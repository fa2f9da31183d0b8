"""What cluster_main.cc times, between two servers of TensorFlow.

    tensorflow_cluster.py ps CLUSTER
    tensorflow_cluster.py worker CLUSTER N MODE SECONDS

Graph sessions with reference variables; the graph is not rewritten.
"""
import json
import os
import statistics
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1
v1.disable_eager_execution()
v1.disable_resource_variables()
role, cluster = sys.argv[1], {job: tasks.split(",") for job, tasks in (part.split("=") for part in sys.argv[2].split(";"))}


def say(what):
    print(what, flush=True)


if role == "ps":
    server = v1.train.Server(cluster, job_name="ps", task_index=0)
    say(json.dumps({"version": tf.__version__}))
    for _ in sys.stdin:
        say("0")
    os._exit(0)

number, mode, seconds = int(sys.argv[3]), sys.argv[4].removesuffix("-tcp"), float(sys.argv[5])
server = v1.train.Server(cluster, job_name="worker", task_index=number)
THERE, HERE = "/job:ps/task:0", "/job:worker/task:%d" % number


def variable(name, shape):
    with tf.device(THERE):
        return v1.get_variable(name, shape, tf.float32, initializer=v1.zeros_initializer())


def here(value):
    with tf.device(HERE):
        return tf.identity(value)


feeds = []
if mode in ("scalar", "rate"):
    v = variable("scalar", [])
    with tf.device(HERE):
        gradient = here(v) + 1.0
    with tf.device(THERE):
        done = v1.assign_add(v, gradient).op
elif mode in ("fetch", "update"):
    v = variable("dense", [25, 1000000])
    value = here(v)
    done = value.op
    if mode == "update":
        with tf.device(THERE):
            done = v1.assign_add(v, value).op
elif mode == "sparse":
    v = variable("table", [1000000, 64])
    with tf.device(HERE):
        ids = v1.placeholder(tf.int64, [32])
    feeds = [ids]
    with tf.device(THERE):
        rows = tf.gather(v, ids)
    with tf.device(HERE):
        gradient = rows + 1.0
    with tf.device(THERE):
        done = v1.scatter_add(v, ids, gradient).op
else:
    done = here(variable("payload", [int(mode) // 4])).op

config = v1.ConfigProto(device_filters=["/job:ps", HERE])
config.graph_options.rewrite_options.disable_meta_optimizer = True
config.graph_options.optimizer_options.opt_level = -1
session = v1.Session(server.target, config=config)
if number == 0:
    session.run(v1.global_variables_initializer())
call = session.make_callable(done, feed_list=feeds)
values = [np.random.randint(0, 1000000, 32)] if feeds else []
for _ in range(3):
    call(*values)
say(json.dumps({"version": tf.__version__}))
for _ in sys.stdin:
    times, start = [], time.perf_counter()
    while not times or time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        call(*values)
        times.append(time.perf_counter() - begin)
    say("%.9g" % (len(times) / (time.perf_counter() - start) if mode == "rate" else statistics.median(times)))
os._exit(0)
