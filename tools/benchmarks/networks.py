"""The group networks: whole frozen networks, beside every system of the rivals' environment that runs them."""
import os
import subprocess

import numbers_file
from measure import Failed, Program, Row, Series

# What rivals/networks.py makes, in the order of the table; with --quick the first of each kind.
NAMES = ["resnet50", "mobilenetv1", "mobilenetv2", "inceptionv1", "inceptionv3", "vgg16", "densenet121", "efficientnetb0", "unet", "style", "lm_unrolled", "lm_while", "transformer"]
QUICK = ["mobilenetv2", "lm_while", "transformer"]
# name: (how network_steps.py calls it, the packages it needs). PyTorch reads the graph through ONNX.
ENGINES = {"TensorFlow": ("tensorflow", ["tensorflow"]), "PyTorch": ("pytorch", ["torch", "tf2onnx", "onnx2torch", "torchvision"]),
           "PyTorch compiled": ("pytorch_compiled", ["torch", "tf2onnx", "onnx2torch", "torchvision"]),
           "ONNX Runtime": ("onnxruntime", ["onnxruntime", "tf2onnx"]), "OpenVINO": ("openvino", ["openvino"])}


def there(rivals):
    """The engines of the environment, and a line for each that is not there."""
    found, missing = {}, []
    for name, (engine, needed) in ENGINES.items():
        lacking = [p for p in needed if rivals.python is None or rivals.version(p) is None]
        if lacking:
            missing.append("networks: no %s (%s is not in the environment)" % (name, " and ".join(lacking)))
        else:
            found[name] = engine
    return found, missing


def graph(ctx, name):
    """The file of a network; the rivals' TensorFlow writes it."""
    folder = os.path.join(ctx.scratch, "networks")
    path = os.path.join(folder, name + ".pb")
    if not os.path.exists(path):
        script = os.path.join(ctx.root, "tools", "benchmarks", "rivals", "networks.py")
        done = subprocess.run([ctx.rivals.python, "-B", script, folder, name], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed("networks.py %s: %s" % (name, (done.stderr.strip().splitlines() or ["?"])[-1]))
    return path


def pinned(threads):
    """A command's beginning that keeps it on as many processors."""
    processors = sorted(os.sched_getaffinity(0))[:threads]
    return ["taskset", "-c", ",".join(map(str, processors))]


def difference(ctx, path):
    """How far our output of a step is from TensorFlow's, relative to the largest number in it; and fused from not fused."""
    ours, theirs, unfused = (os.path.join(ctx.scratch, name) for name in ("ours.f32", "theirs.f32", "unfused.f32"))
    program, script = os.path.join(ctx.programs, "networks"), os.path.join(ctx.root, "tools", "benchmarks", "rivals", "network_steps.py")
    for command in ([program, path, "--check", ours], [program, path, "--no_fuse", "--check", unfused],
                    [ctx.rivals.python, "-B", script, "tensorflow", path, "1", "1", "0", theirs]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed("%s: %s" % (os.path.basename(command[0]), (done.stderr.strip().splitlines() or ["?"])[-1]))
    return numbers_file.difference(ours, theirs), numbers_file.difference(ours, unfused)


def row(name, batch, threads, result):
    rivals = {n: r[0].scaled(1e3) for n, r in result.items() if n != "Troupe"}
    made = Row("networks", "%s, batch %d, %d thread%s" % (name, batch, threads, "" if threads == 1 else "s"), "ms", result["Troupe"][0].scaled(1e3), rivals)
    peaks = ["%s %.0f" % (n, r[2]["peak_bytes"] / 1e6) for n, r in result.items() if "peak_bytes" in r[2]]
    others = ["%s %.3g ms" % (n, s.median) for n, s in rivals.items() if n not in ("TensorFlow", "PyTorch")]
    made.note = "; ".join(([", ".join(others)] if others else []) + ["peak MB: " + ", ".join(peaks)])
    return made.against_best("<=", 1.0, best=min)


def networks(ctx):
    engines, missing = there(ctx.rivals)
    ctx.missing.extend(missing)
    if "TensorFlow" not in engines:
        ctx.missing.append("networks: TensorFlow writes the graphs")
        return
    script = os.path.join(ctx.root, "tools", "benchmarks", "rivals", "network_steps.py")
    for name in QUICK if ctx.quick else NAMES:
        path = graph(ctx, name)
        from_tensorflow, from_unfused = difference(ctx, path)
        for batch in (1, 8):
            for threads in (1, 2):
                if len(os.sched_getaffinity(0)) < threads:
                    ctx.missing.append("networks: %s with %d threads, for want of processors" % (name, threads))
                    continue
                pin = pinned(threads)
                makers = {"Troupe": lambda: Program([*pin, os.path.join(ctx.programs, "networks"), path, "--batch", batch, "--threads", threads], patience=900)}
                for engine, call in engines.items():
                    # Compiling takes it 20 s and more.
                    if engine == "PyTorch compiled" and (batch, threads) != (1, 1):
                        continue
                    makers[engine] = lambda call=call: Program([*pin, ctx.rivals.python, "-B", script, call, path, batch, threads, 0.3], patience=900)
                made = row(name, batch, threads, ctx.side_by_side(makers, ctx.rounds(5)))
                if batch == 1 and threads == 1:
                    made.note += "; output differs from TensorFlow's by %.2g, fused from not fused by %.2g, of its largest number" % (from_tensorflow, from_unfused)
                yield made
