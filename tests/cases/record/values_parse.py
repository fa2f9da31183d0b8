"""Cases of texts, and of Examples."""
import itertools
import struct
import zlib

import numpy as np
import tensorflow as tf

from tensorflow_ops import Type, case, i32, i64, types
from text import Shape


def s(*texts):
  return np.array([t if isinstance(t, bytes) else t.encode() for t in texts], dtype=object)


def one(text):
  return np.array(text if isinstance(text, bytes) else text.encode(), dtype=object)


def texts():
  lines = s("1,2.5,abc,7,-3e2", '4,"5.25","a ""b"", c",8,1', ",,,,", '9,nan,"",-1,inf', "+3, 4 ,  x y ,10,1e400")
  defaults = [i32(7), np.array([0.5], np.float32), s("none"), i64(9), np.array([1.5], np.float64)]
  case("DecodeCSV", lines, defaults)
  case("DecodeCSV", lines.reshape(5, 1), defaults)
  case("DecodeCSV", lines[:0], defaults)
  case("DecodeCSV", s("1;x;3", "NA;;NA"), [i32(4), s("d"), np.array([2.5], np.float32)], field_delim=";", na_value="NA")
  case("DecodeCSV", s('1,"2,3', 'a"b,c'), [s(""), s("")], use_quote_delim=False)
  case("DecodeCSV", s("1,2,3,4,5", "6,,8,,10"), [i32(0), i32(1)], select_cols=[1, 3])
  case("DecodeCSV", s("1,2,3,4,5", "6,7,8,9"), [s("l")], select_cols=[4])
  case("DecodeCSV", s("1,2\r\n", "\n3,4"), [i32(0), i32(0)])
  case("DecodeCSV", s("x,"), [s("a"), s("b")])
  case("DecodeCSV", s("", "5"), [i32(3)])
  for t in types("DecodeRaw", "out_type"):
    raw = [bytes(range(i, i + 32)) for i in (0, 90, 200)]
    raw = [b"\0\1\0\1" * 8] * 3 if t == "bool" else raw
    for little in (True, False):
      case("DecodeRaw", s(*raw), out_type=Type(t), little_endian=little)
  case("DecodeRaw", s(b"ab", b"cd").reshape(2, 1), out_type=Type("uint8"))
  case("DecodeRaw", s(b"", b""), out_type=Type("float32"))
  case("DecodeRaw", one(b"\1\2"), out_type=Type("int16"))
  plain = [b"", b"hello", b"x" * 3000]
  gzip = lambda d: (lambda c: c.compress(d) + c.flush())(zlib.compressobj(9, zlib.DEFLATED, 31))
  case("DecodeCompressed", s(*[zlib.compress(p) for p in plain]), compression_type="ZLIB")
  case("DecodeCompressed", s(*[gzip(p) for p in plain]), compression_type="GZIP")
  case("DecodeCompressed", s(*plain))
  case("DecodeCompressed", s(b""), compression_type="ZLIB")
  case("DecodeCompressed", s(b""), compression_type="GZIP")
  numbers = ["0", "1", "-1", " 12 ", "+7", "2147483647", "-2147483648", "4294967295", "9223372036854775807", "18446744073709551615", "007", "\t5\n"]
  reals = numbers + ["1.5", "-2.5e-3", "1e10", "inf", "-inf", "nan", "infinity", "1e40", "1e400", "1e-50", "1e-400", ".5", "5.", "0.1", "3.4028236e38", "0x1F", "-0X1f", "+0x1.8p1", " 0x10 "]
  for t in types("StringToNumber", "out_type"):
    for n in (reals if "float" in t else numbers):
      case("StringToNumber", s(n), out_type=Type(t))
    case("StringToNumber", s("1", "2", "3", "4").reshape(2, 2), out_type=Type(t))
  sentences = s("hello world", "", "a  b c", " lead", "trail ", "one")
  for d, skip in itertools.product([" ", "", "l", " o"], [True, False]):
    case("StringSplit", sentences, one(d), skip_empty=skip)
  case("StringSplit", sentences[:0], one(" "))
  for sep, most in itertools.product(["", " ", "l", "lo", "<>"], [-1, 0, 1, 2]):
    case("StringSplitV2", np.append(sentences, s("a<><>b<>", "\t x\ny \v")), one(sep), maxsplit=most)
  for pattern, rewrite in [("a+", "<\\0>"), ("(\\w)(\\w)", "\\2\\1"), ("", "-"), ("^.", ""), ("l|o", "é"), ("[^a-z ]", "?"), ("(?i)HELLO", "x")]:
    for everywhere in (True, False):
      case("RegexReplace", np.append(sentences, s("naïve aaa")), one(pattern), one(rewrite), replace_global=everywhere)
      case("StaticRegexReplace", np.append(sentences, s("naïve aaa")), pattern=pattern, rewrite=rewrite, replace_global=everywhere)
  for pattern in ("", "[a-z ]*", "one|trail ", ".*\\bb\\b.*", "(?:a|)  ?b.c", "\\pL+ \\pL+"):
    case("RegexFullMatch", sentences.reshape(2, 3), one(pattern))
    case("StaticRegexFullMatch", sentences.reshape(2, 3), pattern=pattern)
  case("StringStrip", s("  a b ", "", "\t\n", "c\r\n", "d").reshape(5, 1))
  words = s("naïve", "日本語", "", "plain", b"a\xff")
  for unit in ("BYTE", "UTF8_CHAR"):
    case("StringLength", words, unit=unit)
  for t in types("Substr"):
    n = lambda *v: np.array(v, t)
    for p, l in [(0, 2), (1, 3), (-3, 2), (4, 100), (-4, 1)]:
      case("Substr", s("hello", "world"), np.array(p, t), np.array(l, t))
    case("Substr", s("hello", "world"), n(1, 2), n(2, 3))
    case("Substr", s("hello", "world").reshape(2, 1), n(1, 2, 3), n(2, 3, 0))
    case("Substr", one("broadcast"), n(1, 2, 3), n(2, 3, 9))
    case("Substr", s("hello", "world"), n(2, -2), n(-1, -3))
    case("Substr", s("hello", "world"), n(2, 1), n(-1, -3), unit="UTF8_CHAR")
    case("Substr", s("naïve", "日本語"), n(1, -2), n(2, 1), unit="UTF8_CHAR")
  grid = s(*["%s%d" % (c, i) for c in "abc" for i in range(4)]).reshape(3, 4)
  for axes in ([], [0], [1], [-1], [0, 1], [1, 0]):
    for keep, sep in itertools.product([False, True], ["", "-"]):
      case("ReduceJoin", grid, np.array(axes, np.int32), keep_dims=keep, separator=sep)
  case("ReduceJoin", grid.reshape(2, 3, 2), i32(2, 0), separator="+")
  case("ReduceJoin", grid[:0], i32(0))
  case("ReduceJoin", grid, np.int32(1))
  long = s(*["x" * n for n in (0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 192, 193, 300)])
  mixed = s(*[("The quick brown fox %d jumps over the lazy dog; " % i * 8)[:i * 13] for i in range(24)], b"\xff\xfe\x80" * 7)
  for n in (1, 7, 1000, (1 << 63) - 1):
    for x in (long, mixed):
      case("StringToHashBucket", x, num_buckets=n)
      case("StringToHashBucketFast", x, num_buckets=n)
      case("StringToHashBucketStrong", x, num_buckets=n, key=[1231, 12345678901234])
  for t, index in itertools.product(types("SparseToDense"), types("SparseToDense", "Tindices")):
    value = (lambda *v: s(*["v%d" % x for x in v])) if t == "string" else (lambda *v: np.array(v).astype(tf.as_dtype(t).as_numpy_dtype))
    at = lambda *v: np.array(v, index)
    fill = one("-") if t == "string" else value(1)[0]
    case("SparseToDense", at([0, 1], [1, 2], [2, 0]), at(3, 4), value(4, 5, 6), fill)
    case("SparseToDense", at(1, 3), at(5), value(4, 5), fill)
    case("SparseToDense", np.array(2, index), at(5), value(4)[0] if t != "string" else one("v"), fill)
    case("SparseToDense", at([2, 0], [0, 1], [1, 0]), at(3, 2), value(4, 5, 6), fill, validate_indices=False)
    case("SparseToDense", at([0, 0], [1, 1]), at(2, 2), value(4)[0] if t != "string" else one("v"), fill)
    case("SparseToDense", np.zeros((0, 2), index), at(2, 2), value(), fill)
  for t in ("float32", "int64", "string", "bool", "float16", "bfloat16", "complex64", "uint8"):
    x = s("a", "", "c\0d") if t == "string" else np.array([[0, 1], [1, 3]]).astype(tf.as_dtype(t).as_numpy_dtype)
    case("ParseTensor", one(tf.io.serialize_tensor(tf.constant(x)).numpy()), out_type=Type(t))
  case("ParseTensor", one(tf.make_tensor_proto([2.5], shape=[3, 2]).SerializeToString()), out_type=Type("float32"))


