"""A composition, and the file form that tests/cases/README.md describes."""

import dataclasses
import os
import sys

import numpy as np
import tensorflow as tf

sys.path.append(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "cases", "record")
)
import text  # noqa: E402


@dataclasses.dataclass
class Gradients:
    """Troupe adds them to the graph; their tensors are called @name:0, @name:1 and so on."""

    name: str
    ys: list  # tensors of the graph, or "@name:k"
    xs: list  # tensors or variables of the graph
    refusable: bool = False  # an error is as good as the right value
    connected: list = None


@dataclasses.dataclass
class Step:
    targets: list = dataclasses.field(default_factory=list)  # names of nodes
    fetches: list = dataclasses.field(default_factory=list)  # names of tensors, or "@name:k"
    want: list = None


@dataclasses.dataclass
class Case:
    name: str
    graph: tf.Graph
    steps: list
    feeds: dict = dataclasses.field(default_factory=dict)  # name of a tensor -> array
    gradients: list = dataclasses.field(default_factory=list)
    tolerance: dict = dataclasses.field(
        default_factory=dict
    )  # name of a type -> relative to the largest element; 0 where none is given
    devices: int = 1
    graph_def: object = None  # what Troupe gets: with devices, say; by default the graph's

    def definition(self):
        return self.graph_def or self.graph.as_graph_def()

    def text(self):
        out = []

        def line(*words):
            out.append(" ".join(str(w) for w in words) + "\n")

        line("case", self.name)
        line("devices", self.devices)
        definition = stripped(self.definition())
        line("versions", definition.versions.producer, definition.versions.min_consumer)
        for node in definition.node:
            line("node", node_text(node))
        for g in self.gradients:
            line("gradients", g.name, "refusable" if g.refusable else "required")
            for y in g.ys:
                line("y", name_of(y))
            for x, connected in zip(g.xs, g.connected):
                line("x", name_of(x), "yes" if connected else "no")
        for name, value in self.feeds.items():
            line("feed", name, text.tensor_text(np.asarray(value)))
        for step in self.steps:
            line("step")
            for name in step.targets:
                line("target", name)
            for name, value in zip(step.fetches, step.want):
                value = np.asarray(value)
                line("fetch", name, self.tolerance.get(value.dtype.name, 0), text.tensor_text(value))
        line("end")
        return "".join(out)


def node_text(node):
    """ "NAME OP INPUT... @DEVICE ATTR=VALUE..." """
    words = [node.name, node.op, *node.input]
    if node.device:
        words.append("@" + node.device)
    words += ["%s=%s" % (name, attr_text(node.attr[name])) for name in sorted(node.attr)]
    return " ".join(words)


def attr_text(v):
    """As text graphs have it (troupe/text.h)."""
    kind = v.WhichOneof("value")
    if kind == "list":
        lists = [[scalar_text(f.name, x) for x in values] for f, values in v.list.ListFields()]
        return "{%s}" % ",".join(lists[0] if lists else [])
    return scalar_text(kind, getattr(v, kind))


def scalar_text(kind, x):
    if kind == "s":
        return text.quoted(x)
    if kind == "b":
        return "true" if x else "false"
    if kind == "f":
        t = str(np.float32(x))
        return t if any(c in t for c in ".en") else t + ".0"
    if kind == "type":
        return tf.as_dtype(x).name
    if kind == "shape":
        return "<unknown>" if x.unknown_rank else "[%s]" % ",".join("?" if d.size < 0 else str(d.size) for d in x.dim)
    if kind == "tensor":
        a = tf.make_ndarray(x)
        of = tf.as_dtype(x.dtype).name
        elements = {"bool": lambda e: "true" if e else "false"}.get(of, lambda e: text.scalar_text(e, of))
        return "%s[%s]{%s}" % (of, ",".join(map(str, a.shape)), ",".join(elements(e) for e in a.reshape(-1)))
    if kind == "i":
        return str(x)
    raise ValueError("an attr of kind %s" % kind)


def name_of(x):
    """The name of the tensor that means x in a GraphDef: of a variable its reference or handle."""
    if isinstance(x, str):
        return x
    if isinstance(x, tf.Tensor):
        return x.name
    return x.handle.name if hasattr(x, "handle") else x._ref().name


def stripped(graph_def):
    """Without what only Python needs."""
    d = type(graph_def)()
    d.CopyFrom(graph_def)
    for node in d.node:
        node.ClearField("experimental_debug_info")
        for attr in ("_output_shapes", "_XlaHasReferenceVars"):
            if attr in node.attr:
                del node.attr[attr]
    return d
