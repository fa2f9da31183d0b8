"""Samples of programs that stand side by side and are asked in turn, and the rows of the table that come of them."""
import json
import select
import statistics
import subprocess
import time
from dataclasses import dataclass, field

ROUNDS = 7


class Failed(Exception):
    """A program could not start or gave up; the text is one line."""


class Program:
    """A program of serve.h's kind: prints a head, then one number for each line that it gets, then perhaps a tail."""

    def __init__(self, command, env=None, patience=300):
        self.command, self.patience = [str(c) for c in command], patience
        try:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        except OSError as e:
            raise Failed("%s does not start: %s" % (self.command[0], e.strerror))
        self.buffer = b""
        try:
            self.head = json.loads(self._line())
        except ValueError:
            raise self._gave_up("its first line is not JSON")

    def _gave_up(self, what):
        self.process.kill()
        errors = self.process.stderr.read().decode(errors="replace").strip().splitlines()
        return Failed("%s: %s" % (self.command[0].rsplit("/", 1)[-1], errors[-1][:300] if errors else what))

    def _line(self):
        end = time.monotonic() + self.patience
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise self._gave_up("no answer within %d s" % self.patience)
            piece = self.process.stdout.read1(65536)
            if not piece:
                raise self._gave_up("it ended with %s" % self.process.wait())
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()

    def sample(self):
        self.ask()
        return self.answer()

    def ask(self):
        try:
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()
        except OSError:
            raise self._gave_up("it went away")

    def answer(self):
        return float(self._line())

    def close(self):
        """Ends it; what it says last, if that is JSON."""
        try:
            self.process.stdin.close()
            self.process.stdin = None
            out, _ = self.process.communicate(timeout=60)
            lines = (self.buffer + out).decode(errors="replace").strip().splitlines()
            return json.loads(lines[-1]) if lines else {}
        except (ValueError, OSError, subprocess.TimeoutExpired):
            return {}
        finally:
            self.process.kill()
            self.process.wait()


class Fleet:
    """Programs that are asked at the same time; a sample is the sum of theirs. `behind` is what they need, and is not asked."""

    def __init__(self, behind, commands, **options):
        self.behind, self.programs = [], []
        try:
            for command in behind:
                self.behind.append(Program(command, **options))
            for command in commands:
                self.programs.append(Program(command, **options))
        except Failed:
            self.kill()
            raise
        self.head, self.process = self.programs[0].head, self

    def sample(self):
        for program in self.programs:
            program.ask()
        return sum(program.answer() for program in self.programs)

    def close(self):
        tails = [program.close() for program in self.programs + self.behind]
        return tails[0]

    def kill(self):
        for program in self.programs + self.behind:
            program.process.kill()
            program.process.wait()


class WholeRuns:
    """A command that runs anew for each sample: `command` makes it, and `number` reads the figure from what it prints; None when there is none."""

    def __init__(self, command, number, patience=300):
        self.command, self.number, self.patience = command, number, patience
        self.head, self.process = {}, self

    def sample(self):
        command = [str(c) for c in self.command()]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=self.patience)
        except (OSError, subprocess.TimeoutExpired) as e:
            raise Failed("%s: %s" % (command[0], e))
        try:
            value = self.number(done.stdout) if done.returncode == 0 else None
        except (ValueError, KeyError, TypeError) as e:
            raise Failed("%s: what it prints is not understood: %s" % (command[0].rsplit("/", 1)[-1], e))
        if value is None:
            raise Failed("%s: %s" % (command[0].rsplit("/", 1)[-1], (done.stderr.strip().splitlines() or ["it prints no figure"])[-1][:300]))
        return value

    def close(self):
        return {}

    def kill(self):
        pass


@dataclass
class Series:
    """What one side measured, in the row's unit."""
    samples: list

    @property
    def median(self):
        return statistics.median(self.samples)

    def scaled(self, factor):
        return Series([s * factor for s in self.samples])

    def inverted(self, factor):
        return Series([factor / s for s in self.samples])


@dataclass
class Row:
    group: str
    measure: str
    unit: str
    ours: Series
    rivals: dict = field(default_factory=dict)  # name -> Series
    ratio: float = None     # what the goal is about
    of: str = ""            # what the ratio is to; "itself": the goal is about our own figure
    goal: tuple = None      # ("<=", 0.2)
    note: str = ""
    measured: str = ""      # commit, time and load

    @property
    def met(self):
        value = self.ours.median if self.of == "itself" else self.ratio
        if self.goal is None or value is None:
            return None
        return value <= self.goal[1] if self.goal[0] == "<=" else value >= self.goal[1]

    def against(self, name, op, limit):
        """The goal is about ours divided by `name`'s; without that rival there is a goal but no ratio."""
        self.goal, self.of = (op, limit), name
        if name in self.rivals:
            self.ratio = self.ours.median / self.rivals[name].median
        return self

    def against_best(self, op, limit, best=max):
        self.goal, self.of = (op, limit), "best rival"
        if self.rivals:
            self.ratio = self.ours.median / best(s.median for s in self.rivals.values())
        return self

    def below(self, limit):
        self.goal, self.of = ("<=", limit), "itself"
        return self

    def relative(self, ratio, of, op, limit):
        self.ratio, self.of, self.goal = ratio, of, (op, limit)
        return self


def settle(programs):
    """Threads of other systems wait for more work without sleeping, up to 0.2 s: not beside whoever comes next."""
    if len(programs) > 1:
        time.sleep(0.25)


def alternate(programs, rounds=ROUNDS, may_fail=(), failed=None):
    """One warm-up sample of each, then `rounds` of each in turn. programs: name -> Program; the result: name -> Series.

    One of `may_fail` that fails has no series, and the others go on; `failed` is called with the Failed.
    """
    samples = {name: [] for name in programs}
    for i in range(rounds + 1):
        settle(samples)
        for name in list(samples):
            try:
                value = programs[name].sample()
            except Failed as e:
                if name not in may_fail:
                    raise
                failed(e)
                programs[name].process.kill()
                del samples[name]
                continue
            if i > 0:
                samples[name].append(value)
    return {name: Series(s) for name, s in samples.items()}
