"""The group ops: what the networks of group networks spend their time in, one op at a time, beside every system that runs its graph."""
import json
import math
import os
import statistics
import subprocess

import networks
import numbers_file
from measure import Failed, Program, Row, Series, settle

ENGINES = [e for e in networks.ENGINES if e != "PyTorch compiled"]
SAME = 1e-4  # how far outputs may be from TensorFlow's, of the largest number in them
NOTHING = "nothing"  # the graph of which a call alone is timed


def folder_of(ctx):
    """Where the graphs are; the rivals' TensorFlow writes them."""
    folder, script = os.path.join(ctx.scratch, "ops"), os.path.join(ctx.root, "tools", "benchmarks", "rivals", "ops.py")
    names = os.path.join(folder, "names.json")
    scripts = [script, os.path.join(os.path.dirname(script), "networks.py")]
    if not os.path.exists(names) or os.path.getmtime(names) < max(map(os.path.getmtime, scripts)):
        done = subprocess.run([ctx.rivals.python, "-B", script, folder], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed("ops.py: %s" % (done.stderr.strip().splitlines() or ["?"])[-1])
    with open(names) as f:
        return folder, json.load(f)


def differences(ctx, folder, names):
    """How far the output of each op is from TensorFlow's, relative to the largest number in it."""
    script = os.path.join(ctx.root, "tools", "benchmarks", "rivals", "op_steps.py")
    for command in ([os.path.join(ctx.programs, "ops"), folder, "--check", folder], [ctx.rivals.python, "-B", script, "tensorflow", folder, "1", "0", folder]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed("%s: %s" % (os.path.basename(command[0]), (done.stderr.strip().splitlines() or ["?"])[-1]))
    return {n: numbers_file.difference(*(os.path.join(folder, n + end) for end in (".ours", ".theirs"))) for n in names}


def samples(programs, names, rounds):
    """The programs in turn, graph by graph; engine -> name -> Series, without what a program cannot run."""
    taken = {engine: {n: [] for n in names} for engine in programs}
    for i in range(rounds + 1):
        for name in names:
            settle(programs)
            for engine, program in programs.items():
                value = program.sample()
                if i > 0 and not math.isnan(value):
                    taken[engine][name].append(value)
    return {engine: {n: Series(s) for n, s in of.items() if s} for engine, of in taken.items()}


def rows_of(taken, names, threads, differ):
    """A row for each op, and one of all. A rival's time is less what a call of its graph of nothing takes, and so is ours."""
    ratios = []
    for name in names:
        if name == NOTHING:
            continue
        net = {}
        for engine, series in taken.items():
            if name in series:
                call = series[NOTHING].median if NOTHING in series else 0
                net[engine] = Series([max(s - call, 1e-9) * 1e6 for s in series[name].samples])
        rivals = {e: s for e, s in net.items() if e != "Troupe"}
        made = Row("ops", "%s, %d thread%s" % (name.replace("_", "/"), threads, "" if threads == 1 else "s"), "us", net["Troupe"], rivals)
        made.note = ", ".join("%s %.4g" % (e, s.median) for e, s in rivals.items())
        if differ is not None:
            made.note += "; differs from TensorFlow's by %.2g" % differ[name]
        made.against_best("<=", 1.2, best=min)
        if made.ratio is not None:
            ratios.append(made.ratio)
        yield made
    if ratios:
        mean = statistics.geometric_mean(ratios)
        calls = ", ".join("%s %.3g us" % (e, s[NOTHING].median * 1e6) for e, s in taken.items() if NOTHING in s)
        made = Row("ops", "geometric mean of these %d ratios" % len(ratios), "x", Series([mean])).below(0.8)
        made.note = "a call of nothing, which is taken off: " + calls
        yield made


def ops(ctx):
    engines, missing = networks.there(ctx.rivals)
    ctx.missing.extend(m.replace("networks:", "ops:") for m in missing if "compiled" not in m)
    if "TensorFlow" not in engines:
        ctx.missing.append("ops: TensorFlow writes the graphs")
        return
    folder, names = folder_of(ctx)
    differ = differences(ctx, folder, names)
    wrong = {n: d for n, d in differ.items() if not d <= SAME}
    if wrong:
        raise Failed("ops: other results than TensorFlow's: %s" % ", ".join("%s (%.2g)" % item for item in wrong.items()))
    script = os.path.join(ctx.root, "tools", "benchmarks", "rivals", "op_steps.py")
    for threads in (1,) if ctx.quick else (1, 2):
        if len(os.sched_getaffinity(0)) < threads:
            ctx.missing.append("ops: with %d threads, for want of processors" % threads)
            continue
        pin = networks.pinned(threads)
        programs = {}
        try:
            programs["Troupe"] = Program([*pin, os.path.join(ctx.programs, "ops"), folder, "--threads", threads], patience=900)
            for engine in ENGINES:
                if engine not in engines:
                    continue
                try:
                    programs[engine] = Program([*pin, ctx.rivals.python, "-B", script, engines[engine], folder, threads, 0.1], patience=1800)
                except Failed as e:
                    ctx.missing.append("ops: %s" % e)
                    continue
                ctx.missing.extend("ops: %s cannot run %s: %s" % (engine, n, why) for n, why in programs[engine].head["cannot"].items())
            taken = samples(programs, names, ctx.rounds(5))
        finally:
            for program in programs.values():
                program.process.kill()
        yield from rows_of(taken, names, threads, differ if threads == 1 else None)
