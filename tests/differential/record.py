"""Records what TensorFlow makes of compositions, in recorded.gz.

  TF_ENABLE_ONEDNN_OPTS=0 TF_CPP_MIN_LOG_LEVEL=3 python tests/differential/record.py [BUILD_DIR]

The cases by hand of tools/compositions/contracts.py, and small ones of every family. BUILD_DIR
(build/release) has the program troupe, which tells what ops there are; the values are
TensorFlow's alone. Deterministic: the same TensorFlow gives the same cases.
"""

import gzip
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tools", "compositions"))
import contracts  # noqa: E402
import families  # noqa: E402
import oracle  # noqa: E402
from generator import prepare_tensorflow  # noqa: E402
from runner import known_ops  # noqa: E402

# How many cases of a family there are, and of how many nodes (None: as the family likes).
WANTED = [("stateless", 70, 12), ("control", 60, 8), ("gradient", 50, 5), ("placed", 60, 8), ("training", 30, None)]
LARGEST = 60000  # bytes of a case


def random_cases(ops):
    for family, count, nodes in WANTED:
        seed, made = 1000, 0
        while made < count:
            seed += 1
            try:
                case = families.make(family, seed, nodes)
                if {n.op for n in case.definition().node} - ops:
                    continue
                data = oracle.fill(case).bytes()
            except oracle.NoCase:
                continue
            if len(data) <= LARGEST:
                made += 1
                yield data


def main():
    prepare_tensorflow()
    build = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "release")
    data = [oracle.fill(contracts.make(name)).bytes() for name in contracts.CASES]
    data += random_cases(known_ops(os.path.join(build, "bin", "troupe")))
    with open(os.path.join(HERE, "recorded.gz"), "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.write(b"".join(data))
    print("%d cases, %d bytes" % (len(data), sum(map(len, data))))


if __name__ == "__main__":
    main()
