"""The groups of the table. Each function yields rows; what it needs and does not find it reports through ctx.missing and goes on."""
import json
import os
import shlex
import socket
import subprocess
import tempfile

import models
import networks
import ops
from measure import Failed, Fleet, Program, Row, Series, WholeRuns, alternate

RIVALS = ("TensorFlow", "PyTorch", "PyTorch compiled", "ONNX Runtime", "OpenVINO")
NULL = ["null_16x1024", "null_32x8192", "null_1024x16", "null_8192x32", "null_1024x1024"]


class Context:
    def __init__(self, root, build, scratch, rivals, quick, data_dir, missing):
        self.root, self.build, self.scratch, self.rivals, self.quick, self.data_dir, self.missing = root, build, scratch, rivals, quick, data_dir, missing
        self.programs = os.path.join(build, "bin", "benchmarks")
        self.graphs = os.path.join(scratch, "graphs")

    def graph(self, name):
        path = os.path.join(self.graphs, name + ".pb")
        program = os.path.join(self.programs, "graphs")
        if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(program):
            subprocess.run([program, self.graphs, name], check=True, stdout=subprocess.DEVNULL)
        return path

    def ours(self, program, *arguments, **environment):
        return Program([os.path.join(self.programs, program), *arguments], env=dict(os.environ, **environment), patience=900)

    def run(self, graph, mode, threads=1, callers=0, seconds=0.1, optimize=False):
        return self.ours("run", self.graph(graph), "--mode", mode, "--threads", threads, "--callers", callers, "--seconds", seconds,
                         *(["--optimize"] if optimize else []))

    def tensorflow(self, graph, mode, threads=1, callers=0, seconds=0.1, optimize=False):
        """None without TensorFlow."""
        if self.rivals.steps_program is None:
            return None
        return Program([self.rivals.steps_program, self.graph(graph), mode, threads, callers, seconds, int(optimize)], patience=900)

    def side_by_side(self, makers, rounds):
        """makers: name -> function that starts a program or gives None. Ours may not fail; a rival that does is missing. name -> (Series, head, tail)."""
        programs, result = {}, {}
        try:
            for name, make in makers.items():
                try:
                    program = make()
                    if program is not None:
                        programs[name] = program
                except Failed as e:
                    if name not in RIVALS:
                        raise
                    self.missing.append(str(e))
            series = alternate(programs, rounds, RIVALS, lambda e: self.missing.append(str(e)))
            for name, program in programs.items():
                tail = program.close()
                if name in series:
                    result[name] = (series[name], program.head, tail)
        finally:
            for program in programs.values():
                program.process.kill()
        return result

    def rounds(self, full=7):
        return 3 if self.quick else full


def pair(ctx, graph, mode, ours_mode=None, rounds=None, extra=None, **options):
    makers = {"Troupe": lambda: ctx.run(graph, ours_mode or mode, **options), "TensorFlow": lambda: ctx.tensorflow(graph, mode, **options)}
    makers.update(extra or {})
    return ctx.side_by_side(makers, rounds or ctx.rounds())


def row_of(group, measure, unit, result, factor):
    rivals = {n: result[n][0].scaled(factor) for n in ("TensorFlow", "PyTorch") if n in result}
    return Row(group, measure, unit, result["Troupe"][0].scaled(factor), rivals)


def dispatch(ctx):
    for name in NULL:
        result = pair(ctx, name, "steps", extra={"bare": lambda: ctx.run(name, "bare")})
        nodes = result["Troupe"][1]["nodes"]
        row = row_of("dispatch", "%s, %s nodes" % (name, format(nodes, ",")), "ns/node", result, 1e9 / nodes)
        row.note = "the bare loop over the same edges takes %.1f ns a node" % (result["bare"][0].median * 1e9 / nodes)
        yield row.against("TensorFlow", "<=", 0.4 if nodes > 400000 else 0.2)
    for name, limit in (("const_identity_100x100", 0.17), ("tree4096", 0.17), ("chain10000", 0.17), ("mlp200", 0.4)):
        result = pair(ctx, name, "steps")
        yield row_of("dispatch", name, "ns/node", result, 1e9 / result["Troupe"][1]["nodes"]).against("TensorFlow", "<=", limit)
    for name in ("while1000x1", "while1000x100"):
        yield row_of("dispatch", name, "us/iteration", pair(ctx, name, "steps"), 1e6 / 1000).against("TensorFlow", "<=", 0.17)


