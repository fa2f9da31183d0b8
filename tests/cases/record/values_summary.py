"""Cases of summaries: what the ops give is a serialized message. PNGs depend on the version of zlib, so of images the pixels are recorded."""
import itertools

import numpy as np
import tensorflow as tf

import text
from tensorflow_ops import case, types, values


def summaries():
  tags = lambda *names: np.array(names, dtype=object)
  tag = np.array("a/tag", dtype=object)
  for t in types("ScalarSummary"):
    case("ScalarSummary", tags("a", "", "b/c"), values(t, (3,), "scalar", -90, 90))
    case("ScalarSummary", tag, values(t, (), "scalar", -90, 90))
  case("ScalarSummary", tag, values("float32", (1,), "one"))
  case("ScalarSummary", tags("x"), values("float32", (1, 1), "one"))
  case("ScalarSummary", tags("a", "b"), np.array([np.nan, np.inf]))
  case("ScalarSummary", tags(), np.zeros((0,), np.float32))
  for t in types("HistogramSummary"):
    for shape, low, high in [((), -90, 90), ((3, 5), -90, 90), ((60,), -1, 1), ((0,), 0, 1), ((7,), 100, 120)]:
      case("HistogramSummary", tag, values(t, shape, "histogram", low, high))
  case("HistogramSummary", tag, np.array([0.0, -0.0, 1e-13, -1e-13, 1e-12, -1e-12, 1e20, -1e20, 1.7e300, -1.7e300]))
  case("HistogramSummary", tag, np.array([1e-30, 3e38, -3e38], np.float32))
  sound = values("float32", (3, 6, 2), "sound", -1.2, 1.2)
  for most, rate in itertools.product((1, 2, 3, 4), (44100.0, 8000.5)):
    case("AudioSummaryV2", tag, sound, np.float32(rate), max_outputs=most)
  for x in [sound[:, :, 0], sound[:0], sound[:1, :, :1], np.array([[1, -1, 0.99998, 3, -3, 0.5 / 32768, 1.5 / 32768, -0.5 / 32768]], np.float32)]:
    case("AudioSummaryV2", tag, x, np.float32(16000))
  metadata = tf.compat.v1.SummaryMetadata(display_name="shown", summary_description="described")
  metadata.plugin_data.plugin_name = "text"
  metadata.plugin_data.content = b"\x00\xff"
  for t in types("TensorSummaryV2"):
    for shape in [(), (2, 3), (0, 4)]:
      case("TensorSummaryV2", tag, values(t, shape, "tensor"), np.array(metadata.SerializeToString(), dtype=object))
  case("TensorSummaryV2", tag, np.float32(1), np.array(b"", dtype=object))
  one, two = (tf.raw_ops.ScalarSummary(tags=n, values=np.float32(v)).numpy() for n, v in [("one", 1), ("two", 2)])
  histogram = tf.raw_ops.HistogramSummary(tag="three", values=np.arange(4.0)).numpy()
  string = lambda *b: np.array(b, dtype=object)
  case("MergeSummary", [string(one)[0:1].reshape(())])
  case("MergeSummary", [string(one, two), string(histogram).reshape(()), string(b"")])


def images():
  """Lines for images/summaries.txt: the case, and behind it the pixels of each image."""
  lines = []
  nan, inf = np.nan, np.inf
  positive = np.linspace(0, 3, 2 * 3 * 2 * 3).reshape(2, 3, 2, 3)
  odd = np.array([[[[0.5], [nan]], [[inf], [2.0]]], [[[-1.0], [0.25]], [[-inf], [3.0]]], [[[0.0], [0.0]], [[1e-7], [0]]]])
  inputs = [(positive, {}), (positive, dict(max_images=1)), (positive - 1.25, {}), (positive[:, :, :, :1] * 70, dict(max_images=2)),
            (np.concatenate([positive, positive[:, :, :, :1]], 3) - 5, {}), (odd, {}), (np.repeat(odd, 3, 3), dict(max_images=7)), (positive[:0], {})]
  for t in ("float32", "float64", "float16", "uint8"):
    for x, attrs in inputs:
      if t == "uint8":
        x = (np.nan_to_num(x, nan=7, posinf=9, neginf=3) * 40 % 256)
      x = x.astype(t)
      with tf.Graph().as_default(), tf.compat.v1.Session() as session:  # outside of a graph TensorFlow cannot give bad_color
        summary = tf.compat.v1.Summary.FromString(session.run(tf.raw_ops.ImageSummary(tag="a/tag", tensor=tf.constant(x), **attrs)))
      assert all((v.image.height, v.image.width, v.image.colorspace) == x.shape[1:] for v in summary.value)
      pixels = [tf.io.decode_png(v.image.encoded_image_string).numpy() for v in summary.value]
      tags = np.array([v.tag.encode() for v in summary.value], dtype=object)
      lines.append(text.case_text("ImageSummary", [], attrs, [np.array("a/tag", dtype=object), x], [tags] + pixels))
  text.write("images/summaries.txt", "values.py", lines)
