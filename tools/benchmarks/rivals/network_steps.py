"""Steps of a frozen network of networks.py in a system that a user would pick instead, timed as networks_main.cc times ours.

    network_steps.py tensorflow|onnxruntime|openvino|pytorch|pytorch_compiled GRAPH.pb BATCH THREADS SECONDS [CHECK]

With CHECK, the output of one step goes into that file as raw floats, and nothing is timed.
"""
import json
import os
import resource
import subprocess
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np  # noqa: E402
from drawn import numbers  # noqa: E402
from timed import median_seconds  # noqa: E402


def make_input(dims):
    drawn = numbers(int(np.prod(dims)))
    if len(dims) == 2:
        return (drawn % 8000).astype(np.int32).reshape(dims)
    return ((drawn % 65536).astype(np.float32) / 65536).reshape(dims)


def dims_of(name):
    """The input's dimensions behind the batch."""
    if name.startswith("lm_"):
        return [32]
    if name == "transformer":
        return [64]
    side = {"inceptionv3": 299, "unet": 256, "style": 256}.get(name, 224)
    return [side, side, 3]


def tensorflow(graph, x, threads):
    import tensorflow as tf
    v1 = tf.compat.v1
    v1.disable_eager_execution()
    definition = v1.GraphDef()
    with open(graph, "rb") as f:
        definition.ParseFromString(f.read())
    tf.import_graph_def(definition, name="")
    session = v1.Session(config=v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads))
    call = session.make_callable("out:0", feed_list=["x:0"])
    return lambda: call(x)


def onnx_model(graph):
    """The file of the same graph for the systems that read ONNX."""
    model = os.path.splitext(graph)[0] + ".onnx"
    if not os.path.exists(model):
        done = subprocess.run([sys.executable, "-m", "tf2onnx.convert", "--graphdef", graph, "--output", model + ".tmp", "--inputs", "x:0", "--outputs", "out:0", "--opset", "17"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit("tf2onnx: " + (done.stderr.strip().splitlines() or ["?"])[-1])
        os.rename(model + ".tmp", model)
    return model


def onnxruntime(graph, x, threads):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(onnx_model(graph), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x:0": x})[0]


def openvino(graph, x, threads):
    import openvino as ov
    model = ov.convert_model(graph, input=list(x.shape))
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"})
    return lambda: compiled([x])[0]


def pytorch(graph, x, threads, compiled=False):
    import onnx2torch
    import torch
    torch.set_num_threads(threads)
    module = onnx2torch.convert(onnx_model(graph)).eval()
    if compiled:
        module = torch.compile(module)
    given = torch.from_numpy(x)

    def run():
        with torch.inference_mode():
            return module(given).numpy()
    return run


def pytorch_compiled(graph, x, threads):
    return pytorch(graph, x, threads, compiled=True)


def main():
    engine, graph, batch, threads, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    x = make_input([batch] + dims_of(os.path.splitext(os.path.basename(graph))[0]))
    run = {"tensorflow": tensorflow, "onnxruntime": onnxruntime, "openvino": openvino, "pytorch": pytorch, "pytorch_compiled": pytorch_compiled}[engine](graph, x, threads)
    if len(sys.argv) > 6:
        np.asarray(run(), np.float32).tofile(sys.argv[6])
        return
    for _ in range(3):
        run()
    print(json.dumps({"engine": engine}), flush=True)
    for _ in sys.stdin:
        print("%.9g" % median_seconds(run, seconds), flush=True)
    print(json.dumps({"peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}), flush=True)


main()
