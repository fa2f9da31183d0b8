"""The group models: training steps of whole models, beside the rivals that are there."""
import os

import networks
from measure import Failed, Program, Row

# Of models.h: what is timed, and the goal for our time in that of the best rival.
MODELS = [("word2vec", "word2vec: 50,000 words, width 128, batch 128, 64 drawn", 1 / 1.5),
          ("lstm", "LSTM language model: 2x650, 35 steps, batch 20, 10,000 words", 1 / 1.5),
          ("wide_and_deep", "wide and deep: 10 crossings, 8 embeddings, 1024-512-256, batch 256", 1 / 1.5),
          ("transformer", "Transformer encoder: 6 layers of 256, batch 16 of 64 words", 0.9),
          ("resnet50", "ResNet-50, batch 8 of 224x224", 0.9),
          ("mobilenetv2", "MobileNet v2, batch 8 of 224x224", 0.9)]
SAME = 1e-4  # how far the losses of the first steps may be apart, relative


def apart(ours, theirs):
    """The largest relative difference of two lists of losses; infinite when they do not fit."""
    if len(ours) != len(theirs) or not ours:
        return float("inf")
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))


def row(what, threads, goal, result):
    """REQUIRES: result has "Troupe". Failed when a rival computes something else."""
    rivals = {n: r[0].scaled(1e3) for n, r in result.items() if n != "Troupe"}
    made = Row("models", "%s, %d thread%s" % (what, threads, "" if threads == 1 else "s"), "ms", result["Troupe"][0].scaled(1e3), rivals)
    notes = []
    for name, (_, head, _) in result.items():
        if name == "Troupe":
            continue
        note = "%s by %s" % (name, head["way"])
        if "losses" in head:
            difference = apart(result["Troupe"][1]["losses"], head["losses"])
            if difference > SAME:
                raise Failed("%s: the losses of the first steps are not those of %s, but %.2g away" % (what, name, difference))
            note += ", whose losses in the first %d steps are ours within %.1g" % (len(head["losses"]), difference)
        notes.append(note)
    for unit, key, factor in (("processor time a step, ms", "cpu_s_per_step", 1e3), ("peak MB", "peak_bytes", 1e-6)):
        known = ["%s %.3g" % (n, r[2][key] * factor) for n, r in result.items() if key in r[2]]
        notes += ["%s: %s" % (unit, ", ".join(known))] if known else []
    limit = result["Troupe"][2].get("limit_s", 0) * 1e3
    if limit > 0:
        notes.append("the multiplications of its products alone take %.3g ms here, %.0f %% of our step" % (limit, 100 * limit / made.ours.median))
    made.note = "; ".join(notes)
    return made.against_best("<=", goal, best=min)


def rows(ctx):
    scripts = {"TensorFlow": ("tensorflow_models.py", ctx.rivals.tensorflow, "a session"), "PyTorch": ("torch_models.py", ctx.rivals.torch, "eager")}

    def rival(name, model, threads):
        script, there, only = scripts[name]
        path = os.path.join(ctx.root, "tools", "benchmarks", "rivals", script)
        command = [*networks.pinned(threads), ctx.rivals.python, "-B", path, model, threads, 0.4] + ([only] if ctx.quick else [])
        return Program(command, patience=900) if there else None

    for model, what, goal in MODELS:
        for threads in (1, 2):
            if len(os.sched_getaffinity(0)) < threads:
                ctx.missing.append("models: %s with %d threads, for want of processors" % (model, threads))
                continue
            makers = {"Troupe": lambda: Program([*networks.pinned(threads), os.path.join(ctx.programs, "models"), model, "--threads", threads], patience=900)}
            makers.update({name: lambda name=name: rival(name, model, threads) for name in scripts})
            result = ctx.side_by_side(makers, ctx.rounds(5))
            try:
                yield row(what, threads, goal, result)
            except Failed as e:
                ctx.missing.append("models: %s" % e)
