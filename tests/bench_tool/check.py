#!/usr/bin/env python3
"""What tools/bench does when something is missing or breaks, and how it takes samples and judges goals; without a build and without rivals."""
import array
import os
import stat
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "benchmarks"))
import groups  # noqa: E402
import machine  # noqa: E402
import models  # noqa: E402
import networks  # noqa: E402
import numbers_file  # noqa: E402
import ops  # noqa: E402
import report  # noqa: E402
from measure import Failed, Fleet, Program, Row, Series, alternate  # noqa: E402

# Answers with what it is told, and writes down when it was asked.
ECHO = """
import sys
name, values, log = sys.argv[1], sys.argv[2].split(","), sys.argv[3]
print('{"nodes": 3}', flush=True)
for i, _ in enumerate(sys.stdin):
    open(log, "a").write(name)
    if values[i] == "die":
        sys.exit("the " + name + " is broken")
    print(values[i], flush=True)
print('{"peak_bytes": 5}', flush=True)
"""


class Case(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        self.log = os.path.join(self.folder, "log")

    def echo(self, name, values):
        return Program([sys.executable, "-c", ECHO, name, values, self.log])

    def write(self, path, text="", executable=False):
        path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        if executable:
            os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def venv(self):
        """An environment whose interpreter finds every package."""
        self.write("venv/bin/python", "#!/bin/sh\necho True\n", executable=True)
        return os.path.join(self.folder, "venv")

    def rivals(self, venv):
        return machine.Rivals(venv, ROOT, self.folder)


class SamplesTest(Case):
    def test_programs_are_asked_in_turn_and_the_first_sample_is_dropped(self):
        a, b = self.echo("a", "9,1,2,3"), self.echo("b", "9,4,5,6")
        series = alternate({"a": a, "b": b}, rounds=3)
        self.assertEqual(a.close(), {"peak_bytes": 5})
        b.close()
        self.assertEqual(series["a"].samples, [1, 2, 3])
        self.assertEqual(series["b"].median, 5)
        with open(self.log) as f:
            self.assertEqual(f.read(), "abababab")

    def test_a_fleet_is_asked_at_once_and_gives_the_sum(self):
        command = lambda name, values: [sys.executable, "-c", ECHO, name, values, self.log]
        fleet = Fleet([command("server", "7")], [command("a", "9,1,2"), command("b", "9,10,20")])
        self.assertEqual(fleet.head, {"nodes": 3})
        self.assertEqual(alternate({"fleet": fleet}, rounds=2)["fleet"].samples, [11, 22])
        self.assertEqual(fleet.close(), {"peak_bytes": 5})
        with self.assertRaisesRegex(Failed, "no such thing"):
            Fleet([command("server", "7")], [[sys.executable, "-c", "import sys; sys.exit('no such thing')"]])

    def test_a_cluster_has_an_address_for_each_task(self):
        ps, workers = groups.addresses(2).split(";")
        self.assertRegex(ps, r"^ps=127\.0\.0\.1:\d+$")
        self.assertEqual(len(set(workers.split("=")[1].split(",") + [ps.split("=")[1]])), 3)

    def test_a_program_that_cannot_start_says_why(self):
        with self.assertRaisesRegex(Failed, "no such thing"):
            Program([sys.executable, "-c", "import sys; sys.exit('no such thing')"])

        with self.assertRaisesRegex(Failed, "does not start"):
            Program([os.path.join(self.folder, "nothing")])

    def test_a_rival_that_dies_is_left_out_and_the_others_go_on(self):
        missing = []
        ctx = groups.Context(ROOT, self.folder, self.folder, None, True, None, missing)
        result = ctx.side_by_side({"Troupe": lambda: self.echo("Troupe", "9,1,2,3"), "TensorFlow": lambda: self.echo("TensorFlow", "1,die"),
                                   "PyTorch": lambda: self.echo("PyTorch", "9,4,5,6")}, 3)
        self.assertEqual({name: r[0].samples for name, r in result.items()}, {"Troupe": [1, 2, 3], "PyTorch": [4, 5, 6]})
        self.assertEqual(len(missing), 1)
        self.assertIn("the TensorFlow is broken", missing[0])

    def test_ours_that_dies_is_an_error(self):
        ctx = groups.Context(ROOT, self.folder, self.folder, None, True, None, [])
        with self.assertRaisesRegex(Failed, "the Troupe is broken"):
            ctx.side_by_side({"Troupe": lambda: self.echo("Troupe", "die")}, 3)


class RivalsTest(Case):
    def test_none(self):
        self.assertEqual(len(self.rivals(None).missing), 1)

    def test_no_environment(self):
        missing = self.rivals(os.path.join(self.folder, "nothing")).missing
        self.assertEqual(len(missing), 1)
        self.assertIn("no virtual environment", missing[0])

    def test_an_empty_environment(self):
        missing = self.rivals(self.venv()).missing
        self.assertEqual([m.split(" in ")[0] for m in missing], ["no tensorflow", "no torch"])

    def test_tensorflow_without_headers(self):
        self.write("venv/lib/python3.11/site-packages/tensorflow_cpu-2.21.0.dist-info/METADATA")
        self.write("venv/lib/python3.11/site-packages/torch-2.15.0.dist-info/METADATA")
        rivals = self.rivals(self.venv())
        self.assertEqual((rivals.tensorflow, rivals.torch, rivals.steps_program), ("2.21.0", "2.15.0", None))
        self.assertEqual(len(rivals.missing), 1)
        self.assertIn("no C headers", rivals.missing[0])

    def test_tensorflow_whose_headers_do_not_compile(self):
        self.write("venv/lib/python3.11/site-packages/tensorflow-2.21.0.dist-info/METADATA")
        self.write("venv/lib/python3.11/site-packages/tensorflow/include/tensorflow/c/c_api.h", "#error this is no header\n")
        rivals = self.rivals(self.venv())
        self.assertIsNone(rivals.steps_program)
        self.assertEqual(len(rivals.missing), 2)
        self.assertIn("does not compile", rivals.missing[-1])
        self.assertNotIn("\n", rivals.missing[-1])


class NetworksTest(Case):
    def test_what_is_not_there(self):
        found, missing = networks.there(self.rivals(None))
        self.assertEqual((found, len(missing)), ({}, 5))
        self.write("venv/lib/python3.11/site-packages/onnxruntime-1.32.0.dist-info/METADATA")
        self.write("venv/lib/python3.11/site-packages/openvino-2026.4.1.dist-info/METADATA")
        found, missing = networks.there(self.rivals(self.venv()))
        self.assertEqual(found, {"OpenVINO": "openvino"})
        self.assertEqual([m.split(" is not")[0] for m in missing], ["networks: no TensorFlow (tensorflow", "networks: no PyTorch (torch and tf2onnx and onnx2torch and torchvision",
                                                                        "networks: no PyTorch compiled (torch and tf2onnx and onnx2torch and torchvision", "networks: no ONNX Runtime (tf2onnx"])

    def test_without_tensorflow_nothing_is_measured(self):
        missing = []
        ctx = groups.Context(ROOT, self.folder, self.folder, self.rivals(None), True, None, missing)
        self.assertEqual(list(groups.GROUPS["networks"](ctx)), [])
        self.assertIn("TensorFlow writes the graphs", missing[-1])

    def test_a_row_compares_with_the_best_rival(self):
        result = {"Troupe": (Series([0.002]), {}, {"peak_bytes": 1e6}), "TensorFlow": (Series([0.005]), {}, {"peak_bytes": 9e6}), "OpenVINO": (Series([0.004]), {}, {})}
        row = networks.row("unet", 8, 2, result)
        self.assertEqual((row.measure, row.unit, row.ours.median, row.ratio, row.met), ("unet, batch 8, 2 threads", "ms", 2, 0.5, True))
        self.assertEqual(row.note, "OpenVINO 4 ms; peak MB: Troupe 1, TensorFlow 9")

    def test_differences_of_files_of_numbers(self):
        nan = float("nan")
        for name, values in (("a", [1, 2, 4]), ("b", [1, 2.5, 5]), ("c", [1]), ("d", [1, nan, 4]), ("e", [1, nan, 5])):
            with open(os.path.join(self.folder, name), "wb") as f:
                array.array("f", values).tofile(f)
        path = lambda name: os.path.join(self.folder, name)
        self.assertEqual(numbers_file.difference(path("a"), path("a")), 0)
        self.assertEqual(numbers_file.difference(path("a"), path("b")), 0.2)
        self.assertEqual(numbers_file.difference(path("a"), path("c")), float("inf"))
        self.assertEqual(numbers_file.difference(path("d"), path("a")), float("inf"))
        self.assertEqual(numbers_file.difference(path("a"), path("d")), float("inf"))
        self.assertEqual(numbers_file.difference(path("d"), path("e")), 0.2)


class OpsTest(Case):
    def test_each_program_times_its_graphs_in_turn(self):
        programs = {"Troupe": self.echo("Troupe", "9,9,1,2,3,4"), "TensorFlow": self.echo("TensorFlow", "9,9,5,nan,6,nan")}
        taken = ops.samples(programs, ["nothing", "Relu"], 2)
        for program in programs.values():
            program.close()
        self.assertEqual({n: s.samples for n, s in taken["Troupe"].items()}, {"nothing": [1, 3], "Relu": [2, 4]})
        self.assertEqual({n: s.samples for n, s in taken["TensorFlow"].items()}, {"nothing": [5, 6]})

    def test_a_row_is_without_the_call(self):
        taken = {"Troupe": {"nothing": Series([1e-6]), "Relu": Series([11e-6]), "a_2": Series([3e-6])},
                 "TensorFlow": {"nothing": Series([20e-6]), "Relu": Series([28e-6]), "a_2": Series([21e-6])},
                 "OpenVINO": {"nothing": Series([2e-6]), "Relu": Series([7e-6])}}
        relu, other, mean = ops.rows_of(taken, ["nothing", "Relu", "a_2"], 2, {"Relu": 1e-7, "a_2": 0})
        self.assertEqual((relu.measure, relu.unit, round(relu.ours.median, 6), round(relu.ratio, 6), relu.met), ("Relu, 2 threads", "us", 10, 2, False))
        self.assertEqual(relu.note, "TensorFlow 8, OpenVINO 5; differs from TensorFlow's by 1e-07")
        self.assertEqual((other.measure, round(other.ratio, 6)), ("a/2, 2 threads", 2))
        self.assertEqual((round(mean.ours.median, 6), mean.met), (2, False))
        self.assertIn("OpenVINO 2 us", mean.note)

    def test_without_tensorflow_nothing_is_measured(self):
        missing = []
        ctx = groups.Context(ROOT, self.folder, self.folder, self.rivals(None), True, None, missing)
        self.assertEqual(list(groups.GROUPS["ops"](ctx)), [])
        self.assertIn("ops: TensorFlow writes the graphs", missing[-1])


class ModelsTest(Case):
    def result(self, theirs):
        return {"Troupe": (Series([0.002]), {"losses": [4.0, 2.0]}, {"peak_bytes": 7e6, "cpu_s_per_step": 0.0015}), "TensorFlow": (Series([0.005]), {"losses": theirs, "way": "a session"}, {}),
                "PyTorch": (Series([0.004]), {"way": "eager"}, {})}

    def test_a_row_compares_with_the_best_rival_and_says_what_it_ran(self):
        row = models.row("lstm", 2, 0.6, self.result([4.0, 2.0001]))
        self.assertEqual((row.group, row.measure, row.unit, row.ours.median, row.ratio, row.met), ("models", "lstm, 2 threads", "ms", 2, 0.5, True))
        self.assertEqual(row.note, "TensorFlow by a session, whose losses in the first 2 steps are ours within 5e-05; PyTorch by eager; "
                         "processor time a step, ms: Troupe 1.5; peak MB: Troupe 7")

    def test_a_row_says_what_its_multiplications_take(self):
        result = self.result([4.0, 2.0])
        result["Troupe"][2]["limit_s"] = 0.0015
        self.assertIn("; the multiplications of its products alone take 1.5 ms here, 75 % of our step", models.row("lstm", 1, 0.6, result).note)

    def test_a_rival_that_computes_something_else_is_no_rival(self):
        for theirs in ([4.0, 2.001], [4.0], []):
            with self.assertRaisesRegex(Failed, "lstm: the losses of the first steps are not those of TensorFlow"):
                models.row("lstm", 1, 0.6, self.result(theirs))


class ReportTest(Case):
    def test_goals(self):
        row = Row("dispatch", "m", "us", Series([1, 2, 3]), {"TensorFlow": Series([10])})
        self.assertTrue(row.against("TensorFlow", "<=", 0.2).met)
        self.assertFalse(row.against("TensorFlow", "<=", 0.1).met)
        self.assertIsNone(Row("dispatch", "m", "us", Series([1])).against("TensorFlow", "<=", 0.2).met)
        self.assertTrue(Row("memory", "m", "B", Series([63])).below(64).met)
        faster = Row("train", "m", "images/s", Series([300]), {"TensorFlow": Series([100]), "PyTorch": Series([200])})
        self.assertEqual(faster.against_best(">=", 1.6).ratio, 1.5)
        self.assertFalse(faster.met)

    def test_table(self):
        rows = [Row("run", "add1", "us", Series([1.0, 2.0, 3.0]), {"TensorFlow": Series([20])}).against("TensorFlow", "<=", 0.1)]
        self.assertIn("2.00 (1.00..3.00)", report.text(rows))
        markdown = report.markdown(rows, [("machine", "M")], ["no torch"])
        self.assertIn("| run | add1 | us | 2.00 (1.00..3.00) | 20.0 | - | 0.10x | <= 0.10x | met |", markdown)
        self.assertIn("not measured: no torch", markdown)
        rows[0].measured = "at abc"
        written = report.to_json(rows, [("machine", "M")], ["no torch"])
        self.assertIn('"met": true', written)
        self.assertEqual(report.from_json(written), (rows, ["no torch"]))
        self.assertIn("run: measured at abc", report.text(rows) + "\n".join(report.foot([], rows)))

    def test_page(self):
        page = "before\n%s\nold\n%s\nafter\n" % (report.BEGIN, report.END)
        self.assertEqual(report.into_page(page, "new\n"), "before\n%s\nnew\n%s\nafter\n" % (report.BEGIN, report.END))
        self.assertEqual(report.into_page("something else", "new\n"), "new\n")


class CommandTest(Case):
    def run_bench(self, *arguments):
        return subprocess.run([sys.executable, "-B", os.path.join(ROOT, "tools", "bench"), *arguments], capture_output=True, text=True)

    def test_bad_arguments(self):
        done = self.run_bench("nonsense")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no group nonsense", done.stderr)
        done = self.run_bench("--json", os.path.join(self.folder, "none", "x.json"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no folder", done.stderr)
        done = self.run_bench("--build", self.folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn("is no build folder", done.stderr)


if __name__ == "__main__":
    unittest.main()
