#!/usr/bin/env python3
"""Whether tools/check_edges finds what it is there to find, in small trees that are made for it.

    check.py CHECK_EDGES
"""
import os
import subprocess
import sys
import tempfile

TABLE = """// A machine.
//
//   state    request      action                          next
//   open     put          1 keep it                       open
//   open     close        2 answer, and take no more      closed
//   closed   put          3 CANCELLED                     closed
//
"""
GOOD = "// Tests of the %s, tests/box/box_test.cc:\n//   1, 2  %s_1_and_2_keep\n//   3     %s_3_refuses\n"
TEST = "BOOST_AUTO_TEST_CASE(%s_1_and_2_keep) {}\nBOOST_AUTO_TEST_CASE(%s_3_refuses) {}\n"


def run(folder, header, test):
  """Status and output of the checker for a tree with this header and this test."""
  with tempfile.TemporaryDirectory() as root:
    for path, text in [(folder + "/box.h", header), ("tests/box/box_test.cc", test)]:
      os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
      with open(os.path.join(root, path), "w") as f:
        f.write(text)
    for top in ["actors", "kernels"]:
      os.makedirs(os.path.join(root, top), exist_ok=True)
    done = subprocess.run([sys.executable, sys.argv[1], root], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def main():
  failed = []

  def expect(what, got, status, text):
    if got[0] != status or text not in got[1]:
      failed.append("%s: %d and %r, not %d and %r" % (what, got[0], got[1], status, text))

  for folder in ["actors", "kernels/queue", "kernels/accumulator"]:
    for one in ["edges", "rows"]:
      block = GOOD % (one, one, one)
      test = TEST % (one, one)
      name = one[:-1]
      expect("a whole table", run(folder, TABLE + block, test), 0, "3 edges and rows of 1 tables")
      expect("a test that is not there", run(folder, TABLE + block, test.replace("3_refuses", "3_waits")), 1,
             "has no case %s_3_refuses" % one)
      expect("a file that is not there", run(folder, TABLE + block.replace("box_test", "other_test"), test), 1,
             "there is no tests/box/other_test.cc")
      expect("one without a test", run(folder, TABLE + block[:block.index("//   3")], test), 1, "%s 3 names no test" % name)
      expect("a test of nothing", run(folder, TABLE + block.replace("   3  ", "   3, 4"), test), 1, "there is no %s 4" % name)
    expect("a table without a block", run(folder, TABLE, ""), 1, "its table of 3 edges names no tests")
  for line in failed:
    print(line)
  return 1 if failed else 0


if __name__ == "__main__":
  sys.exit(main())
