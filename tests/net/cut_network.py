#!/usr/bin/env python3
"""Training over a network that is cut, delayed, reordered and healed: in network namespaces.

    cut_network.py BUILD FOLDER [--steps N]

A parameter server and two workers (examples/cluster_mnist) have a namespace each, and in it one end
of a veth pair; the other ends are in a fourth one, where this script is the switch between them. It
cuts a link (ip link set ... down), holds frames back, and lets later ones overtake them: all by
packet sockets, without a module of the kernel's. What docs/cluster.md and
docs/guide/training_on_a_cluster.md say is asserted: who is cut off is noticed within two
heartbeats and 1.5 s, steps that need it end with an error that names its task, and training goes on
after the healing with the losses and the bits of the undisturbed run. The 1.5 s are for a busy
machine, where a process that is not run cannot notice anything; that it is within two heartbeats is
tested by tests/net/membership_test.cc, whose clock is its own.

The namespaces have no names, and live in a namespace of processes that ends with this script,
however it ends: nothing is left behind. Exit status: 0; 1 when something differs; 77, with a line,
where namespaces, veth or packet sockets are not to be had, or the build has no TLS.
"""
import argparse
import array
import collections
import fcntl
import heapq
import json
import os
import queue
import random
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
BEAT = 0.5  # seconds between heartbeats
# For what a busy machine adds: a process that is not run cannot notice anything, and after that it
# gives others as much time more (net/membership.h).
SLACK = 1.5
SKIPPED = 77
PS, CHIEF, OTHER = "ps:0", "worker:0", "worker:1"
NAMES = {name: "/job:%s/replica:0/task:%s" % tuple(name.split(":")) for name in (PS, CHIEF, OTHER)}
ADDRESSES = {PS: "10.99.0.1", CHIEF: "10.99.0.2", OTHER: "10.99.0.3"}


class Failed(Exception):
    pass


class Missing(Exception):
    """What this machine does not have."""


def command(*words, wrong=Failed):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise wrong("%s: %s" % (" ".join(words), (done.stderr or done.stdout).strip()))


