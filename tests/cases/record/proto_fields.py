"""Writes the table that fields_test.cc compares our schemas with, from an installed TensorFlow.

    python tests/cases/record/proto_fields.py MESSAGE... > tests/cases/definitions/proto_fields.txt

One line a message or enum, with every field TensorFlow has: "Message name=number:type ...", where * marks a repeated field.
"""
import sys

from google.protobuf import descriptor_pb2
from tensorflow.core.example import example_pb2
from tensorflow.core.framework import (cost_graph_pb2, device_attributes_pb2, graph_pb2, summary_pb2,
                                       tensor_slice_pb2, variable_pb2)
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, saved_model_pb2, tensor_bundle_pb2
from tensorflow.core.util import event_pb2, saved_tensor_slice_pb2
from tensorflow.python.training import checkpoint_state_pb2

SCALARS = {1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool",
           9: "string", 12: "bytes", 13: "uint32"}
wanted = set(sys.argv[1:])
seen = set()


def short(name):
    return name.lstrip(".").removeprefix("tensorflow.")


def show_enum(enum, outer):
    name = outer + enum.name
    if name in wanted:
        print(name, *("%s=%d" % (v.name, v.number) for v in enum.value))


def show(message, outer=""):
    name = outer + message.name
    for nested in message.nested_type:
        show(nested, name + ".")
    for enum in message.enum_type:
        show_enum(enum, name + ".")
    if name in wanted:
        print(name, *("%s=%d:%s%s" % (f.name, f.number, "*" if f.label == 3 else "",
                                      short(f.type_name) if f.type in (11, 14) else SCALARS[f.type])
                      for f in sorted(message.field, key=lambda f: f.number)))


def visit(file):
    if file.name in seen:
        return
    seen.add(file.name)
    for dependency in file.dependencies:
        visit(dependency)
    proto = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(proto)
    if file.package != "tensorflow":
        return
    for enum in proto.enum_type:
        show_enum(enum, "")
    for message in proto.message_type:
        show(message)


for module in (example_pb2, cost_graph_pb2, device_attributes_pb2, graph_pb2, summary_pb2, tensor_slice_pb2,
               variable_pb2, config_pb2, meta_graph_pb2, saved_model_pb2, tensor_bundle_pb2, event_pb2,
               checkpoint_state_pb2, saved_tensor_slice_pb2):
    visit(module.DESCRIPTOR)
