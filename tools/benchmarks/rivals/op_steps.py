"""Steps of the graphs of ops.py in a system that a user would pick instead, timed as ops_main.cc times ours.

    op_steps.py tensorflow|onnxruntime|openvino|pytorch FOLDER THREADS SECONDS [CHECK]

The first sample is of the first graph, the second of the second, and so on from the beginning again; nan for a graph that the system cannot run. With CHECK, the
outputs go into that folder, NAME.theirs each, as raw floats, and nothing is timed.
"""
import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np  # noqa: E402
from drawn import numbers  # noqa: E402
from timed import median_seconds  # noqa: E402


def input_of(what):
    drawn = numbers(int(np.prod(what["dims"])))
    if what["words"]:
        return (drawn % 8000).astype(np.int32).reshape(what["dims"])
    return ((drawn % 65536).astype(np.float32) / 65536 * 2 - 1).reshape(what["dims"])


def tensorflow(path, x, threads):
    import tensorflow as tf
    v1 = tf.compat.v1
    v1.disable_eager_execution()
    definition = v1.GraphDef()
    with open(path + ".pb", "rb") as f:
        definition.ParseFromString(f.read())
    with tf.Graph().as_default():
        tf.import_graph_def(definition, name="")
        session = v1.Session(config=v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads))
        call = session.make_callable("out:0", feed_list=["x:0"])
    return lambda: call(x)


def onnxruntime(path, x, threads):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 4
    # Many sessions at once would spin on each other's time.
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if threads > 1 else "0")
    session = ort.InferenceSession(path + ".onnx", options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x:0": x})[0]


def openvino(path, x, threads):
    import openvino as ov
    model = ov.convert_model(path + ".pb", input=list(x.shape))
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"})
    return lambda: compiled([x], share_inputs=True, share_outputs=True)[0]


def pytorch(path, x, threads):
    import onnx2torch
    import torch
    torch.set_num_threads(threads)
    module = onnx2torch.convert(path + ".onnx").eval()
    given = torch.from_numpy(x)

    def run():
        with torch.inference_mode():
            return module(given).numpy()
    return run


ENGINES = {"tensorflow": tensorflow, "onnxruntime": onnxruntime, "openvino": openvino, "pytorch": pytorch}


def main():
    engine, folder, threads, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    with open(os.path.join(folder, "names.json")) as f:
        names = json.load(f)
    # Not from the graph: TensorFlow and PyTorch do not live in one process.
    with open(os.path.join(folder, "inputs.json")) as f:
        inputs = json.load(f)
    runs, reasons = [], {}
    for name in names:
        path = os.path.join(folder, name)
        try:
            run = ENGINES[engine](path, input_of(inputs[name]), threads)
            out = [run() for _ in range(3)][-1]
            if len(sys.argv) > 5:
                np.asarray(out, np.float32).tofile(os.path.join(sys.argv[5], name + ".theirs"))
        except Exception as e:  # noqa: BLE001: whatever it cannot do, the other graphs are timed
            run, reasons[name] = None, (str(e).strip().splitlines() or [type(e).__name__])[0][:200]
        runs.append(run)
    if len(sys.argv) > 5:
        return
    print(json.dumps({"engine": engine, "cannot": reasons}), flush=True)
    for i, _ in enumerate(sys.stdin):
        run = runs[i % len(runs)]
        if run is None:
            print("nan", flush=True)
            continue
        print("%.9g" % median_seconds(run, seconds), flush=True)
    print("{}", flush=True)


main()