def run(ctx):
    result = pair(ctx, "add1", "steps", extra={"callable": lambda: ctx.run("add1", "callable"), "actor": lambda: ctx.run("add1", "actor")})
    names = row_of("run", "add1, Session::Run with names", "us", result, 1e6)
    yield names.against("TensorFlow", "<=", 0.1)
    call = Row("run", "add1, Callable", "us", result["callable"][0].scaled(1e6), names.rivals)
    yield call.against("TensorFlow", "<=", 0.1)
    actor = Row("run", "add1, steps of an actor in the user's system", "us", result["actor"][0].scaled(1e6), {})
    yield actor.relative(actor.ours.median / names.ours.median, "the plain thread", "<=", 1.5)


def input(ctx):
    folder = os.path.join(ctx.scratch, "input")
    if not os.path.exists(os.path.join(folder, "pictures.tfrecord")):
        os.makedirs(folder, exist_ok=True)
        subprocess.run([os.path.join(ctx.programs, "input"), "write", folder], check=True)
    script = os.path.join(ctx.root, "tools", "benchmarks", "rivals", "tensorflow_input.py")

    def both(mode, threads):
        rival = lambda: Program([ctx.rivals.python, "-B", script, mode, folder, threads, 0.5]) if ctx.rivals.tensorflow else None
        return ctx.side_by_side({"Troupe": lambda: ctx.ours("input", mode, folder, "--threads", threads), "TensorFlow": rival}, ctx.rounds())

    row = row_of("input", "records of 8 KiB from the page cache, checksums included", "GB/s a core", both("records", 1), 1)
    yield row.relative(row.ours.median, "1 GB/s", ">=", 1.5)
    for threads in (1, 2):
        row = row_of("input", "pictures: read, decode, crop, resize, batch, %d thread%s" % (threads, "" if threads == 1 else "s"), "images/s", both("pictures", threads), 1)
        yield row.against("TensorFlow", ">=", 1.2)
    for graph, mode, unit, factor, what in (("queue_pair1", "pair", "us/pair", 1e6, "a step that enqueues a scalar, and one that dequeues it"),
                                            ("queue_pair1000", "pair", "ns/element", 1e9 / 1000, "a step that enqueues 1,000 scalars, and one that dequeues them together"),
                                            ("queue1000", "steps", "ns/pair", 1e9 / 1000, "enqueue and dequeue of a scalar, 1,000 times one after the other in a step")):
        yield row_of("input", what, unit, pair(ctx, graph, mode), factor).against("TensorFlow", "<=", 0.2)
    rates = ctx.side_by_side({name: lambda name=name: ctx.ours("input", name, folder) for name in ("memory", "dataset", "queue", "batches", "summaries")}, ctx.rounds())
    for name, what, limit in (("dataset", "from a data set", 0.97), ("queue", "from a queue", 0.97), ("batches", "from a queue of batches, which a thread puts together from another", 0.97), ("summaries", "with a summary of the loss written in each step", 0.99)):
        row = Row("input", "E5 %s, batch 100" % what, "images/s", rates[name][0])
        yield row.relative(rates[name][0].median / rates["memory"][0].median, "data in memory", ">=", limit)


