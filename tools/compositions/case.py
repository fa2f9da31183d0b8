"""A composition, and the file form that tests/differential/composition.h describes."""

import dataclasses
import warnings

import numpy as np
import tensorflow as tf


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

    def bytes(self):
        out = []

        def line(*words, data=None):
            text = " ".join(str(w) for w in words)
            out.append((text if data is None else "%s #%d\n" % (text, len(data))).encode())
            out.append(b"\n" if data is None else data + b"\n")

        line("case", self.name)
        line("devices", self.devices)
        line("graph", data=stripped(self.definition()).SerializeToString(deterministic=True))
        for g in self.gradients:
            line("gradients", g.name, "refusable" if g.refusable else "required")
            for y in g.ys:
                line("y", name_of(y))
            for x, connected in zip(g.xs, g.connected):
                line("x", name_of(x), "yes" if connected else "no")
        for name, value in self.feeds.items():
            line("feed", name, data=tensor_bytes(value))
        for step in self.steps:
            line("step")
            for name in step.targets:
                line("target", name)
            for name, value in zip(step.fetches, step.want):
                line("fetch", name, self.tolerance.get(np.asarray(value).dtype.name, 0), data=tensor_bytes(value))
        line("end")
        return b"".join(out)


def name_of(x):
    """The name of the tensor that means x in a GraphDef: of a variable its reference or handle."""
    if isinstance(x, str):
        return x
    if isinstance(x, tf.Tensor):
        return x.name
    return x.handle.name if hasattr(x, "handle") else x._ref().name


def tensor_bytes(value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tf.make_tensor_proto(value).SerializeToString(deterministic=True)


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
