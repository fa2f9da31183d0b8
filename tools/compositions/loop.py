"""Makes cases until the time is over, runs them in batches, and reports what differs."""

import collections
import os
import time

import numpy as np
from google.protobuf import text_format

import families
import oracle
from generator import prepare_tensorflow
from runner import Runner, known_ops, programs
from shrink import Shrinker

BATCH = 20


def run(args):
    runner_program, troupe = programs(args.build)
    prepare_tensorflow()
    runner, ops = Runner(runner_program), known_ops(troupe)
    counts = collections.Counter()
    failed, shrunk, batch = {}, set(), []

    def flush():
        for w in runner.run(batch):
            failed.setdefault(w.case, []).append(w)
            print("%s (%s): %s" % (w.case, w.mode, w.what), flush=True)
        for case in batch:
            if case.name in failed and args.save and case.name not in shrunk:
                shrunk.add(case.name)
                save(runner, failed[case.name][0], args.save)
        counts["cases"] += len(batch)
        batch.clear()

    for family, seed, nodes in names(args):
        case = filled(family, seed, nodes, ops, counts)
        if case is None:
            continue
        counts[family] += 1
        counts["nodes"] += len(case.definition().node)
        batch.append(case)
        if len(batch) == BATCH:
            flush()
    flush()
    print(
        "%d cases of %d nodes (%s), %d that TensorFlow refuses, %d that have ops unknown here; %d differ"
        % (
            counts["cases"],
            counts["nodes"],
            ", ".join("%d %s" % (counts[f], f) for f in families.FAMILIES),
            counts["refused"],
            counts["unknown"],
            len(failed),
        )
    )
    return 1 if failed else 0


def names(args):
    """(family, seed, nodes) of the cases to make."""
    if args.only:
        parts = args.only.split("/")
        yield parts[0], int(parts[1]), int(parts[2]) if len(parts) > 2 else None
        return
    end, seed = time.time() + args.seconds, args.seed
    while time.time() < end:
        yield args.family or families.SHARES[seed % len(families.SHARES)], seed, None
        seed += 1


def filled(family, seed, nodes, ops, counts):
    """The case with TensorFlow's values, or None."""
    try:
        case = families.make(family, seed, nodes)
        if {n.op for n in case.definition().node} - ops:
            counts["unknown"] += 1
            return None
        return oracle.fill(case)
    except oracle.NoCase:
        counts["refused"] += 1
        return None


def save(runner, wrong, folder):
    """Shrinks the case and writes its graph, its feeds and what is wanted."""
    family, seed, *nodes = wrong.case.split("/")
    small = Shrinker(runner, wrong.mode).shrink(families.make(family, int(seed), int(nodes[0]) if nodes else None))
    if small is None:
        print("%s does not fail again" % wrong.case, flush=True)
        return
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, wrong.case.replace("/", "_") + ".pbtxt")
    with np.printoptions(threshold=10000, floatmode="unique"), open(path, "w") as file:
        file.write("# %s in mode %s: %s\n" % (wrong.case, wrong.mode, wrong.what))
        for name, value in small.feeds.items():
            file.write("# feed %s = %s\n" % (name, repr(value).replace("\n", " ")))
        for g in small.gradients:
            file.write(
                "# gradients %s of %s by %s\n"
                % (g.name, [getattr(y, "name", y) for y in g.ys], [x.name for x in g.xs])
            )
        for k, step in enumerate(small.steps):
            file.write("# step %d: targets %s\n" % (k, step.targets))
            for name, value in zip(step.fetches, step.want):
                file.write("#   %s = %s\n" % (name, repr(value).replace("\n", " ")))
        file.write(text_format.MessageToString(small.graph_def))
    print("%s: %d nodes" % (path, len(small.graph_def.node)), flush=True)
