"""Cases of neural networks."""
import numpy as np
import tensorflow as tf

from tensorflow_ops import FLOATS, case, i32, i64, types, values


def nn():
  for op in ("Softmax", "LogSoftmax"):
    for t in types(op):
      for shape in ((2, 5), (7,), (2, 2, 3), (0, 3)):
        case(op, values(t, shape, op))
  for t in types("SoftmaxCrossEntropyWithLogits"):
    labels = np.array([[0.2, 0.3, 0.5], [0, 1, 0]]).astype(tf.as_dtype(t).as_numpy_dtype)
    case("SoftmaxCrossEntropyWithLogits", values(t, (2, 3), "x"), labels)
    case("SoftmaxCrossEntropyWithLogits", values(t, (2, 3), "x"), labels[:1])
    for labels in (i32(2, 0), i64(1, 1)):
      case("SparseSoftmaxCrossEntropyWithLogits", values(t, (2, 3), "x"), labels)
  for t in types("BiasAdd"):
    case("BiasAdd", values(t, (2, 3), "x"), values(t, (3,), "b"))
    case("BiasAdd", values(t, (2, 2, 2, 3), "x"), values(t, (3,), "b"), data_format="NHWC")
    case("BiasAdd", values(t, (2, 3, 2, 2), "x"), values(t, (3,), "b"), data_format="NCHW")
    case("BiasAddV1", values(t, (2, 3), "x"), values(t, (3,), "b"))
    case("BiasAddGrad", values(t, (2, 2, 2, 3), "x"))
    case("BiasAddGrad", values(t, (2, 3, 2, 2), "x"), data_format="NCHW")
  for t in types("L2Loss"):
    case("L2Loss", values(t, (3, 4), "x"))
    case("L2Loss", values(t, (0,), "x"))
  for op in ("LeakyRelu",):
    for t in types(op):
      case(op, values(t, (2, 4), op), alpha=0.125)
      case("LeakyReluGrad", values(t, (2, 4), "g"), values(t, (2, 4), op), alpha=0.125)
  windows = [dict(strides=[1, 1, 1, 1], padding="SAME"), dict(strides=[1, 2, 2, 1], padding="VALID"), dict(strides=[1, 2, 1, 1], padding="SAME")]
  for t in types("Conv2D"):
    x, w = values(t, (2, 5, 6, 3), "x", -1, 1), values(t, (3, 2, 3, 4), "w", -1, 1)
    extra = windows + [dict(strides=[1, 1, 1, 1], padding="VALID", dilations=[1, 2, 2, 1]),
                       dict(strides=[1, 1, 1, 1], padding="EXPLICIT", explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0])]
    for a in extra:
      case("Conv2D", x, w, **a)
      if t in FLOATS:
        y = tf.raw_ops.Conv2D(input=tf.constant(x), filter=tf.constant(w), **a).shape
        g = values(t, tuple(y), "g", -1, 1)
        case("Conv2DBackpropInput", i32(*x.shape), w, g, **a)
        case("Conv2DBackpropFilter", x, i32(*w.shape), g, **a)
    case("Conv2D", values(t, (1, 4, 4, 3), "x"), values(t, (1, 1, 3, 2), "w"), strides=[1, 1, 1, 1], padding="VALID")
    case("Conv2D", values(t, (0, 4, 4, 3), "x"), values(t, (2, 2, 3, 2), "w"), strides=[1, 1, 1, 1], padding="SAME")
  for t in types("DepthwiseConv2dNative"):
    x, w = values(t, (2, 5, 4, 2), "x", -1, 1), values(t, (3, 2, 2, 2), "w", -1, 1)
    for a in [windows[0], dict(strides=[1, 2, 2, 1], padding="VALID"), dict(strides=[1, 2, 2, 1], padding="SAME")]:
      case("DepthwiseConv2dNative", x, w, **a)
      g = values(t, tuple(tf.raw_ops.DepthwiseConv2dNative(input=tf.constant(x), filter=tf.constant(w), **a).shape), "g", -1, 1)
      case("DepthwiseConv2dNativeBackpropInput", i32(*x.shape), w, g, **a)
      case("DepthwiseConv2dNativeBackpropFilter", x, i32(*w.shape), g, **a)
  pools = [dict(ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID"), dict(ksize=[1, 3, 2, 1], strides=[1, 2, 1, 1], padding="SAME")]
  for a in pools:
    for t in types("AvgPool"):
      x = values(t, (2, 5, 4, 2), "x")
      case("AvgPool", x, **a)
      g = values(t, tuple(tf.raw_ops.AvgPool(value=tf.constant(x), **a).shape), "g")
      case("AvgPoolGrad", i32(*x.shape), g, **a)
    for t in types("MaxPool"):
      x = values(t, (2, 5, 4, 2), "x", -90, 90)
      case("MaxPool", x, **a)
      case("MaxPoolV2", x, i32(*a["ksize"]), i32(*a["strides"]), padding=a["padding"])
      if t in types("MaxPoolGrad"):
        y = tf.raw_ops.MaxPool(input=tf.constant(x), **a).numpy()
        g = values(t, y.shape, "g")
        case("MaxPoolGrad", x, y, g, **a)
        case("MaxPoolGradV2", x, y, g, i32(*a["ksize"]), i32(*a["strides"]), padding=a["padding"])
        case("MaxPoolGradGrad", x, y, values(t, x.shape, "gg"), **a)
  for op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"):
    for t in types(op):
      if t not in FLOATS:
        continue
      for shape in ((2, 3, 2, 3), (4, 1, 1, 2)):
        c = shape[-1]
        x = values(t, shape, "x")
        scale, offset, mean, var = (values("float32", (c,), k, 0.5, 2) for k in "abcd")
        empty = np.zeros((0,), np.float32)
        grad = {"FusedBatchNorm": "FusedBatchNormGrad", "FusedBatchNormV2": "FusedBatchNormGradV2", "FusedBatchNormV3": "FusedBatchNormGradV3"}[op]
        case(op, x, scale, offset, mean, var, epsilon=0.001, is_training=False, unset=(1, 2, 3, 4))
        case(op, x, scale, offset, empty, empty, epsilon=0.001, is_training=True)
        case(op, x, scale, offset, mean, var, epsilon=0.001, exponential_avg_factor=0.25, is_training=True)
        more = [values("float32", (c,), "r")] if op == "FusedBatchNormV3" else []
        case(grad, values(t, shape, "g"), x, scale, mean, var, *more, epsilon=0.001, is_training=False)
        case(grad, values(t, shape, "g"), x, scale, mean, var, *more, epsilon=0.001, is_training=True)
  for k in (1, 2, 4):
    x = values("float32", (3, 4), "top")
    for targets in (i32(0, 1, 3), i64(2, 2, 9)):
      case("InTopK", x, targets, k=k)
      case("InTopKV2", x, targets, targets.dtype.type(k))
    for t in types("TopKV2"):
      case("TopK", values(t, (3, 5), "top"), k=k)
      case("TopKV2", values(t, (2, 2, 5), "top"), np.int32(k), sorted=True)
