"""Makes a table whose blocks Snappy compressed, as older writers made them, of one that has plain blocks.

  python tests/checkpoint/record_snappy.py PLAIN TABLE      needs the package cramjam

The compression is that of the Rust implementation of Snappy; where a block does not become shorter, it stays
plain.
"""
import struct
import sys

import cramjam


def crc32c(data):
  crc = 0xffffffff
  for byte in data:
    crc ^= byte
    for _ in range(8):
      crc = (crc >> 1) ^ (0x82f63b78 if crc & 1 else 0)
  return crc ^ 0xffffffff


def masked(data):
  crc = crc32c(data)
  return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def varint(data, at):
  value = shift = 0
  while True:
    byte = data[at]
    at += 1
    value |= (byte & 127) << shift
    shift += 7
    if byte < 128:
      return value, at


def put_varint(value):
  out = b""
  while value >= 128:
    out += bytes([value & 127 | 128])
    value >>= 7
  return out + bytes([value])


def entries(block):
  restarts = struct.unpack("<I", block[-4:])[0]
  end, at, key = len(block) - 4 - 4 * restarts, 0, b""
  while at < end:
    shared, at = varint(block, at)
    unshared, at = varint(block, at)
    length, at = varint(block, at)
    key = key[:shared] + block[at:at + unshared]
    at += unshared
    yield key, block[at:at + length]
    at += length


def plain_block(pairs):
  out, restarts = b"", []
  for key, value in pairs:
    restarts.append(len(out))
    out += b"\0" + put_varint(len(key)) + put_varint(len(value)) + key + value
  restarts = restarts or [0]
  return out + b"".join(struct.pack("<I", r) for r in restarts) + struct.pack("<I", len(restarts))


source = open(sys.argv[1], "rb").read()
footer = source[-48:]
_, at = varint(footer, 0)
_, at = varint(footer, at)
index_at, at = varint(footer, at)
index_size, at = varint(footer, at)
out = b""


def put(block):
  global out
  small = bytes(cramjam.snappy.compress_raw(block))
  data, kind = (small, 1) if len(small) < len(block) else (block, 0)
  handle = put_varint(len(out)) + put_varint(len(data))
  data += bytes([kind])
  out += data + struct.pack("<I", masked(data))
  return handle


index = []
for key, handle in entries(source[index_at:index_at + index_size]):
  begin, at = varint(handle, 0)
  size, _ = varint(handle, at)
  pairs = list(entries(source[begin:begin + size]))
  # Several blocks, so that more is compressed than one.
  for i in range(0, len(pairs), 8):
    index.append((pairs[i:i + 8][-1][0], put(plain_block(pairs[i:i + 8]))))
meta = put(plain_block([]))
where = put(plain_block(index))
out += (meta + where).ljust(40, b"\0") + struct.pack("<Q", 0xdb4775248b80fb57)
open(sys.argv[2], "wb").write(out)