def varint(n):
  n &= (1 << 64) - 1
  out = b""
  while n >= 128:
    out, n = out + bytes([n & 127 | 128]), n >> 7
  return out + bytes([n])


def field(number, data):
  return varint(number << 3 | 2) + varint(len(data)) + data


UNSET = (5, 13, 14)  # row splits of one SequenceExample, which TensorFlow does not write
NO_TEXTS = object()  # a list of texts, without any


def feature(value, packed=True):
  if value is NO_TEXTS:
    return field(1, b"")
  if value and isinstance(value[0], (bytes, str)):
    return field(1, b"".join(field(1, v if isinstance(v, bytes) else v.encode()) for v in value))
  if value and isinstance(value[0], float):
    numbers = [struct.pack("<f", v) for v in value]
    return field(2, field(1, b"".join(numbers)) if packed else b"".join(b"\x0d" + n for n in numbers))
  numbers = [varint(v) for v in value]
  return field(3, field(1, b"".join(numbers)) if packed else b"".join(b"\x08" + n for n in numbers))


def features(f, packed=True):
  return b"".join(field(1, field(1, k.encode()) + field(2, feature(v, packed))) for k, v in f)


def example(packed=True, **f):
  return field(1, features(f.items(), packed))


def sequence(context, packed=True, **lists):
  steps = lambda v: b"".join(field(1, feature(x, packed)) for x in v)
  return field(1, features(context.items(), packed)) + field(2, b"".join(field(1, field(1, k.encode()) + field(2, steps(v))) for k, v in lists.items()))