def checkpoint(ctx):
    """On the disk of the build folder. Ours and dd in turn, on as many bytes."""
    folder = os.path.join(ctx.scratch, "checkpoint")
    os.makedirs(folder, exist_ok=True)
    mib = 128 if ctx.quick else 1024
    for mode, rival, what in (("save", "dd_write", "saved, until they are on the disk"), ("restore", "dd_read", "restored, from outside the page cache")):
        result = ctx.side_by_side({name: lambda name=name: ctx.ours("checkpoint", name, folder, "--mib", mib) for name in (mode, rival)}, ctx.rounds(5))
        row = Row("checkpoint", "%d MiB of variables %s" % (mib, what), "GB/s", result[mode][0])
        row.note = "%s: %.3g GB/s" % ("dd conv=fdatasync" if mode == "save" else "dd", result[rival][0].median)
        yield row.relative(row.ours.median / result[rival][0].median, "dd", ">=", 0.8)
    for mode, what in (("blocked_one", "one variable of 64 MiB each"), ("blocked_all", "all of them each")):
        result = ctx.side_by_side({mode: lambda mode=mode: ctx.ours("checkpoint", mode, folder, "--mib", mib)}, ctx.rounds(5))
        row = Row("checkpoint", "%d MiB saved beside steps that change %s: the longest step's delay" % (mib, what), "% of the save", result[mode][0].scaled(100))
        yield row.below(5)


def scale(ctx):
    for name in ("add1", "mlp200", "e5x100"):
        rate, cpu = {}, {}
        for callers in (1, 2, 4, 8):
            makers = {"Troupe": lambda: ctx.run(name, "steps", callers=callers, optimize=True),
                      "TensorFlow": lambda: ctx.tensorflow(name, "steps", threads=2, callers=callers, optimize=True)}
            result = ctx.side_by_side(makers, ctx.rounds())
            rivals = {"TensorFlow": result["TensorFlow"][0].inverted(1e-3)} if "TensorFlow" in result else {}
            row = Row("scale", "%s, %d thread%s" % (name, callers, "" if callers == 1 else "s"), "1000 steps/s", result["Troupe"][0].inverted(1e-3), rivals)
            rate[callers] = row.ours.median
            cpu[callers] = result["Troupe"][2].get("cpu_s_per_step", 0) * 1e6
            if callers == 2:
                row.relative(rate[2] / rate[1], "1 thread", ">=", 1.8)
                row.note = "processor time a step: %.2f us with one thread, %.2f us with two" % (cpu[1], cpu[2])
            elif callers == 8:
                row.relative(rate[8] / rate[2], "2 threads", ">=", 0.8)
            yield row
    result = ctx.side_by_side({"Troupe": lambda: ctx.run("branches512", "steps", threads=2), "one": lambda: ctx.run("branches512", "steps", threads=1),
                               "TensorFlow": lambda: ctx.tensorflow("branches512", "steps", threads=2)}, ctx.rounds())
    row = row_of("scale", "two branches of eight 512x512 MatMuls, 2 threads", "ms", result, 1e3)
    yield row.relative(result["one"][0].median / result["Troupe"][0].median, "1 thread (%.1f ms)" % (result["one"][0].median * 1e3), ">=", 1.8)
    for threads in (1, 2):
        result = ctx.side_by_side({m: lambda m=m: ctx.ours("devices", m, threads, ctx.raw_data()) for m in ("one", "layers", "data")}, ctx.rounds())
        for mode, text in (("layers", "split by layer"), ("data", "split by data")):
            row = Row("scale", "E8 on 2 devices, %s, %d thread%s" % (text, threads, "" if threads == 1 else "s"), "images/s", result[mode][0])
            yield row.relative(result["one"][0].median / row.ours.median, "one device's time", "<=", 1.05)


def compile(ctx):  # noqa: A001: the group's name
    for name in ["null_16x1024", "null_32x8192", "null_8192x32"] + ([] if ctx.quick else ["null_1024x1024"]):
        rounds = ctx.rounds() if name == "null_16x1024" else 3
        result = pair(ctx, name, "first", rounds=rounds)
        head = result["Troupe"][1]
        row = row_of("compile", "import and first step, %s nodes" % format(head["nodes"], ","), "us/node", result, 1e6 / head["nodes"])
        row.note = "parse %.2f, import %.2f, compile and step %.2f us a node" % tuple(head[k] * 1e6 / head["nodes"] for k in ("parse_s", "import_s", "compile_and_step_s"))
        yield row.against("TensorFlow", "<=", 0.1)
    row = row_of("compile", "new signature on 36,000 nodes that have run", "ms", pair(ctx, "mlp7200", "signature"), 1e3)
    yield row.below(50)


