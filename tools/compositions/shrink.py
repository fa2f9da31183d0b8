"""Makes a failing case small: fewer fetches and steps, and inner tensors replaced by their
values, as long as the same case fails in the same mode."""

import tensorflow as tf

import oracle
from case import Case, Gradients, Step, name_of

v1 = tf.compat.v1


def frames_of(graph_def):
    """Names of nodes that stand in a loop or behind a Switch: their tensors have no single value."""
    inside = set()
    by_name = {n.name: n for n in graph_def.node}
    users = {}
    for n in graph_def.node:
        for i in n.input:
            users.setdefault(i.lstrip("^").split(":")[0], []).append(n.name)
    queue = [n.name for n in graph_def.node if n.op in ("Enter", "RefEnter", "Switch", "RefSwitch")]
    while queue:
        name = queue.pop()
        if name in inside:
            continue
        inside.add(name)
        if by_name[name].op not in ("Exit", "RefExit", "Merge", "RefMerge"):
            queue += users.get(name, [])
    return inside


class Shrinker:
    def __init__(self, runner, mode, log=lambda text: None):
        self.runner, self.mode, self.log = runner, mode, log

    def fails(self, case):
        try:
            filled = oracle.fill(case)
        except (oracle.NoCase, tf.errors.OpError, ValueError, KeyError):
            return None
        return filled if self.runner.run([filled], [self.mode] if self.mode else []) else None

    def shrink(self, case):
        """The smallest failing case that was found, with what TensorFlow makes of it, or None when it
        does not fail again."""
        meta = v1.train.export_meta_graph(graph=case.graph, graph_def=case.graph.as_graph_def())
        best, cut = self.fails(copy(case, meta, {})), {}
        if best is None:
            return None
        fetches = [f for step in case.steps for f in step.fetches]
        for f in dict.fromkeys(fetches):
            smaller = self.fails(copy(best, meta, cut, fetch=f))
            if smaller is not None:
                best = smaller
                break
        while len(best.steps) > 1:
            smaller = self.fails(copy(best, meta, cut, drop_last_step=True))
            if smaller is None:
                break
            best = smaller
        # From the end of the graph to its beginning: what is cut there takes most of the graph
        # away.
        values = self.values(best)
        for name, value in reversed(list(values.items())):
            tried = {**cut, name: value}
            smaller = self.fails(copy(best, meta, tried))
            if smaller is not None:
                best, cut = smaller, tried
                self.log("cut %s: %d nodes" % (name, len(used(best).node)))
        best.graph_def = used(best)
        return best

    def values(self, case):
        """Of the tensors that a placeholder can stand for, in the order of the graph."""
        nodes = used(case)
        inside = frames_of(nodes)
        names = []
        for n in nodes.node:
            if n.name in inside or n.op in ("Const", "Placeholder"):
                continue
            names += [
                t.name
                for t in case.graph.get_operation_by_name(n.name).outputs
                if not t.dtype._is_ref_dtype and t.dtype not in (tf.resource, tf.variant, tf.string)
            ]
        values = {}
        with oracle.session(case.graph) as s:
            for step in case.steps[:-1]:
                s.run([case.graph.get_operation_by_name(t) for t in step.targets], case.feeds)
            for name in names:
                try:
                    values[name] = s.run(name, case.feeds)
                except tf.errors.OpError:
                    pass
        return values


def used(case):
    """The part of the graph that the case needs."""
    names = {t for step in case.steps for t in step.targets}
    names |= {f.split(":")[0] for step in case.steps for f in step.fetches if not f.startswith("@")}
    for g in case.gradients:
        names |= {name_of(t).split(":")[0] for t in g.ys + g.xs if not name_of(t).startswith("@")}
    names |= {name.split(":")[0] for name in case.feeds}
    return v1.graph_util.extract_sub_graph(
        case.definition(), sorted(names & {n.name for n in case.definition().node})
    )


def copy(case, meta, cut, fetch=None, drop_last_step=False):
    """The case in a graph of its own, where placeholders stand for the tensors of `cut`."""
    graph = tf.Graph()
    feeds = {name: value for name, value in case.feeds.items() if not name.startswith("cut")}
    with graph.as_default():
        replaced = {}
        for k, (name, value) in enumerate(cut.items()):
            p = v1.placeholder(value.dtype, value.shape, name="cut%d" % k)
            replaced[name] = p
            feeds[p.name] = value
        v1.train.import_meta_graph(meta, input_map=replaced or None)

        def tensor(t):
            name = name_of(t)
            return name if name.startswith("@") else replaced.get(name, graph.get_tensor_by_name(name))

        gradients = [
            Gradients(g.name, [tensor(y) for y in g.ys], [tensor(x) for x in g.xs], g.refusable)
            for g in case.gradients
        ]
    steps = [Step(list(s.targets), [f for f in s.fetches if fetch in (None, f)]) for s in case.steps]
    steps = [s for s in steps if s.targets or s.fetches]
    if drop_last_step:
        steps = steps[:-1]
    small = Case(case.name, graph, steps, feeds, gradients, case.tolerance, case.devices)
    devices = {n.name: n.device for n in case.definition().node}
    small.graph_def = graph.as_graph_def()
    for n in small.graph_def.node:
        n.device = devices.get(n.name, "")
    return small