NONE = np.zeros((0,), dtype=object)


def keys(*k):
  return [one(x) for x in k]


def examples():
  f32, int64, text = Type("float32"), Type("int64"), Type("string")
  rows = [example(age=[3], w=[0.5, -1.5], tags=["a", "b"], n=[1, -2, 1 << 40]),
          example(w=[2.5, 3.5], tags=NO_TEXTS, age=[-7], other=[1.0]),
          example(packed=False, age=[12], w=[1.25, 0.0], tags=["c"], n=[5]),
          field(1, features([("age", [1]), ("age", [2]), ("w", [9.0, 8.0])])) + field(7, b"unknown")]
  zero = np.zeros(0, np.int64)
  none32, none = np.zeros((0,), np.float32), np.zeros((0,), dtype=object)
  for batch in (rows, rows[:1], []):
    case("ParseExample", s(*batch) if batch else NONE, NONE, keys("n", "tags", "missing"), keys("age", "w"), [zero, none32],
         sparse_types=[int64, text, f32], dense_shapes=[Shape([]), Shape([2])])
  case("ParseExample", s(*rows), s("r0", "r1", "r2", "r3"), keys("n"), keys("lost", "w", "word"), [np.array(7, np.int64), np.array([[1], [2]], np.float32), s("x", "y")],
       sparse_types=[int64], dense_shapes=[Shape([]), Shape([2, 1]), Shape([2])])
  case("ParseExample", s(*rows), NONE, [], keys("n", "w", "tags"), [np.array([-1], np.int64), np.array([0.25], np.float32), s("pad")],
       sparse_types=[], dense_shapes=[Shape([-1]), Shape([-1, 2]), Shape([-1])])
  for batch in (s(*rows), one(rows[0]), one(rows[1])):
    case("ParseExampleV2", batch, NONE, s("n", "missing"), s("age", "w"), s("tags", "other"), [zero, none32], num_sparse=2, sparse_types=[int64, f32],
         ragged_value_types=[text, f32], ragged_split_types=[int64, Type("int32")], dense_shapes=[Shape([]), Shape([2])])
    case("ParseExampleV2", batch, NONE, none, s("tags", "n"), none, [s("p"), np.array([0], np.int64)], num_sparse=0, sparse_types=[], ragged_value_types=[],
         ragged_split_types=[], dense_shapes=[Shape([-1]), Shape([-1])])
  for r in rows:
    case("ParseSingleExample", one(r), [np.array([5], np.int64), np.array([0.5, 0.5], np.float32)], num_sparse=2, sparse_keys=["n", "tags"], dense_keys=["age", "w"],
         sparse_types=[int64, text], dense_shapes=[Shape([1]), Shape([2])])
    case("ParseSingleExample", one(r), [np.array([-1], np.int64), s("?")], num_sparse=0, sparse_keys=[], dense_keys=["n", "tags"], sparse_types=[],
         dense_shapes=[Shape([-1]), Shape([-1])])


