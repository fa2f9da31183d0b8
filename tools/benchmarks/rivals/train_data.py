"""What the training programs of this folder share: the data, and the protocol of serve.h."""
import json
import os
import resource
import statistics
import sys
import time

import numpy as np

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
BATCH, MLP = 100, [784, 200, 100, 60, 30, 10]


def batches(folder):
    """(images [100,28,28,1], one-hot labels [100,10]) pairs, as `train --write FOLDER` left them."""
    images = np.fromfile(os.path.join(folder, "images.f32"), np.float32).reshape(-1, BATCH, 28, 28, 1)
    labels = np.fromfile(os.path.join(folder, "labels.f32"), np.float32).reshape(-1, BATCH, 10)
    return list(zip(images, labels))


def serve(version, seconds, step):
    """Warms `step` up and then prints images a second for each line that comes."""
    for i in range(30):
        step(i)
    print(json.dumps({"version": version}), flush=True)
    at = 30
    for _ in sys.stdin:
        pieces, start = [], time.perf_counter()
        while time.perf_counter() - start < seconds:
            begin = time.perf_counter()
            first = at
            while at == first or time.perf_counter() - begin < 2e-3:
                step(at)
                at += 1
            pieces.append((time.perf_counter() - begin) / (at - first))
        print("%.9g" % (BATCH / statistics.median(pieces)), flush=True)
    print(json.dumps({"peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}), flush=True)
