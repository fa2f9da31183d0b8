"""The net E8 on TensorFlow's own cluster: one parameter server and synchronous workers, each a process with one thread.

    tensorflow_train_cluster.py ps CLUSTER
    tensorflow_train_cluster.py worker CLUSTER N FOLDER STEPS

A graph session with reference variables, SyncReplicasOptimizer over Adam, as the books and guides of TensorFlow 1 have it. For each line that comes a worker takes
STEPS steps and prints its images a second; all workers have to be asked at the same time.
"""
import json
import os
import sys
import time

import train_data as data
import tensorflow as tf
from tensorflow_nets import loss_of

v1 = tf.compat.v1
v1.disable_eager_execution()
v1.disable_resource_variables()
v1.logging.set_verbosity(v1.logging.ERROR)
role, cluster = sys.argv[1], {job: tasks.split(",") for job, tasks in (part.split("=") for part in sys.argv[2].split(";"))}
config = v1.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)


def say(what):
    print(what, flush=True)


if role == "ps":
    server = v1.train.Server(cluster, job_name="ps", task_index=0, config=config)
    say(json.dumps({"version": tf.__version__}))
    for _ in sys.stdin:
        say("0")
    os._exit(0)

number, folder, steps = int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
workers = len(cluster["worker"])
server = v1.train.Server(cluster, job_name="worker", task_index=number, config=config)
with v1.device(v1.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:%d" % number)):
    x = v1.placeholder(tf.float32, [None, 28, 28, 1])
    t = v1.placeholder(tf.float32, [None, 10])
    optimizer = v1.train.SyncReplicasOptimizer(v1.train.AdamOptimizer(1e-3), replicas_to_aggregate=workers, total_num_replicas=workers)
    train = optimizer.minimize(loss_of("E8", x, t), global_step=v1.train.get_or_create_global_step())
# Without tokens in advance the workers go in step.
hook = optimizer.make_session_run_hook(number == 0, num_tokens=0)
batches = data.batches(folder)
# Each worker waits for the others in its first step: whoever starts them has all heads first.
say(json.dumps({"version": tf.__version__}))
with v1.train.MonitoredTrainingSession(server.target, is_chief=number == 0, hooks=[hook], config=config, log_step_count_steps=None) as session:
    at = number
    for _ in sys.stdin:
        start = time.perf_counter()
        for _ in range(steps):
            session.run(train, {x: batches[at % len(batches)][0], t: batches[at % len(batches)][1]})
            at += workers
        say("%.9g" % (steps * data.BATCH / (time.perf_counter() - start)))
    os._exit(0)