def sequences():
  f32, int64, text = Type("float32"), Type("int64"), Type("string")
  rows = [sequence(dict(id=[4], tags=["x", "y"]), steps=[[1.0, 2.0], [3.0, 4.0]], ids=[[1, 2], [], [3]], words=[["a"], ["b", "c"]]),
          sequence(dict(id=[5], n=[1, 2]), packed=False, steps=[[5.0, 6.0]], ids=[[9]]),
          sequence(dict(id=[6]), steps=[], words=[NO_TEXTS, ["d"]]),
          sequence(dict(id=[7], extra=[1.0]), steps=[[7.0, 8.0], [9.0, 10.0], [11.0, 12.0]])]
  zero = np.zeros(0, np.int64)
  attrs = dict(context_sparse_types=[text], feature_list_sparse_types=[int64, text], feature_list_dense_types=[f32], context_dense_shapes=[Shape([])],
               feature_list_dense_shapes=[Shape([2])])
  for batch in (rows, rows[:1], rows[1:3]):
    case("ParseSequenceExample", s(*batch), NONE, [zero], feature_list_dense_missing_assumed_empty=["steps"], context_sparse_keys=["tags"], context_dense_keys=["id"],
         feature_list_sparse_keys=["ids", "words"], feature_list_dense_keys=["steps"], Ncontext_sparse=1, Ncontext_dense=1, Nfeature_list_sparse=2,
         Nfeature_list_dense=1, **attrs)
    case("ParseSequenceExample", s(*batch), NONE, [np.array(3, np.int64)], feature_list_dense_missing_assumed_empty=["gone"], context_sparse_keys=["tags"],
         context_dense_keys=["lost"], feature_list_sparse_keys=["ids", "words"], feature_list_dense_keys=["gone"], Ncontext_sparse=1,
         Ncontext_dense=1, Nfeature_list_sparse=2, Nfeature_list_dense=1, **attrs)
  for batch in (s(*rows), one(rows[0]), one(rows[2])):
    case("ParseSequenceExampleV2", batch, NONE, s("tags"), s("id"), s("n"), s("ids"), s("steps"), s("words", "more"), np.array([True]), [zero], Ncontext_sparse=1,
         context_sparse_types=[text], context_ragged_value_types=[int64], context_ragged_split_types=[int64], context_dense_shapes=[Shape([])],
         Nfeature_list_sparse=1, Nfeature_list_dense=1, feature_list_dense_types=[f32], feature_list_sparse_types=[int64], feature_list_ragged_value_types=[text, int64],
         feature_list_ragged_split_types=[Type("int32"), int64], feature_list_dense_shapes=[Shape([2])], unset=() if batch.shape else UNSET)
  for r in rows:
    case("ParseSingleSequenceExample", one(r), s("steps"), keys("tags"), keys("id"), keys("ids", "words"), keys("steps"), [zero], one("name"), **attrs)
