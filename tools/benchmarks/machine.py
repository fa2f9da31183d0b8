"""What the figures were measured on and with: machine, versions, our build, and the rivals of a virtual environment."""
import glob
import os
import platform
import re
import shutil
import subprocess


def output(command, cwd=None):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=cwd).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def processor():
    try:
        with open("/proc/cpuinfo") as f:
            return re.search(r"model name\s*: (.*)", f.read()).group(1)
    except (OSError, AttributeError):
        return platform.machine()


def load():
    return os.getloadavg()[0]


class Rivals:
    """TensorFlow and PyTorch in a virtual environment. `missing` has a line for each thing that is not there."""

    def __init__(self, venv, root, scratch):
        self.venv, self.root, self.scratch = venv, root, scratch
        self.missing, self.steps_program = [], None
        self.python = os.path.join(venv, "bin", "python") if venv else None
        self.tensorflow = self.torch = None  # versions
        if venv is None:
            self.missing.append("no rivals: give a virtual environment with tensorflow and torch by --rivals")
            return
        if not os.access(self.python, os.X_OK):
            self.missing.append("no rivals: %s is no virtual environment (there is no bin/python)" % venv)
            return
        for name in ("tensorflow", "torch"):
            setattr(self, name, self.version(name))
            if getattr(self, name) is None:
                self.missing.append("no %s in %s" % (name, venv))
        if self.tensorflow:
            self._compile()

    def version(self, package):
        """None when it is not there."""
        found = glob.glob(os.path.join(self.venv, "lib", "python3*", "site-packages", package + "*", "METADATA"))
        for name in sorted(found):
            folder = os.path.basename(os.path.dirname(name))
            match = re.fullmatch(re.escape(package) + r"(?:_cpu|_intel)?-(\d[^-]*)\.dist-info", folder)
            if match and output([self.python, "-c", "import importlib.util as u; print(u.find_spec(%r) is not None)" % package]) == "True":
                return match.group(1)
        return None

    def _compile(self):
        """The program that drives TensorFlow's C API."""
        folders = glob.glob(os.path.join(self.venv, "lib", "python3*", "site-packages", "tensorflow", "include"))
        compiler = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++")
        if not folders or not os.path.exists(os.path.join(folders[0], "tensorflow", "c", "c_api.h")):
            self.missing.append("no C headers of TensorFlow in %s: no figures of it for single graphs" % self.venv)
            return
        if compiler is None:
            self.missing.append("no C++ compiler: no figures of TensorFlow for single graphs")
            return
        package = os.path.dirname(folders[0])
        source = os.path.join(self.root, "tools", "benchmarks", "rivals", "tensorflow_steps.cc")
        program = os.path.join(self.scratch, "tensorflow_steps-" + self.tensorflow)
        if not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(source):
            done = subprocess.run(
                [compiler, "-O2", "-std=c++17", "-I" + self.root, source, "-I" + folders[0], "-L" + package,
                 "-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2", "-Wl,-rpath," + package, "-o", program], capture_output=True, text=True)
            if done.returncode != 0:
                line = next((e for e in done.stderr.splitlines() if "error" in e or "cannot find" in e), done.stderr.strip()[-200:])
                self.missing.append("the program for TensorFlow's C API does not compile (%s): no figures of it for single graphs" % line)
                return
        self.steps_program = program


def moment(root):
    """Which Troupe, when, and how busy the machine was."""
    changed = " with changes" if output(["git", "status", "--porcelain", "--untracked-files=no"], root) else ""
    return "at %s%s, %s, load %.1f" % (output(["git", "rev-parse", "--short", "HEAD"], root) or "?", changed, output(["date", "-u", "+%Y-%m-%d %H:%M UTC"]), load())


def describe(root, build, rivals):
    """(key, text) pairs for the foot of the table."""
    cache = {}
    try:
        with open(os.path.join(build, "CMakeCache.txt")) as f:
            for line in f:
                match = re.match(r"(\w+):\w+=(.*)", line)
                if match:
                    cache[match.group(1)] = match.group(2)
    except OSError:
        pass
    compiler = output([cache.get("CMAKE_CXX_COMPILER", "c++"), "--version"]).splitlines()
    with open("/proc/meminfo") as f:
        memory = int(re.search(r"MemTotal:\s+(\d+)", f.read()).group(1)) / 1048576
    return [
        ("machine", "%s, %d cores, %.0f GB, Linux %s" % (processor(), os.cpu_count(), memory, platform.release())),
        ("compiler", "%s, %s %s" % (compiler[0] if compiler else "?", cache.get("CMAKE_BUILD_TYPE", "?"), cache.get("CMAKE_CXX_FLAGS_RELEASE", ""))),
        ("TensorFlow", rivals.tensorflow or "-"),
        ("PyTorch", rivals.torch or "-"),
        *((name, rivals.version(name) or "-") for name in ("onnxruntime", "openvino") if rivals.python),
        ("valgrind", output(["valgrind", "--version"]) or "-"),
    ]