def raw_data(ctx):
    folder = os.path.join(ctx.scratch, "data")
    if not os.path.exists(os.path.join(folder, "labels.f32")):
        os.makedirs(folder, exist_ok=True)
        subprocess.run([os.path.join(ctx.programs, "train"), "--write", folder] + (["--data_dir", ctx.data_dir] if ctx.data_dir else []), check=True)
    return folder


Context.raw_data = raw_data


def trainers(ctx, net, threads):
    """Makers of the programs that train `net`, and of the rivals that are there."""
    folder = ctx.raw_data()

    def script(name, there):
        path = os.path.join(ctx.root, "tools", "benchmarks", "rivals", name)
        return Program([ctx.rivals.python, "-B", path, net, threads, folder, 0.4]) if there else None
    return {"Troupe": lambda: ctx.ours("train", net, "--threads", threads, "--raw", folder),
            "TensorFlow": lambda: script("tensorflow_train.py", ctx.rivals.tensorflow),
            "PyTorch": lambda: script("torch_train.py", ctx.rivals.torch)}


def train(ctx):
    for net, threads, limit in (("E5", 1, 1.6), ("E5", 2, 2.0), ("E8", 1, 2.0), ("E8", 2, 2.5)):
        result = ctx.side_by_side(trainers(ctx, net, threads), ctx.rounds())
        row = row_of("train", "%s, batch 100, %d thread%s" % (net, threads, "" if threads == 1 else "s"), "images/s", result, 1)
        yield row.against_best(">=", limit)


def tax(ctx):
    for net in ("E5", "E8"):
        result = ctx.side_by_side({"Troupe": lambda: ctx.ours("train", net, "--mode", "tax", "--raw", ctx.raw_data())}, ctx.rounds())
        over = Series([100 * (s - 1) for s in result["Troupe"][0].samples])
        row = Row("tax", "%s: step beyond its kernels' time" % net, "%", over)
        row.note = "kernels' time by the step's statistics, less the %.0f ns that a look at the clock takes, on %d nodes" % (
            result["Troupe"][1]["clock_ns"], result["Troupe"][1]["timed_nodes"])
        yield row.below(3)


