"""Cases of images and boxes."""
import itertools

import numpy as np
import tensorflow as tf

from tensorflow_ops import Type, case, i32, types, values


def images():
  ways = [dict(), dict(align_corners=True), dict(half_pixel_centers=True)]
  sizes = [((2, 3, 4, 2), (6, 5)), ((1, 5, 7, 1), (2, 3)), ((1, 4, 4, 1), (4, 4)), ((1, 2, 2, 3), (1, 1)), ((1, 1, 3, 1), (2, 9)), ((0, 2, 2, 1), (3, 3))]
  for op in ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "ResizeArea"):
    for t in types(op):
      for (shape, size), way in itertools.product(sizes, ways[:2] if op == "ResizeArea" else ways):
        case(op, values(t, shape, op, 0, 100), i32(*size), **way)
    for shape, size, way in itertools.product([(1, 1, 1, 2), (2, 4, 1, 1)], [(3, 3), (1, 7)], ways[:2]):
      case(op, values("float32", shape, op, 0, 100), i32(*size), **way)
  for op in ("ResizeBilinearGrad", "ResizeBicubicGrad"):
    for t in types(op):
      for (shape, size), way in itertools.product(sizes, ways):
        case(op, values("float32", shape[:1] + size + shape[3:], "g"), values(t, shape, "x"), **way)
  for t in types("ResizeNearestNeighborGrad"):
    for (shape, size), way in itertools.product(sizes[:-1], ways):
      case("ResizeNearestNeighborGrad", values(t, shape[:1] + size + shape[3:], "g"), i32(*shape[1:3]), **way)
  for t in types("ExtractImagePatches"):
    x = values(t, (2, 5, 6, 2), "x", -90, 90)
    for k, s, r in [((2, 3), (1, 1), (1, 1)), ((3, 2), (2, 3), (1, 1)), ((2, 2), (1, 2), (2, 3)), ((1, 1), (1, 1), (1, 1)), ((5, 6), (9, 9), (1, 1))]:
      for padding in ("SAME", "VALID"):
        case("ExtractImagePatches", x, ksizes=[1, *k, 1], strides=[1, *s, 1], rates=[1, *r, 1], padding=padding)
  for t in types("LRN"):
    for a in [dict(), dict(depth_radius=2, bias=0.5, alpha=0.25, beta=0.75), dict(depth_radius=0, beta=1.0), dict(depth_radius=1, beta=2.0, alpha=0.5)]:
      x = values(t, (2, 2, 1, 7), "lrn", -2, 2)
      case("LRN", x, **a)
      y = tf.raw_ops.LRN(input=tf.constant(x), **a).numpy()
      case("LRNGrad", values(t, x.shape, "g"), x, y, **a)
      case("LRN", values(t, (0, 1, 1, 3), "lrn"), **a)


def crops():
  # Inside, upside down, over the edges, outside, the whole image, a point.
  corners = np.array([[0.1, 0.2, 0.7, 0.9], [0.8, 0.7, 0.2, 0.1], [-0.3, 0.1, 0.6, 1.4], [1.2, 1.3, 2.0, 1.5], [0, 0, 1, 1], [0.3, 0.4, 0.3, 0.4]], np.float32)
  image_of = i32(0, 1, 1, 0, 0, 1)
  for shape, size in [((2, 5, 4, 2), (3, 4)), ((2, 3, 6, 1), (1, 5)), ((2, 1, 4, 1), (4, 1)), ((2, 4, 4, 1), (1, 1)), ((2, 3, 3, 0), (2, 2))]:
    for t in types("CropAndResize"):
      x = values(t, shape, "crop", 0, 100)
      for method in ("bilinear", "nearest"):
        case("CropAndResize", x, corners, image_of, i32(*size), method=method, extrapolation_value=-1.5)
      if shape[3]:
        case("CropAndResizeGradBoxes", values("float32", (6,) + size + shape[3:], "g"), x, corners, image_of)
    for t in types("CropAndResizeGradImage"):
      for method in ("bilinear", "nearest"):
        case("CropAndResizeGradImage", values("float32", (6,) + size + shape[3:], "g"), corners, image_of, i32(*shape), T=Type(t), method=method)
  case("CropAndResize", values("float32", (2, 3, 3, 1), "crop"), corners[:0], image_of[:0], i32(2, 2))


def boxes():
  for t in types("NonMaxSuppressionV3"):
    corners = values(t, (12, 4), "boxes", 0, 4)
    corners[3] = corners[4]
    corners[5, 2] = corners[5, 0]  # without area
    scores = values(t, (12,), "scores", 0, 1)
    scores[7] = scores[8]
    number = lambda x: np.array(x, corners.dtype)
    for most, iou in itertools.product((0, 1, 3, 12, 30), (0.0, 0.25, 0.5, 1.0)):
      if t == "float32":
        case("NonMaxSuppression", corners, scores, np.int32(most), iou_threshold=iou)
      case("NonMaxSuppressionV2", corners, scores, np.int32(most), number(iou))
      case("NonMaxSuppressionV3", corners, scores, np.int32(most), number(iou), number(0.4))
      for pad in (False, True):
        case("NonMaxSuppressionV4", corners, scores, np.int32(most), number(iou), number(0.4), pad_to_max_output_size=pad)
        for sigma in (0, 0.5, 2):
          case("NonMaxSuppressionV5", corners, scores, np.int32(most), number(iou), number(0.4), number(sigma), pad_to_max_output_size=pad)
    for sigma in (0.1, 1):
      case("NonMaxSuppressionV5", corners, scores, np.int32(12), number(0.5), number(0), number(sigma))
    case("NonMaxSuppressionV3", corners[:0], scores[:0], np.int32(3), number(0.5), number(0))
