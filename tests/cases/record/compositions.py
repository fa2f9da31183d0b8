"""Records what TensorFlow makes of compositions, in tests/cases/compositions.

  TF_ENABLE_ONEDNN_OPTS=0 TF_CPP_MIN_LOG_LEVEL=3 python tests/cases/record/compositions.py [BUILD_DIR]

The cases by hand of tools/compositions/contracts.py, and small ones of every family. BUILD_DIR
(build/release) has the program troupe, which tells what ops there are; the values are
TensorFlow's alone. Deterministic: the same TensorFlow gives the same cases.
"""

import os
import sys

sys.dont_write_bytecode = True
import text  # noqa: E402

sys.path.insert(0, os.path.join(text.ROOT, "tools", "compositions"))
import contracts  # noqa: E402
import families  # noqa: E402
import oracle  # noqa: E402
from generator import prepare_tensorflow  # noqa: E402
from runner import known_ops  # noqa: E402

# How many cases of a family there are, and of how many nodes (None: as the family likes).
WANTED = [("stateless", 70, 12), ("control", 60, 8), ("gradient", 50, 5), ("placed", 60, 8), ("training", 30, None)]
LARGEST, A_FILE = 86500, 500000  # characters


def random_cases(family, count, nodes, ops):
    seed, made = 1000, 0
    while made < count:
        seed += 1
        try:
            case = families.make(family, seed, nodes)
            if {n.op for n in case.definition().node} - ops:
                continue
            lines = oracle.fill(case).text()
        except oracle.NoCase:
            continue
        if len(lines) <= LARGEST:
            made += 1
            yield lines


def write(family, cases):
    """In files of a size that is still read with pleasure: FAMILY.txt, FAMILY_2.txt, ..."""
    files, room = [], 0
    for lines in cases:
        if len(lines) > room:
            files.append([])
            room = A_FILE
        files[-1].append(lines.rstrip("\n"))
        room -= len(lines)
    for i, lines in enumerate(files):
        text.write("compositions/%s%s.txt" % (family, "_%d" % (i + 1) if i else ""), "compositions.py", lines)
    print("%s: %d cases" % (family, sum(map(len, files))))


def main():
    prepare_tensorflow()
    build = sys.argv[1] if len(sys.argv) > 1 else os.path.join(text.ROOT, "build", "release")
    write("contract", (oracle.fill(contracts.make(name)).text() for name in contracts.CASES))
    ops = known_ops(os.path.join(build, "bin", "troupe"))
    for family, count, nodes in WANTED:
        write(family, random_cases(family, count, nodes, ops))


if __name__ == "__main__":
    main()
