#!/usr/bin/env python3
"""What tools/test-op shows of an op, and what it says of a name that is none: check_test_op.py BUILD_DIR"""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(sys.argv.pop())


def test_op(*arguments, build=BUILD):
    command = [sys.executable, os.path.join(ROOT, "tools", "test-op"), "--build", build, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


class TestOp(unittest.TestCase):
    def test_an_op_is_shown(self):
        code, out, err = test_op("--no-speed", "Reshape")
        self.assertEqual((code, err), (0, ""), out)
        lines = out.split("\n")
        self.assertIn("Reshape(tensor: T, shape: Tshape)", lines[0])
        shown = {line[:30].strip(): line[31:] for line in lines[1:]}
        self.assertRegex(shown["values, the kernel alone"], r"^1?\d cases, 0 wrong$")
        self.assertRegex(shown["values, in a session"], r"^1?\d cases, 0 wrong$")
        self.assertRegex(shown["gradients, recorded"], r"^1 case, 0 wrong$")
        self.assertRegex(shown["gradients, finite differences"], r"0 wrong; [1-9]\d* elements compared$")
        self.assertRegex(shown["refusals"], r"^6 cases, 0 wrong$")
        self.assertEqual(shown["variables, in a session"], "none")

    def test_an_op_of_variables_and_one_without_gradient_are_shown(self):
        code, out, _ = test_op("--no-speed", "ApplyMomentum")
        self.assertEqual(code, 0, out)
        self.assertRegex(out, r"variables, in a session +10 cases, 0 wrong")
        code, out, _ = test_op("--no-speed", "Shape")
        self.assertEqual(code, 0, out)
        self.assertRegex(out, r"finite differences +no gradient, \w+")

    def test_speed_is_told_and_the_rival_that_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            python = os.path.join(folder, "python")
            with open(python, "w") as f:
                f.write("#!/bin/sh\nexit 1\n")
            os.chmod(python, 0o755)
            code, out, _ = test_op("--rival", python, "Relu")
            self.assertEqual(code, 0, out)
            self.assertIn("not compared: %s has no tensorflow" % python, out)
            self.assertRegex(out, r"\d\.\d us +Relu \| float32")
            code, out, _ = test_op("--rival", os.path.join(folder, "nothing"), "Relu")
            self.assertEqual(code, 0, out)
            self.assertIn("not compared: ", out)

    def test_a_rival_is_put_beside(self):
        with tempfile.TemporaryDirectory() as folder:
            python = os.path.join(folder, "python")
            with open(python, "w") as f:
                f.write('#!/bin/sh\n[ "$1" = -c ] || echo 0.5\n')
            os.chmod(python, 0o755)
            code, out, _ = test_op("--rival", python, "Relu")
            self.assertEqual(code, 0, out)
            self.assertRegex(out, r"TensorFlow +500000\.0 us +0\.\d\d of it")

    def test_an_op_without_cases(self):
        code, out, err = test_op("NoOp")
        self.assertEqual((code, err), (1, ""), out)
        self.assertEqual(len(out.split("\n")), 3, out)
        self.assertIn("tests/cases has no case of NoOp", out)

    def test_a_reader_that_stops_early(self):
        command = "%s %s --build %s --no-speed Relu | head -1" % (sys.executable, os.path.join(ROOT, "tools", "test-op"), BUILD)
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300)
        self.assertIn("Relu(", done.stdout)
        self.assertEqual(done.stderr, "")

    def test_a_name_that_is_none(self):
        code, out, err = test_op("matmul")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("there is no op 'matmul'; near it are MatMul, ", err)
        code, _, err = test_op("Reluu")
        self.assertEqual(code, 2)
        self.assertIn("Relu", err.split("near it are")[1])
        code, _, err = test_op("Qqqqqqqq")
        self.assertEqual(code, 2)
        self.assertIn("`troupe ops --names` lists all", err)

    def test_a_build_that_is_not_there(self):
        code, _, err = test_op("MatMul", build="/nowhere")
        self.assertEqual(code, 2)
        self.assertIn("build it with  ninja -C /nowhere ops_test", err)

    def test_help(self):
        code, out, _ = test_op("--help")
        self.assertEqual(code, 0)
        self.assertIn("tools/test-op MatMul", out)
        self.assertEqual(test_op()[0], 2)


if __name__ == "__main__":
    unittest.main()