def without_offload(device):
    """A veth leaves checksums and pieces to the card that there is none of; a packet socket would see frames without."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for what in (0x17, 0x1F, 0x24, 0x2C):  # ETHTOOL_STXCSUM, STSO, SGSO, SGRO: off
            value = array.array("B", struct.pack("II", what, 0))
            try:
                fcntl.ioctl(s, 0x8946, struct.pack("16sP", device.encode(), value.buffer_info()[0]))  # SIOCETHTOOL
            except OSError as e:
                raise Missing("the offloading of a veth cannot be switched off: %s" % e) from None


class Switch(threading.Thread):
    """Passes frames between the outer ends of the links."""

    def __init__(self, devices):
        super().__init__(daemon=True)
        self.sockets = {}
        for device in devices:
            try:
                s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
                s.bind((device, 3))
            except OSError as e:
                raise Missing("no packet socket: %s" % e) from None
            self.sockets[s] = device
        self.delay, self.late = 0.0, 0.0  # seconds, and the part of the frames that gets up to twice as many besides
        self.passed = self.overtaken = 0
        self.chance = random.Random(1)
        self.ends = {}  # of addresses: at which socket
        self.waiting, self.count, self.last = [], 0, collections.Counter()

    def run(self):
        while True:
            left = max(0, self.waiting[0][0] - time.monotonic()) if self.waiting else 1
            for s in select.select(list(self.sockets), [], [], left)[0]:
                try:
                    frame, at = s.recvfrom(1 << 17)
                except OSError:  # the link is down
                    continue
                if at[2] != socket.PACKET_OUTGOING:
                    self.take(s, frame)
            while self.waiting and self.waiting[0][0] <= time.monotonic():
                _, number, way, frame = heapq.heappop(self.waiting)
                self.overtaken += number < self.last[way]
                self.last[way] = max(self.last[way], number)
                self.passed += 1
                try:
                    way[1].send(frame)
                except OSError:  # that one is down
                    pass

    def take(self, s, frame):
        self.ends[frame[6:12]] = s
        to = self.ends.get(frame[:6])
        for other in [to] if to else [o for o in self.sockets if o is not s]:
            self.count += 1
            due = time.monotonic() + self.delay
            if self.chance.random() < self.late:
                due += self.chance.uniform(0, 2 * self.delay)
            heapq.heappush(self.waiting, (due, self.count, (s, other), frame))


class Network:
    """A namespace for each task, with its end of a link."""

    def __init__(self):
        command("ip", "link", "set", "lo", "up", wrong=Missing)
        self.holders, self.outer = {}, {}
        for number, (name, address) in enumerate(ADDRESSES.items()):
            outer, inner = "outer%d" % number, "inner%d" % number
            command("ip", "link", "add", outer, "type", "veth", "peer", "name", inner, wrong=Missing)
            for device in (outer, inner):
                without_offload(device)
            holder = subprocess.Popen(["unshare", "--net", "sleep", "100000"])
            self.holders[name], self.outer[name] = holder, outer
            here, since = os.readlink("/proc/self/ns/net"), time.monotonic()
            while os.readlink("/proc/%d/ns/net" % holder.pid) == here:
                if time.monotonic() - since > 20 or holder.poll() is not None:
                    raise Missing("no namespace within a namespace")
                time.sleep(0.01)
            command("ip", "link", "set", inner, "netns", str(holder.pid), wrong=Missing)
            for words in (["addr", "add", address + "/24", "dev", inner], ["link", "set", inner, "up"], ["link", "set", "lo", "up"]):
                command(*self.inside(name), "ip", *words, wrong=Missing)
            command("ip", "link", "set", outer, "up", wrong=Missing)
        self.switch = Switch(self.outer.values())
        self.switch.start()

    def inside(self, name):
        return ["nsenter", "--net=/proc/%d/ns/net" % self.holders[name].pid]

    def cut(self, name):
        command("ip", "link", "set", self.outer[name], "down")
        return time.monotonic()

    def heal(self, name):
        command("ip", "link", "set", self.outer[name], "up")


class Run:
    """The processes of one training, and what they have said."""

    def __init__(self, network, build, folder, steps, environment):
        self.folder, self.said, self.processes = folder, queue.Queue(), {}
        self.losses, self.events, self.step, self.ends = {}, [], 0, {}
        os.makedirs(folder)
        cluster = "ps=%s:2222;worker=%s:2222,%s:2222" % tuple(ADDRESSES.values())
        for name in ADDRESSES:
            job, task = name.split(":")
            words = network.inside(name)
            words += [build + "/bin/troupe", "serve", "--job", job, "--stop_within", "20000"] if job == "ps" else [
                build + "/bin/cluster_mnist", "--json", "--steps", str(steps), "--batch", "10", "--save_steps", "50", "--model_dir", folder + "/model",
                "--give_up", "100000"]
            words += ["--cluster", cluster, "--task", task, "--threads", "1", "--heartbeat", str(round(BEAT * 1000))]
            with open(self.log(name), "w") as log:
                self.processes[name] = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
            threading.Thread(target=self.read, args=(name,), daemon=True).start()

    def log(self, name):
        return os.path.join(self.folder, name + ".log")

    def read(self, name):
        for line in self.processes[name].stdout:
            if line.startswith("{"):
                self.said.put((time.monotonic(), name, json.loads(line)))

    def hear(self, done, what, seconds=100):
        """Until done(event of a line) is true: that event's time."""
        by = time.monotonic() + seconds
        while True:
            try:
                at, name, said = self.said.get(timeout=max(0, by - time.monotonic()))
            except queue.Empty:
                raise Failed("%g s without: %s" % (seconds, what)) from None
            self.events.append((at, name, said))
            if name == CHIEF and said["event"] == "step":
                self.step = max(self.step, said["step"])
                self.losses.setdefault(said["step"], set()).add(repr(said["loss"]))
            if said["event"] == "end":
                self.ends[name] = said
            if done(name, said):
                return at

    def until(self, step):
        self.hear(lambda name, said: name == CHIEF and said["event"] == "step" and said["step"] >= step, "step %d" % step)

    def lost(self, who, whom, cut):
        """`who` must tell that it lost `whom`, soon after the cut, in an error that names it."""
        at = self.hear(lambda name, said: name == who and said["event"] == "lost", "%s that has lost %s" % (who, whom))
        why = self.events[-1][2]["why"]
        if NAMES[whom] not in why:
            raise Failed("%s does not say that it lost %s: %s" % (who, whom, why))
        in_time("%s, which lost %s" % (who, whom), at - cut)
        return at - cut

    def begun_again(self, *names):
        waited = set(names)

        def done(name, said):
            if said["event"] == "begin":
                waited.discard(name)
            return not waited

        self.hear(done, "%s that begin again" % ", ".join(names))

    def finish(self):
        self.hear(lambda name, said: len(self.ends) == 2, "the end of both workers")
        for name in (CHIEF, OTHER, PS):
            process = self.processes[name]
            if name == PS:
                process.send_signal(signal.SIGTERM)
            status = process.wait(timeout=60)
            if status != 0:
                raise Failed("%s ended with %d: %s" % (name, status, self.logged(name)[-2000:]))

    def logged(self, name):
        with open(self.log(name)) as f:
            return f.read()

    def losses_so_far(self):
        return [(name, said["why"]) for _, name, said in self.events if said["event"] == "lost"]


