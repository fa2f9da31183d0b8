"""Runs cases with Troupe's differential_runner and collects what is wrong."""

import dataclasses
import os
import subprocess
import tempfile


@dataclasses.dataclass
class Wrong:
    case: str
    mode: str
    what: str


class Runner:
    def __init__(self, program, seconds_a_case=240):
        self.program = program
        self.seconds = seconds_a_case

    def run(self, cases, modes=()):
        """The differences of all cases; a crash or a hang is one, too, and the cases behind it are run
        all the same."""
        wrong, rest = [], list(cases)
        while rest:
            with tempfile.NamedTemporaryFile(suffix=".cases") as file:
                for case in rest:
                    file.write(case.text().encode())
                file.flush()
                begun, ended, end, found = self._once(file.name, modes, len(rest))
            wrong += found
            if ended:
                return wrong
            if not begun:
                raise RuntimeError("%s: %s" % (self.program, end))
            wrong.append(Wrong(begun[-1], "", end))
            rest = rest[len(begun) :]
        return wrong

    def _once(self, path, modes, count):
        process = subprocess.Popen(
            [self.program, path, *modes], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            out, err = process.communicate(timeout=self.seconds + 5 * count)
            end = "the program ended with %d: %s" % (process.returncode, err.strip()[-300:])
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
            end = "it does not end"
        begun, wrong, ended = [], [], False
        for line in out.splitlines():
            if line.startswith("case "):
                begun.append(line[5:])
            elif line.startswith("wrong\t"):
                wrong.append(Wrong(*line.split("\t", 3)[1:]))
            ended |= line == "done"
        return begun, ended, end, wrong


def known_ops(troupe):
    done = subprocess.run([troupe, "ops", "--names"], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def programs(build):
    """(differential_runner, troupe) of a build folder; an error says what to build."""
    paths = [os.path.join(build, "bin", name) for name in ("differential_runner", "troupe")]
    for path in paths:
        if not os.path.exists(path):
            raise SystemExit(
                "there is no %s: build it with  ninja -C %s differential_runner troupe_program" % (path, build)
            )
    return paths