def memory(ctx):
    result = ctx.side_by_side(trainers(ctx, "E8", 1), 1)
    peaks = {n: Series([r[2]["peak_bytes"] / 1e6]) for n, r in result.items() if "peak_bytes" in r[2]}
    yield Row("memory", "peak of training E8", "MB", peaks.pop("Troupe"), peaks).against("TensorFlow", "<=", 0.3)

    def ask(*arguments):
        done = subprocess.run([os.path.join(ctx.programs, "memory"), *map(str, arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed("memory: " + (done.stderr.strip().splitlines() or ["?"])[-1])
        return json.loads(done.stdout)
    for name in ("null_32x8192", "chain10000"):
        found = ask("in_flight", name)
        row = Row("memory", "a step in flight beyond tensors, %s" % name, "B/node", Series([found["bytes_per_node"] - found["tensors_per_node"]]))
        row.note = "%.1f B with the tensors' headers in the nodes' input slots (32 B each)" % found["bytes_per_node"]
        yield row.below(64)
    scale_down = 20 if ctx.quick else 1
    for text, steps, arguments in (("E1", 1000000, ("flat_mnist",)), ("while1000x1", 100000, ("flat_graph",))):
        steps //= scale_down
        found = ask(*arguments, steps, *([ctx.data_dir] if text == "E1" and ctx.data_dir else [text] if text != "E1" else []))
        grown = (found["after_bytes"] - found["before_bytes"]) / 1e6
        row = Row("memory", "grown in the last nine tenths of %s steps of %s" % (format(steps, ","), text), "MB", Series([grown]))
        row.note = "resident: %.1f MB" % (found["after_bytes"] / 1e6)
        yield row.below(1)


# A few microseconds long, so many of them are run in one step: the Run around a single one is the
# group run's own row, and matmul:64x64x64 shows it here.
SMALL_PRODUCTS = ["matmul:64x64x64x32", "matmul:100x200x100x8", "matmul_ta:200x100x100x8", "matmul_tb:100x100x200x8", "matmul:100x100x60x32", "matmul_ta:100x100x60x32",
                  "matmul_tb:100x60x100x32", "matmul:100x60x30x32", "matmul_ta:60x100x30x32", "matmul_tb:100x30x60x32", "matmul:100x30x10x32", "matmul_ta:30x100x10x32",
                  "matmul_tb:100x10x30x32", "matmul:100x200x10x32", "matmul_ta:200x100x10x32", "matmul_tb:100x10x200x32", "fused:100x200x100x8", "fused:100x60x30x32"]
KERNELS = (["matmul:%dx%dx%d" % (n, n, n) for n in (64, 128, 256, 512, 1024, 2048)]
           + ["matmul:100x784x200", "matmul_ta:784x100x200", "matmul:100x1176x200", "matmul_ta:1176x100x200", "matmul_tb:100x200x1176", "fused:100x784x200", "matmul:1x2048x1000"]
           + SMALL_PRODUCTS
           + ["%s:%s" % (kind, shape) for shape in (
               "100x28x28x1_5x5x4_1", "100x28x28x4_5x5x8_2", "100x14x14x8_4x4x12_2",
               "100x28x28x1_6x6x6_1", "100x28x28x6_5x5x12_2", "100x14x14x12_4x4x24_2",
               "8x224x224x3_7x7x64_2", "8x56x56x64_1x1x64_1", "8x56x56x64_3x3x64_1", "8x28x28x128_3x3x128_1", "8x14x14x256_3x3x256_1", "8x7x7x512_3x3x512_1")
              for kind in ("conv", "conv_input", "conv_filter") if not (kind == "conv_input" and shape.split("x")[3].split("_")[0] in ("1", "3"))])


def kernels(ctx):
    names = KERNELS[::8] if ctx.quick else KERNELS + ["matmul:4096x4096x4096"]
    for name in names:
        result = ctx.side_by_side({"Troupe": lambda: ctx.ours("kernels", name, "session"), "bare": lambda: ctx.ours("kernels", name, "bare", OMP_NUM_THREADS="1")}, ctx.rounds())
        row = Row("kernels", name, "us", result["Troupe"][0].scaled(1e6))
        bare = result["bare"][0].median
        row.note = "bare: %.1f us (%s)" % (bare * 1e6, result["bare"][1].get("best", ""))
        yield row.relative(bare / result["Troupe"][0].median, "bare's speed", ">=", 0.97)


def addresses(workers):
    """A cluster on ports that are free now."""
    sockets = [socket.socket() for _ in range(workers + 1)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        ports = ["127.0.0.1:%d" % s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()
    return "ps=%s;worker=%s" % (ports[0], ",".join(ports[1:]))


def cluster(ctx):
    """One parameter server and its workers on loopback, each a process. One side at a time has the machine: the other waits for its turn."""
    script = os.path.join(ctx.root, "tools", "benchmarks", "rivals", "tensorflow_cluster.py")

    def fleet(command, mode, workers, seconds):
        at = addresses(workers)
        return Fleet([[*command, "ps", at]], [[*command, "worker", at, n, mode, seconds] for n in range(workers)], patience=300)

    def both(mode, workers=1, seconds=0.3, tcp=None):
        makers = {"Troupe": lambda: fleet([os.path.join(ctx.programs, "cluster")], mode, workers, seconds),
                  "TensorFlow": lambda: fleet([ctx.rivals.python, "-B", script], mode, workers, seconds) if ctx.rivals.tensorflow else None}
        if tcp is not None:
            makers["tcp"] = lambda: ctx.ours("cluster", "tcp", tcp, seconds)
        return ctx.side_by_side(makers, ctx.rounds(5))

    def timed(what, unit, factor, limit, *arguments, **options):
        result = both(*arguments, **options)
        row = row_of("cluster", what, unit, result, factor)
        if "tcp" in result:
            row.note = "a plain socket takes %.3g %s" % (result["tcp"][0].median * factor, unit)
        return row.against("TensorFlow", "<=", limit)

    yield timed("a step that reads a scalar, adds 1 and adds that to it", "us", 1e6, 0.25, "scalar", tcp=1)
    yield timed("32 rows of a table of 256 MB: read, changed and added", "us", 1e6, 0.25, "sparse")
    yield timed("100 MB to the worker", "ms", 1e3, 0.15, "fetch", seconds=1, tcp=100000000)
    yield timed("100 MB to the worker and back, added", "ms", 1e3, 0.15, "update", seconds=1)
    yield timed("100 MB to the worker, through the connection", "ms", 1e3, 0.3, "fetch-tcp", seconds=1)
    yield timed("100 MB to the worker and back, added, through the connection", "ms", 1e3, 0.3, "update-tcp", seconds=1)
    for size in (4, 4096, 1 << 20, 1 << 25, 1 << 28):
        if size > 1 << 25 and ctx.quick:
            continue
        yield timed("%s B to the worker" % format(size, ","), "ms", 1e3, 0.7, str(size), seconds=1 if size > 1 << 20 else 0.3, tcp=size)
    for workers in (1, 2, 4):
        result = both("rate", workers, 0.5)
        yield row_of("cluster", "steps on a scalar, %d worker%s" % (workers, "" if workers == 1 else "s"), "steps/s", result, 1).against("TensorFlow", ">=", 4)
    yield from trained(ctx)
    yield from encrypted(ctx, fleet)


def trained(ctx):
    """E8 on one server and two workers, synchronous, 100 images a worker and update; beside one process with as many threads."""
    steps, workers = (60 if ctx.quick else 300), 2
    images = ["--data", ctx.data_dir] if ctx.data_dir else []

    def ours():
        worker = [os.path.join(ctx.build, "bin", "cluster_mnist"), "--cluster", "{cluster}", "--job", "{job}", "--task", "{task}", "--net", "e8", "--batch", 100,
                  "--threads", 1, "--steps", steps, "--report_steps", steps, "--save_steps", 10 * steps, "--model_dir", "{dir}/model", "--json", *images]
        return [os.path.join(ctx.build, "bin", "troupe"), "cluster", "up", "ps=1;worker=%d" % workers, "--dir", tempfile.mkdtemp(dir=ctx.scratch),
                "--threads", 1, "--program", "worker=" + shlex.join(map(str, worker)), "--json"]

    def rate(printed):
        reports = [e.get("report", {}) for e in map(json.loads, printed.splitlines())]
        # One who was taken for dead has come back, and the rate is none of training.
        return next((r["images_per_s"] for r in reports if r.get("event") == "end" and "images_per_s" in r and r.get("recoveries") == 0), None)

    def tensorflow():
        if not ctx.rivals.tensorflow:
            return None
        command, at = [ctx.rivals.python, "-B", os.path.join(ctx.root, "tools", "benchmarks", "rivals", "tensorflow_train_cluster.py")], addresses(workers)
        return Fleet([[*command, "ps", at]], [[*command, "worker", at, n, ctx.raw_data(), steps // 6] for n in range(workers)], patience=300)

    one = lambda: ctx.ours("train", "E8", "--threads", workers, "--raw", ctx.raw_data())  # noqa: E731
    result = ctx.side_by_side({"Troupe": lambda: WholeRuns(ours, rate), "TensorFlow": tensorflow, "one process": one}, ctx.rounds(5))
    alone = result["one process"][0].median
    row = row_of("cluster", "E8 on two workers, 100 images each", "images/s", result, 1)
    row.note = "one process, %d threads: %.0f images/s, with an update for 100 images; our rate is that of whole runs, the first steps included" % (workers, alone)
    yield row.against("TensorFlow", ">=", 3)
    row = row_of("cluster", "E8 on two workers, beside one process", "images/s", {"Troupe": result["Troupe"]}, 1)
    yield row.relative(result["Troupe"][0].median / alone, "one process's rate", ">=", 0.85)


def encrypted(ctx, fleet):
    """The same through connections that are encrypted, beside plain ones."""
    command = [os.path.join(ctx.programs, "cluster")]
    folder = os.path.join(ctx.scratch, "tls")
    if not os.path.exists(os.path.join(folder, "node.key")):
        subprocess.run([os.path.join(ctx.build, "bin", "troupe"), "cluster", "certificate", folder], check=True, stdout=subprocess.DEVNULL)
    files = {"CERTIFICATE": "node.crt", "KEY": "node.key", "CA_FILE": "ca.crt"}
    variables = ["env", *("TROUPE_TLS_%s=%s" % (name, os.path.join(folder, file)) for name, file in files.items())]
    for what, unit, factor, mode, limit in (("a step that reads a scalar, adds 1 and adds that to it, encrypted", "us", 1e6, "scalar-tcp", 1.2),
                                            ("32 MiB to the worker, encrypted", "ms", 1e3, "%d-tcp" % (1 << 25), 3)):
        result = ctx.side_by_side({"Troupe": lambda: fleet(variables + command, mode, 1, 0.5), "plain": lambda: fleet(command, mode, 1, 0.5)}, ctx.rounds(5))
        row = row_of("cluster", what, unit, result, factor)
        plain = result["plain"][0].median
        row.note = "plain, through the connection: %.3g %s" % (plain * factor, unit)
        yield row.relative(result["Troupe"][0].median / plain, "plain's time", "<=", limit)


def build(ctx):
    """Seconds between the start of the first and the end of the last command of the latest full build, from ninja's log."""
    try:
        with open(os.path.join(ctx.build, ".ninja_log")) as f:
            lines = [line.split("\t") for line in f if not line.startswith("#")]
    except OSError:
        ctx.missing.append("build: no .ninja_log in %s" % ctx.build)
        return
    # The log goes on with every build; the times of each start at zero, so the one with most
    # commands is the full one.
    builds, last_end = [], None
    for start, end, *_ in lines:
        start, end = int(start), int(end)
        if last_end is None or end < last_end:
            builds.append([])
        builds[-1].append((start, end))
        last_end = end
    full = max(builds, key=len)
    row = Row("build", "the largest build of %s's log (%d commands)" % (os.path.basename(ctx.build), len(full)), "min",
              Series([(max(e for _, e in full) - min(s for s, _ in full)) / 60000]))
    row.note = "a clean build with tests: --clean-build"
    yield row


def clean_build(ctx):
    folder = os.path.join(ctx.scratch, "clean_build")
    subprocess.run(["rm", "-rf", folder], check=True)
    env = dict(os.environ, CCACHE_DISABLE="1")
    subprocess.run(["cmake", "-S", ctx.root, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DTROUPE_BUILD_TESTS=ON"], check=True,
                   stdout=subprocess.DEVNULL, env=env)
    import time
    start = time.monotonic()
    done = subprocess.run(["ninja", "-C", folder], stdout=subprocess.DEVNULL, env=env)
    if done.returncode != 0:
        raise Failed("the clean build failed; see ninja -C " + folder)
    yield Row("build", "clean release build with tests, without ccache", "min", Series([(time.monotonic() - start) / 60])).below(10)


GROUPS = {"dispatch": dispatch, "run": run, "input": input, "checkpoint": checkpoint, "scale": scale, "compile": compile, "kernels": kernels, "tax": tax, "train": train, "models": models.rows, "networks": networks.networks, "ops": ops.ops, "memory": memory, "cluster": cluster, "build": build}
