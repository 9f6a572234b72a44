"""Runs rdma-core's Python tests against one device and reports each by name.

usage: rdmacore.py TESTS-DIR DEVICE GID-INDEX [NAME-PREFIX...]

TESTS-DIR is where the distribution put the tests (some gzipped). Standard output
gets one JSON object per test as soon as it has ended, so that a run which hangs
still tells where: {"test": "test_qp.QPTest.test_create_rc_qp", "result":
"pass" | "skip" | "fail" | "error" | "crash", "detail": "...", "seconds": 0.1}. A line
with "result": "start" comes before each test.

Tests for mlx5 and EFA hardware run only if a prefix names them. Each test runs in a
process of its own. pyverbs 56 closes objects after their device, and that has crashed
the interpreter some tests later, on rdma_rxe too.
"""

import gzip
import json
import os
import pathlib
import signal
import sys
import tempfile
import time
import unittest


class Reporter(unittest.TestResult):
    """Prints the outcome of each test as a line of JSON."""

    def __init__(self, out):
        super().__init__()
        self.out = out

    def startTest(self, test):
        super().startTest(test)
        self.outcome = ("pass", "")
        self.started = time.monotonic()
        self.write(test, "start", "")

    def stopTest(self, test):
        super().stopTest(test)
        self.write(test, *self.outcome)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.outcome = ("skip", reason)

    def addError(self, test, err):
        super().addError(test, err)
        self.outcome = ("error", self.describe(err))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.outcome = ("fail", self.describe(err))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.outcome = ("fail", self.describe(err))

    @staticmethod
    def describe(err):
        return "%s: %s" % (err[0].__name__, err[1])

    def write(self, test, result, detail):
        # "tests.test_qp.QPTest.test_x" in the distribution's layout.
        line = {"test": short(test), "result": result, "detail": detail}
        if result != "start":
            line["seconds"] = round(time.monotonic() - self.started, 3)
        print(json.dumps(line), file=self.out, flush=True)


def unpack(source, target):
    target.mkdir()
    for file in sorted(source.iterdir()):
        if file.name.endswith(".py.gz"):
            (target / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
        elif file.suffix == ".py":
            (target / file.name).write_bytes(file.read_bytes())


def flatten(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flatten(item)
        else:
            yield item


def short(test):
    return test.id().partition(".")[2]


def wanted(test, prefixes):
    if prefixes:
        return any(short(test).startswith(p) for p in prefixes)
    # These want the hardware that they are named after.
    return not short(test).startswith(("test_mlx5", "test_efa"))


def run(test, reporter):
    """Runs one test in a child, and reports a child that a signal ended."""
    pid = os.fork()
    if pid == 0:
        unittest.TestSuite([test]).run(reporter)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        reporter.started = time.monotonic()
        reporter.write(test, "crash", signal.Signals(os.WTERMSIG(status)).name)


def main():
    source, device, gid, prefixes = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    # What a test prints must not get between the lines of the report.
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory() as tmp:
        unpack(pathlib.Path(source), pathlib.Path(tmp) / "tests")
        sys.path[0:0] = [tmp, tmp + "/tests"]
        import args_parser
        sys.argv[1:] = ["--dev", device, "--gid", gid]
        args_parser.parser.parse_args()
        tests = flatten(unittest.defaultTestLoader.loadTestsFromName("tests"))
        tests = [t for t in tests if wanted(t, prefixes)]
        reporter = Reporter(report)
        for test in tests:
            run(test, reporter)


if __name__ == "__main__":
    main()
