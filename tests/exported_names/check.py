#!/usr/bin/env python3
"""Compares the names that the shared library shows with the list names.txt.

  check.py LIBRARY BUILD            fails with the names that differ, and with those that no public header has
  check.py LIBRARY BUILD --write    writes the list instead

BUILD is the build folder, which holds the generated public headers. A line of the list is a function
or a variable of namespace troupe, or a class with virtual functions, without parameters and template
arguments; constructors and overloads are one line. Not in the list, by rule:
  - troupe::proto, which is generated from the schemas in proto/ (their headers cannot be marked);
  - troupe::ops, one function an op: each must be in the generated troupe/ops.h;
  - inline functions and templates (weak symbols): every program compiles its own. They must be of a
    public header, as all others;
  - what is not of namespace troupe: templates of the standard library and of Protocol Buffers, which
    their headers show.
"""
import glob
import os
import re
import subprocess
import sys

SPECIAL = re.compile(r"^(vtable for|VTT for|typeinfo for|typeinfo name for|guard variable for|non-virtual thunk to|virtual thunk to|"
                     r"construction vtable for|reference temporary #\d+ for|TLS (?:init|wrapper) function for) ")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "names.txt")


def without_arguments(name):
    """`a<b<c>>::d` as `a::d`; operators keep their signs."""
    name = re.sub(r"operator(<=>|<<=?|>>=?|->\*?|<=?|>=?)", lambda m: "operator" + m.group(1).replace("<", "\1").replace(">", "\2"), name)
    while True:
        shorter = re.sub(r"<[^<>]*>", "", name)
        if shorter == name:
            return name.replace("\1", "<").replace("\2", ">").replace("[abi:cxx11]", "")
        name = shorter


def names_of(library):
    """Pairs (name, whether it is weak) of what the library defines in namespace troupe, and what no rule fits."""
    listed = subprocess.check_output(["nm", "-D", "--defined-only", "--format=posix", library], text=True)
    symbols = [line.split()[:2] for line in listed.splitlines()]
    demangled = subprocess.run(["c++filt", "-p"], input="\n".join(s for s, _ in symbols), text=True, check=True, capture_output=True).stdout
    for (symbol, kind), name in zip(symbols, demangled.splitlines(), strict=True):
        special = SPECIAL.match(name)
        name = SPECIAL.sub("", name)
        # A template function's name has its type in front of it.
        plain = without_arguments(re.sub(r"\(anonymous namespace\)", "{anonymous}", name)).split(" ")
        plain = next((part for part in plain if part.startswith("troupe::")), plain[-1])
        # A vtable is weak in every library; the class is shown all the same.
        weak = kind in "WVu" and not (special and special.group(1) == "vtable for")
        yield symbol, plain, weak


def main():
    library, build = sys.argv[1:3]
    headers = glob.glob(os.path.join(ROOT, "include/troupe/**/*.h"), recursive=True) + [os.path.join(build, "gen/troupe/ops.h")]
    words = set()
    for header in headers:
        with open(header, encoding="utf-8") as f:
            text = re.sub(r"//[^\n]*", "", f.read())
        words.update(re.findall(r"\w+", text))
    shown, unknown = set(), set()
    for symbol, name, weak in names_of(library):
        if not name.startswith("troupe::") or name.startswith("troupe::proto::"):
            continue
        # The parts up to a lambda or a local variable, which are parts of what they stand in.
        parts = re.split(r"::", re.split(r"::\{|\(", name)[0])[1:]
        parts = [p for p in parts if p and not p.startswith(("operator", "~"))]
        if any(p not in words for p in parts):
            unknown.add(f"{name} ({symbol})")
        if not weak and not name.startswith("troupe::ops::"):
            shown.add(name)
    lines = sorted(shown)
    if sys.argv[3:] == ["--write"]:
        with open(LIST, "w", encoding="utf-8") as f:
            f.write("".join(line + "\n" for line in lines))
        return 0
    with open(LIST, encoding="utf-8") as f:
        expected = f.read().split("\n")[:-1]
    for name in sorted(set(expected) - shown):
        print(f"not shown any more: {name}")
    for name in sorted(shown - set(expected)):
        print(f"shown, but not in the list: {name}")
    for name in sorted(unknown):
        print(f"shown, but in no public header: {name}")
    if set(expected) != shown:
        print("tests/exported_names/check.py LIBRARY BUILD --write writes the list")
    if set(expected) == shown and not unknown:
        print(f"{len(shown)} names are shown as listed")
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
