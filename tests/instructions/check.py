#!/usr/bin/env python3
"""Counts the instructions of steps under callgrind and compares them with limits.txt.

    check.py COUNT_INSTRUCTIONS LIMITS [--profile] [CASE...]

With --profile it also prints, for each case, which functions the instructions of a node, an iteration or a step are spent in: with what they call, and alone.

The unit is a node of the bare loop (consumers in CSR form, one counter a node), counted in the same run: what a compiler or a machine does to both goes
out of the ratio. Ends with 77, "skipped", where valgrind is missing or cannot run the program.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

SKIP = 77


def print_profile(case, dump, units):
    for what in ("with what it calls", "alone"):
        inclusive = "yes" if what != "alone" else "no"
        text = subprocess.run(["callgrind_annotate", "--threshold=100", "--inclusive=" + inclusive, dump], capture_output=True, text=True, errors="replace").stdout
        print("%s: instructions by function, %s" % (case, what))
        shown = 0
        for line in text.splitlines():
            match = re.match(r"\s*([\d,]+) \([^)]*\)\s+(?:\S*?:)?(\D.*?)(?: \[.*)?$", line)
            if match and "PROGRAM" not in line and "std::_Function_handler" not in line and shown < 40:
                value = int(match.group(1).replace(",", "")) / units
                if value >= 1:
                    print("  %9.1f  %s" % (value, re.sub(r"absl::debian\d::", "absl::", match.group(2))[:110]))
                    shown += 1


def count(program, cases, folder, profile):
    """Instructions per unit (node, iteration, step) by case, of the program's first thread."""
    # valgrind 3.19 does not know AVX-512: both our kernels and oneDNN's are told to do without.
    env = dict(os.environ, TROUPE_ISA="v3", ONEDNN_MAX_CPU_ISA="AVX2")
    out = os.path.join(folder, "out")
    command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", "--callgrind-out-file=" + out, program] + cases
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        print("skipped: valgrind could not run the program:" if "valgrind" in reason.lower() else "failed:", reason)
        sys.exit(SKIP if "valgrind" in reason.lower() else 1)
    instructions = {}
    for name in glob.glob(out + "*-01"):
        with open(name, errors="replace") as f:
            text = f.read()
        trigger = re.search(r"^desc: Trigger: Client Request: (\w+) (\d+)$", text, re.M)
        total = re.search(r"^totals: (\d+)", text, re.M)
        if trigger and total:
            instructions[trigger.group(1), int(trigger.group(2))] = int(total.group(1))
    result = {}
    for line in done.stdout.splitlines():
        case, steps, units = line.split()
        steps, units = int(steps), int(units)
        if profile:
            number = next(n for n in glob.glob(out + "*-01") if ("%s %d" % (case, 2 * steps)).encode() in open(n, "rb").read(1000))
            print_profile(case, number, 2 * steps * units)
        result[case] = (instructions[case, 2 * steps] - instructions[case, steps]) / steps / units
    return result


def read_limits(path):
    limits = {}
    with open(path) as f:
        for line in f:
            line = line.split("#")[0].split()
            if line:
                limits[line[0]] = float(line[1])
    return limits


def main():
    arguments = sys.argv[1:]
    profile = "--profile" in arguments
    arguments = [a for a in arguments if a != "--profile"]
    program, limits_file, cases = arguments[0], arguments[1], arguments[2:]
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed")
        return SKIP
    if cases and "bare_null" not in cases:
        cases = ["bare_null"] + cases
    with tempfile.TemporaryDirectory() as folder:
        counts = count(program, cases, folder, profile)
        limits = read_limits(limits_file)
        # How a step runs follows from what it cost before, in time. On a busy machine that may be another way: the least of some counts is meant.
        for _ in range(4):
            over = [c for c in counts if c in limits and counts[c] > limits[c] * counts["bare_null"]]
            if not over:
                break
            again = count(program, ["bare_null"] + over, tempfile.mkdtemp(dir=folder), False)
            counts.update((c, min(counts[c], again[c])) for c in over)
    bare = counts.pop("bare_null")
    print("bare loop: %.1f instructions a node" % bare)
    failed = []
    for case, value in counts.items():
        ratio = value / bare
        limit = limits.get(case)
        if limit is None:
            failed.append("%s has no limit in %s" % (case, limits_file))
            continue
        print("%-16s %9.1f instructions, %7.2f bare nodes, limit %7.2f" % (case, value, ratio, limit))
        if ratio > limit:
            failed.append("%s takes %.2f bare nodes, more than the %.2f of %s" % (case, ratio, limit, os.path.basename(limits_file)))
        elif ratio < 0.8 * limit:
            print("  it got faster: lower its limit to %.2f, so that this stays" % (1.1 * ratio))
    for line in failed:
        print("FAILED:", line)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
