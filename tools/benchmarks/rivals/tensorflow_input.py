"""What input_main.cc times, by tf.data.

    tensorflow_input.py records|pictures FOLDER THREADS SECONDS
"""
import json
import os
import resource
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import tensorflow as tf  # noqa: E402

mode, folder, threads, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
SIDE, CROP, RESIZED, BATCH = 256, 224, 128, 32
tf.config.threading.set_intra_op_parallelism_threads(threads)
tf.config.threading.set_inter_op_parallelism_threads(threads)
options = tf.data.Options()
options.threading.private_threadpool_size = threads
options.threading.max_intra_op_parallelism = 1


def records():
    """GB a second of the processor: the whole file, summed up inside the runtime."""
    data = tf.data.TFRecordDataset(os.path.join(folder, "records.tfrecord"), buffer_size=1 << 18).with_options(options)
    begin = time.process_time()
    total = data.reduce(tf.constant(0, tf.int64), lambda n, r: n + tf.cast(tf.strings.length(r), tf.int64)).numpy()
    return 1e-9 * total / (time.process_time() - begin)


def decode(record):
    picture = tf.io.decode_jpeg(record, channels=3)
    at = (SIDE - CROP) // 2
    picture = tf.image.crop_to_bounding_box(picture, at, at, CROP, CROP)
    return tf.image.resize(picture, [RESIZED, RESIZED])


def pictures():
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        count += next(batches).shape[0]
    return count / (time.perf_counter() - start)


if mode == "pictures":
    data = tf.data.TFRecordDataset(os.path.join(folder, "pictures.tfrecord")).repeat()
    batches = iter(data.map(decode, num_parallel_calls=threads).batch(BATCH).prefetch(2).with_options(options))
sample = {"records": records, "pictures": pictures}[mode]
sample()
print(json.dumps({"version": tf.__version__}), flush=True)
for _ in sys.stdin:
    print("%.9g" % sample(), flush=True)
print(json.dumps({"peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}), flush=True)
