"""Cases of images, boxes and files of pictures."""
import itertools
import struct
import zlib

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


def png(pixels, depth, color, palette=b"", transparent=b"", interlace=False):
  """A PNG of rows of samples, [height, width, channels], without filters."""
  pixels = np.asarray(pixels)
  chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
  def row(samples):
    flat = samples.reshape(-1)
    if depth == 16:
      return b"\0" + flat.astype(">u2").tobytes()
    if depth == 8:
      return b"\0" + flat.astype(np.uint8).tobytes()
    bits = "".join(format(int(v), "0%db" % depth) for v in flat)
    bits += "0" * (-len(bits) % 8)
    return b"\0" + bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))
  passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)] if interlace else [(0, 0, 1, 1)]
  data = b""
  for y, x, dy, dx in passes:
    part = pixels[y::dy, x::dx]
    if part.size:
      data += b"".join(row(r) for r in part)
  out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], depth, color, 0, 0, int(interlace)))
  out += chunk(b"PLTE", palette) if palette else b""
  out += chunk(b"tRNS", transparent) if transparent else b""
  return out + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def bmp(width, height, bits, top_down=False):
  row = (width * bits // 8 + 3) // 4 * 4
  data = bytes(i * 37 % 251 for i in range(row * height))
  return b"BM" + struct.pack("<IHHI", 54 + len(data), 0, 0, 54) + struct.pack("<IiiHHIIiiII", 40, width, -height if top_down else height, 1, bits, 0, len(data), 0, 0, 0, 0) + data


def gif(size, frames, colors, local=None):
  """Frames (left, top, indices [height, width], transparent index or None), of codes of 9 bits with a new start after each."""
  table = lambda c: b"".join(bytes(x) for x in c) + b"\0\0\0" * (256 - len(c))
  out = b"GIF89a" + struct.pack("<HHBBB", size[1], size[0], 0xf7, 0, 0) + table(colors)
  for left, top, indices, transparent in frames:
    indices = np.asarray(indices)
    out += b"\x21\xf9\x04" + struct.pack("<BHB", 0 if transparent is None else 1, 5, transparent or 0) + b"\0"
    out += b"\x2c" + struct.pack("<HHHHB", left, top, indices.shape[1], indices.shape[0], 0x87 if local else 0) + (table(local) if local else b"") + b"\x08"
    codes = [c for i in indices.reshape(-1) for c in (256, int(i))] + [257]
    bits = sum(c << 9 * k for k, c in enumerate(codes))
    data = bits.to_bytes((9 * len(codes) + 7) // 8, "little")
    out += b"".join(bytes([len(data[i:i + 255])]) + data[i:i + 255] for i in range(0, len(data), 255)) + b"\0"
  return out + b"\x3b"


def pictures():
  """Files of every form, by every op that reads files."""
  scalar = lambda data: np.array(data, dtype=object)
  r = np.random.RandomState(5)
  smooth = (np.add.outer(np.arange(10) * 9, np.arange(13) * 7)[..., None] + np.array([0, 40, 90])).astype(np.uint8)
  pngs = [png(r.randint(0, 1 << d, (3, 5, {0: 1, 2: 3, 4: 2, 6: 4}[c])), d, c) for d, c in [(1, 0), (2, 0), (4, 0), (8, 0), (16, 0), (8, 2), (16, 2), (8, 4), (16, 4), (8, 6), (16, 6)]]
  pngs += [png(r.randint(0, 4, (3, 5, 1)), d, 3, palette=bytes(range(50, 62))) for d in (2, 4, 8)]
  pngs += [png(r.randint(0, 4, (3, 5, 1)), 8, 3, palette=bytes(range(50, 62)), transparent=b"\0\x80"), png(r.randint(0, 256, (9, 10, 3)), 8, 2, interlace=True),
           png(r.randint(0, 3, (2, 3, 1)), 8, 0, transparent=b"\0\1"), png(r.randint(0, 3, (2, 3, 3)), 8, 2, transparent=b"\0\1\0\1\0\2")]
  jpeg = lambda x, **a: tf.io.encode_jpeg(tf.constant(x), **a).numpy()
  jpegs = [jpeg(smooth), jpeg(smooth[..., :1]), jpeg(smooth, progressive=True, quality=60), jpeg(smooth, chroma_downsampling=False), jpeg(smooth[:1, :1]), jpeg(smooth, optimize_size=True)]
  gifs = [gif((4, 5), [(0, 0, r.randint(0, 6, (4, 5)), None)], [(i * 40, 9 * i, 255 - i) for i in range(6)]),
          gif((4, 5), [(0, 0, r.randint(0, 6, (4, 5)), None), (1, 2, r.randint(0, 6, (2, 3)), 2)], [(i * 40, 9 * i, 255 - i) for i in range(6)]),
          gif((4, 5), [(0, 0, r.randint(0, 3, (4, 5)), 1), (0, 1, r.randint(0, 3, (1, 2)), None), (3, 3, r.randint(0, 3, (1, 2)), None)], [(1, 2, 3)] * 3, [(9, 8, 7), (6, 5, 4), (3, 2, 1)])]
  bmps = [bmp(3, 4, 24), bmp(3, 4, 32), bmp(5, 2, 8), bmp(5, 3, 24, True)]
  for data, channels in itertools.product(pngs, range(5)):
    for t in types("DecodePng", "dtype"):
      case("DecodePng", scalar(data), channels=channels, dtype=Type(t))
  for data in pngs[3:11:2] + jpegs[:2] + gifs + bmps:
    # TensorFlow crashes when it makes floats of a BMP.
    for t, expand in itertools.product(["uint8"] if data in bmps else types("DecodeImage", "dtype"), (True, False)):
      case("DecodeImage", scalar(data), dtype=Type(t), expand_animations=expand)
    for channels in (1, 3, 4):
      case("DecodeImage", scalar(data), channels=channels)
  for data in jpegs:
    for channels, ratio in itertools.product((0, 1, 3), (1, 2, 4, 8)) if data is jpegs[0] else [(0, 1), (1, 2), (3, 4)]:
      case("DecodeJpeg", scalar(data), channels=channels, ratio=ratio)
    for method, fancy in itertools.product(("INTEGER_FAST", "INTEGER_ACCURATE"), (True, False)):
      case("DecodeJpeg", scalar(data), dct_method=method, fancy_upscaling=fancy)
    for t in types("ExtractJpegShape", "output_type"):
      case("ExtractJpegShape", scalar(data), output_type=Type(t))
  for data in jpegs[:4]:
    for window in ([0, 0, 10, 13], [2, 3, 5, 7], [9, 12, 1, 1], [0, 9, 10, 4], [8, 0, 2, 13]):
      case("DecodeAndCropJpeg", scalar(data), i32(*window))
      case("DecodeAndCropJpeg", scalar(data), i32(*window), dct_method="INTEGER_ACCURATE", fancy_upscaling=False, channels=1)
    case("DecodeAndCropJpeg", scalar(data), i32(1, 2, 3, 4), ratio=2)
  for part in (0.0, 0.5, 1.0):
    case("DecodeJpeg", scalar(jpegs[0][:-2]), try_recover_truncated=True, acceptable_fraction=part)
  for data in [pngs[5], jpegs[0], gifs[0], gifs[1]]:
    case("DecodeGif", scalar(data))
    case("DecodePng", scalar(data))
    case("DecodeJpeg", scalar(data))
  case("DecodeGif", scalar(gifs[2]))
  case("DecodeGif", scalar(gifs[1][:-1]))
  for data in bmps:
    for channels in (0, 1, 3, 4):
      case("DecodeBmp", scalar(data), channels=channels)
  for x in (smooth, smooth[..., :1]):
    for a in [dict(), dict(quality=30), dict(progressive=True), dict(chroma_downsampling=False, density_unit="cm", x_density=7), dict(optimize_size=True), dict(xmp_metadata="<x/>")]:
      case("EncodeJpeg", x, **a)
  case("EncodeJpeg", smooth[..., :1], format="grayscale")
  for t in types("EncodePng"):
    for channels in (1, 2, 3, 4):
      case("EncodePng", values(t, (3, 2, channels), "png", 0, 250), compression=0)
      case("EncodePng", values(t, (2, 3, 2, channels), "png", 0, 250))


def colors():
  for op in ("RGBToHSV", "HSVToRGB"):
    for t in types(op):
      case(op, values(t, (2, 5, 3), op, 0, 1))
      case(op, np.array([[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0.2, 0.2, 0.1], [0.1, 0.3, 0.3]]).astype(tf.as_dtype(t).as_numpy_dtype))
  for t in types("AdjustHue"):
    for delta in (0.0, 0.25, -0.4, 0.9, 1.0):
      case("AdjustHue", values(t, (2, 3, 2, 3), "hue", 0, 1), np.float32(delta))
  for t in types("AdjustSaturation"):
    for scale in (0.0, 0.5, 1.0, 3.0):
      case("AdjustSaturation", values(t, (2, 3, 2, 3), "saturation", 0, 1), np.float32(scale))
  for t in types("AdjustContrastv2"):
    for factor in (0.0, 0.5, 2.5):
      case("AdjustContrastv2", values(t, (2, 3, 2, 4), "contrast", 0, 1), np.float32(factor))
      case("AdjustContrastv2", values(t, (3, 2, 1), "contrast", 0, 1), np.float32(factor))
