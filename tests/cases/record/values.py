"""Records what TensorFlow's CPU kernels compute, in tests/cases/values.

  TF_ENABLE_ONEDNN_OPTS=0 TF_CPP_MIN_LOG_LEVEL=3 python tests/cases/record/values.py

Types and args of the ops come from definitions/ops.txt; values_*.py say what is recorded. A file for each room of kernels/, or for a part of one. Deterministic:
the same TensorFlow writes the same files. Ops of values/array.txt, which again.py records, are left out where ops are listed by their definitions.
"""
import collections

import text
import values_array
import values_elementwise
import values_image
import values_linalg
import values_nn
import values_parse
import values_reduce
import values_summary
from tensorflow_ops import DEFS, RECORDED, REFUSED

ROOMS = text.rooms()


def file_of(op):
  """Rooms with much in them have several files."""
  room = ROOMS[op]
  if room == "elementwise" and len(DEFS[op]["inputs"]) == 1:
    return "elementwise_one_argument"
  if room == "image":
    if op.startswith(("Decode", "Encode", "Extract")) and op != "ExtractImagePatches":
      return "image_files"
    if "HSV" in op or "Adjust" in op:
      return "image_colors"
    return "image_boxes" if "Suppression" in op or "Crop" in op else "image_resize" if "Resize" in op else "image_patches"
  if room == "nn" and "conv" in op.lower():
    return "nn_convolutions"
  if room == "parse":
    return "parse_examples" if "Example" in op else "parse_texts"
  if room == "array":
    return "array_diagonals" if "Diag" in op else "array_passing"
  return room


def main():
  for f in (values_elementwise.unary, values_elementwise.binary, values_reduce.reductions, values_reduce.segments, values_elementwise.choices, values_reduce.products,
            values_nn.nn, values_linalg.matrices, values_linalg.orthogonal, values_image.images, values_image.crops, values_array.bands, values_image.boxes,
            values_elementwise.integrals, values_array.passing, values_image.pictures, values_image.colors,
            values_parse.texts, values_parse.examples, values_parse.sequences,
            values_summary.summaries):
    f()
  values_summary.images()
  files = collections.defaultdict(list)
  for op, line in RECORDED:
    files[file_of(op)].append(line)
  for name, lines in sorted(files.items()):
    text.write("values/%s.txt" % name, "values.py", lines)
    print("%s: %d cases of %d ops" % (name, len(lines), len({l.split(" ")[0] for l in lines})))
  for op, why in sorted(REFUSED.items()):
    print("  refused:", op, len(why), why[0])


if __name__ == "__main__":
  main()