def in_time(what, seconds):
    if seconds > 2 * BEAT + SLACK:
        raise Failed("%s: noticed after %.3f s; two heartbeats are %g s, and %g s more are allowed" % (what, seconds, 2 * BEAT, SLACK))


def stay_cut():
    """So long that the silence is not taken for one of a busy host, which would make the others patient (net/membership.h)."""
    time.sleep(4 * BEAT)


def undisturbed(run):
    run.finish()
    if run.losses_so_far():
        raise Failed("something was lost in the undisturbed run: %s" % run.losses_so_far())


def disturbed(run, network, steps):
    # A worker is cut off: it loses the server; the server notes its silence; the chief waits.
    run.until(steps // 5)
    noticed = [run.lost(OTHER, PS, network.cut(OTHER))]
    since = time.monotonic()
    dead = re.compile(re.escape("task %s is taken for dead: it was silent for " % NAMES[OTHER]) + r"(\d+) ms")
    while not dead.search(run.logged(PS)):
        if time.monotonic() - since > 60:
            raise Failed("%s has not noticed that %s is gone: %s" % (PS, OTHER, run.logged(PS)[-2000:]))
        time.sleep(0.02)
    silent = int(dead.search(run.logged(PS)).group(1)) / 1000
    in_time("%s, which lost %s" % (PS, OTHER), silent)
    noticed.append(silent)
    stay_cut()
    network.heal(OTHER)
    run.begun_again(OTHER)
    if any(name == CHIEF for name, _ in run.losses_so_far()):
        raise Failed("the chief has lost something, though only %s was cut off: %s" % (OTHER, run.losses_so_far()))

    # The server is cut off: both workers lose it.
    run.until(steps * 2 // 5)
    cut = network.cut(PS)
    first = run.lost(CHIEF, PS, cut)
    others = [at - cut for at, name, said in run.events if name == OTHER and said["event"] == "lost" and at > cut]
    noticed += [first, others[0] if others else run.lost(OTHER, PS, cut)]
    in_time("%s, which lost %s" % (OTHER, PS), noticed[-1])
    stay_cut()
    network.heal(PS)
    run.begun_again(CHIEF)

    # Late frames in another order are no loss.
    run.until(steps * 3 // 5)
    lost, before = len(run.losses_so_far()), network.switch.overtaken
    network.switch.delay, network.switch.late = 0.01, 0.3
    run.until(run.step + 10)
    network.switch.delay = network.switch.late = 0.0
    overtaken = network.switch.overtaken - before
    if overtaken < 10:
        raise Failed("only %d frames were overtaken" % overtaken)
    if len(run.losses_so_far()) != lost:
        raise Failed("late frames were taken for a loss: %s" % run.losses_so_far()[lost:])
    run.finish()
    begins = [said["from"] for _, name, said in run.events if name == CHIEF and said["event"] == "begin"]
    if begins[0] != "start" or set(begins[1:]) != {"servers"}:
        raise Failed("the chief began from %s, not again from the servers" % begins)
    if run.ends[CHIEF]["lost_updates"] != 0:
        raise Failed("updates were lost: %s" % run.ends[CHIEF])
    return noticed, overtaken


def compare(run, wanted):
    for step, losses in sorted(run.losses.items()):
        if losses != wanted.losses[step]:
            raise Failed("step %d has loss %s, undisturbed %s" % (step, losses, wanted.losses[step]))
    if run.ends[CHIEF]["hash"] != wanted.ends[CHIEF]["hash"]:
        raise Failed("the hash of the variables is %s, undisturbed %s" % (run.ends[CHIEF]["hash"], wanted.ends[CHIEF]["hash"]))


def certificates(build, folder):
    made = subprocess.run([build + "/bin/troupe", "cluster", "certificate", folder], capture_output=True, text=True)
    if "UNIMPLEMENTED" in made.stderr:
        raise Missing("this build has no TLS, which addresses of other hosts need")
    if made.returncode != 0:
        raise Failed(made.stderr)
    files = {"CERTIFICATE": "node.crt", "KEY": "node.key", "CA_FILE": "ca.crt"}
    return dict(os.environ, **{"TROUPE_TLS_" + name: os.path.join(folder, file) for name, file in files.items()})


def drill(args):
    """In the namespaces."""
    shutil.rmtree(args.folder, ignore_errors=True)
    os.makedirs(args.folder)
    environment = certificates(args.build, args.folder + "/tls")
    network = Network()
    wanted = Run(network, args.build, args.folder + "/undisturbed", args.steps, environment)
    undisturbed(wanted)
    run = Run(network, args.build, args.folder + "/disturbed", args.steps, environment)
    noticed, overtaken = disturbed(run, network, args.steps)
    compare(run, wanted)
    print("noticed after %s s, two heartbeats are %g s; %d of %d frames overtaken; hash %s, as undisturbed" %
          (", ".join("%.2f" % n for n in noticed), 2 * BEAT, overtaken, network.switch.passed, run.ends[CHIEF]["hash"]))
    shutil.rmtree(args.folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.build, args.folder = os.path.abspath(args.build), os.path.abspath(args.folder)
    if args.inside:
        try:
            drill(args)
        except Missing as e:
            print("skipped: %s" % e)
            return SKIPPED
        except Failed as e:
            print("failed: %s\n  logs: %s" % (e, args.folder), file=sys.stderr)
            return 1
        return 0
    missing = [tool for tool in ("unshare", "nsenter", "ip") if shutil.which(tool) is None]
    unshare = ["unshare", "--net", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    if not missing:
        tried = subprocess.run(unshare + ["true"], capture_output=True, text=True)
        if tried.returncode != 0:
            missing = [tried.stderr.strip()]
    if missing:
        print("skipped: this machine allows no network namespaces: %s" % ", ".join(missing))
        return SKIPPED
    os.execvp("unshare", unshare + [sys.executable, "-B", os.path.abspath(__file__), args.build, args.folder, "--steps", str(args.steps), "--inside"])


if __name__ == "__main__":
    sys.exit(main())
