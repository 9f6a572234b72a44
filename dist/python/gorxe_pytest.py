# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: the fixture rdma_device is an RDMA device for one test.

    def test_ping_pong(rdma_device):
        server = ["ibv_rc_pingpong", "-d", rdma_device.name, "-g", "1"]
        rdma_device.pair(server, server + [rdma_device.address])

The programs that a test starts have the device. A test that uses pyverbs itself needs
`pytest --rdma`: then one gorxe run has the tests and all that they start. With pytest-xdist each
worker has a device of its own.

If a test fails, its report names the capture of its packets, and says why verbs were refused and why
work requests failed. The head of the report names the program gorxe that the tests use.
"""

import datetime
import functools
import importlib.metadata
import ipaddress
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

_INSIDE = "GORXE_PYTEST_CAPTURE"  # set in the processes of pytest --rdma
_PROGRAM = "GORXE_PROGRAM"  # the program gorxe, for this process and the workers of pytest-xdist
_LIKE = "GORXE_PYTEST_LIKE"  # the adapter that devices look like, for this process and the workers
_SANITIZE = "GORXE_SANITIZE"  # the checks of the sanitizer, for each gorxe run
_EXPLAIN = "GORXE_EXPLAIN_TO"  # a file to which each gorxe run appends reasons
_TIMEOUT = 60  # seconds


@functools.lru_cache(maxsize=None)
def _program():
    """Returns the path of the gorxe program, and who chose it. The user's word comes first, then PATH."""
    if _PROGRAM in os.environ:
        given = os.environ[_PROGRAM]
        path = shutil.which(given)
        if path is None:
            raise pytest.UsageError(f"--gorxe or {_PROGRAM}: {given}: there is no such program")
        return os.path.abspath(path), f"--gorxe or {_PROGRAM}"
    for path, source in (shutil.which("gorxe"), "PATH"), (_own(), "the Python package"):
        if path is not None:
            return os.path.abspath(path), source
    raise pytest.UsageError(f"there is no program gorxe in PATH, and neither --gorxe nor {_PROGRAM} names one")


def _own():
    """Returns the path of the program that pip has installed with this plugin, if it has."""
    try:
        files = importlib.metadata.files("gorxe") or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((str(f.locate()) for f in files if f.name == "gorxe"), None)


def gorxe():
    """Returns the path of the gorxe program."""
    return _program()[0]


def _ask(*words):
    """Returns what a command of gorxe prints."""
    return subprocess.run([gorxe(), *words], text=True, timeout=_TIMEOUT,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout


def _name(index):
    """Returns the name of a device."""
    return f"mlx5_{index}" if _LIKE in os.environ else f"rxe{index}"


def _like():
    """Returns the flags for the adapter that devices look like."""
    return ["--like", os.environ[_LIKE]] if _LIKE in os.environ else []


class RDMADevice:
    """A device of the loopback interface, and the programs that use it."""

    gid_index = 1  # of the IPv4 address
    capture = None  # a pcapng file

    def __init__(self, index=0):
        self.name = _name(index)
        self._daemon = self._socket = self._reasons = None

    def _find(self):
        status = json.loads(_ask("status", "--json", *self._flags()))
        gids = next(d for d in status["devices"] if d["name"] == self.name)["ports"][0]["gids"]
        addresses = (ipaddress.ip_address(g["gid"]).ipv4_mapped for g in gids)
        self.address = str(next(a for a in addresses if a is not None))

    def _start(self, directory, capture):
        self.capture = capture
        self._socket = str(directory / "socket")
        self._reasons = directory / "reasons"
        log = directory / "log"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, open(log, "wb") as out:
            ready.bind(str(directory / "ready"))
            ready.settimeout(0.1)
            self._daemon = subprocess.Popen(
                [gorxe(), "daemon", "--socket", self._socket, "--device", f"{self.name}=free", *_like(), "--pcap", str(capture)],
                env={**os.environ, "NOTIFY_SOCKET": str(directory / "ready")},
                stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            while True:
                try:
                    if b"READY=1" in ready.recv(4096):
                        return
                except socket.timeout:
                    if self._daemon.poll() is not None:
                        raise RuntimeError(log.read_text().strip()) from None

    def _flags(self):
        return [] if self._socket is None else ["--socket", self._socket]

    def _command(self, subcommand, flags=()):
        return [gorxe(), subcommand, *self._flags(), *flags, "--"]

    def _environment(self, kwargs):
        env = os.environ if kwargs.get("env") is None else kwargs["env"]
        checks = {_SANITIZE: os.environ[_SANITIZE]} if _SANITIZE in os.environ else {}
        return {**kwargs, "env": env if self._reasons is None else {**checks, **env, _EXPLAIN: str(self._reasons)}}

    def popen(self, argv, faults=(), **kwargs):
        """Starts a program, as subprocess.Popen does. faults are rules: gorxe help faults."""
        return subprocess.Popen(self._command("run", _rules(faults)) + _words(argv, "argv"), **self._environment(kwargs))

    def run(self, argv, faults=(), **kwargs):
        """Runs a program, as subprocess.run does with check, text and capture_output."""
        return self._run(self._command("run", _rules(faults)) + _words(argv, "argv"), kwargs)

    def pair(self, server, client, ready_when=None, faults=(), **kwargs):
        """Runs a server, and a client when the server listens. Returns what both say: each line begins with
        "server: " or "client: ". faults are for both.

        The server is ready when it listens on a TCP port, on a Unix socket or by RDMA CM. If it does none
        of these, ready_when is a regular expression for a line that it writes then.
        """
        flags = ([] if ready_when is None else [f"--ready-when={ready_when}"]) + _rules(faults)
        return self._run(self._command("pair", flags) + _words(server, "server") + ["--"] + _words(client, "client"), kwargs)

    def _run(self, words, kwargs):
        kwargs = {"check": True, "text": True, "capture_output": True, "timeout": _TIMEOUT, **self._environment(kwargs)}
        done = subprocess.run(words, **{**kwargs, "check": False})
        if kwargs["check"] and done.returncode != 0:
            pytest.fail(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout or ''}{done.stderr or ''}")
        return done

    def reasons(self):
        """Returns why verbs were refused and why work requests failed, in programs that have ended."""
        if self._reasons is None or not self._reasons.exists():
            return ""
        return self._reasons.read_text()

    def check(self):
        """Ends the device. Returns what `gorxe pcap check` says of its packets."""
        self.close()
        return _ask("pcap", "check", "--allow-empty", str(self.capture))

    def close(self):
        """Ends the device. Programs that still use it have none then."""
        if self._daemon is not None:
            self._daemon.terminate()
            self._daemon.wait()


def _words(argv, name):
    """Returns the words of a program. One string is no list of them: it would be one letter each."""
    if isinstance(argv, (str, bytes)):
        raise TypeError(f"{name} is the string {argv!r}: give a list of words, as {argv.split()!r}")
    return list(map(str, argv))


def _rules(faults):
    """Returns the flags for fault rules. A string is one rule."""
    return [word for rule in ([faults] if isinstance(faults, str) else faults) for word in ("--fault", str(rule))]


@pytest.fixture
def rdma_device(tmp_path):
    """An RDMA device for the programs that this test starts."""
    if _INSIDE in os.environ:
        device = RDMADevice(_worker())
        device._find()
        yield device
        return
    # tmp_path may be too long for a socket.
    with tempfile.TemporaryDirectory(prefix="gorxe-") as directory:
        device = RDMADevice()
        device._start(Path(directory), tmp_path / "rdma.pcapng")
        try:
            device._find()
            yield device
        finally:
            device.close()


def pytest_addoption(parser):
    group = parser.getgroup("gorxe")
    group.addoption("--rdma", action="store_true", help="run pytest itself with an RDMA device, for tests with pyverbs")
    group.addoption("--rdma-like", metavar="ADAPTER", help="devices that look like this adapter, as connectx6: gorxe help connectx")
    group.addoption("--rdma-sanitize", metavar="CHECKS", help="look for misuse of verbs, as gorxe run --sanitize=CHECKS: default, all, or names")
    group.addoption("--gorxe", metavar="PROGRAM", help=f"the program gorxe; else that of {_PROGRAM}, of PATH, or of the Python package")


def pytest_report_header():
    """Returns a line that says which gorxe the tests use."""
    try:
        path, source = _program()
        return f"{_ask('version').partition(',')[0].strip()}: {path}, from {source}"
    except (OSError, subprocess.SubprocessError, pytest.UsageError) as error:
        return f"gorxe: {error}"


def _worker():
    """Returns the number of this worker of pytest-xdist; 0 without it."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])


def _workers(config):
    """Returns how many workers pytest-xdist will start; 1 without it."""
    n = config.getoption("numprocesses", None)
    if isinstance(n, str):  # auto, logical
        n = os.cpu_count()
    return max(1, n or 1)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    if config.getoption("--gorxe") is not None:
        os.environ[_PROGRAM] = config.getoption("--gorxe")
    if config.getoption("--rdma-like") is not None:
        os.environ[_LIKE] = config.getoption("--rdma-like")
    if config.getoption("--rdma-sanitize") is not None:
        os.environ[_SANITIZE] = config.getoption("--rdma-sanitize")
    if _PROGRAM in os.environ:
        gorxe()  # a wrong word ends pytest
    if not config.getoption("--rdma") or _INSIDE in os.environ:
        return
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)
    sys.stdout.flush()
    os.environ[_INSIDE] = str(Path(tempfile.mkdtemp(prefix="gorxe-pytest-"), "rdma.pcapng"))
    os.execv(gorxe(), [gorxe(), "run", "--private", "--devices", str(_workers(config)), *_like(), "--pcap", os.environ[_INSIDE], "--",
                       sys.executable, "-m", "pytest", *map(str, config.invocation_params.args)])


def pytest_sessionfinish(session):
    """Removes the capture of pytest --rdma if no test failed. The daemon still writes to it."""
    if _INSIDE in os.environ and "PYTEST_XDIST_WORKER" not in os.environ and session.testsfailed == 0:
        shutil.rmtree(Path(os.environ[_INSIDE]).parent, ignore_errors=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.when == "setup":
        item._gorxe_started = call.start
    if not report.failed:
        return
    if _INSIDE in os.environ:
        text = _reasons_inside(getattr(item, "_gorxe_started", call.start))
        report.sections.append(("gorxe", f"{text}The packets of all tests are in {os.environ[_INSIDE]}"))
        return
    device = getattr(item, "funcargs", {}).get("rdma_device")
    if report.when == "call" and device is not None:
        text = device.check()
        report.sections.append(("gorxe", f"{device.reasons()}{text}\nThe packets are in {device.capture}"))
    if (_uses_pyverbs(item, call) or _found_none(report, call)) and not os.path.exists("/sys/class/infiniband"):
        report.sections.append(("gorxe", "This process has no RDMA device. Run `pytest --rdma`: then the tests themselves have one, "
                                "and the programs that they start. Or start programs with rdma_device.run."))


def _uses_pyverbs(item, call):
    """Reports whether a test that failed uses pyverbs itself."""
    def is_pyverbs(x):
        name = x.__name__ if isinstance(x, type(sys)) else getattr(x, "__module__", None)
        return isinstance(name, str) and name.split(".")[0] == "pyverbs"
    return is_pyverbs(call.excinfo.type) or any(map(is_pyverbs, vars(getattr(item, "module", None) or item.__class__).values()))


_NONE = re.compile(r"failed to get ib devices list|no (ib|rdma|infiniband) devices?|netlink_rdma socket|ib device \S+ not found"
                   r"|unable to find the infiniband", re.IGNORECASE)


def _found_none(report, call):
    """Reports whether a program that a failed test started itself wrote that there is no device."""
    texts = [report.longreprtext, *(text for _, text in report.sections)]
    texts += (getattr(call.excinfo.value, name, None) for name in ("stdout", "stderr"))
    return any(_NONE.search(t.decode(errors="replace") if isinstance(t, bytes) else t) for t in texts if t)


def _seconds(text):
    """Returns a time of RFC 3339 in seconds since the epoch."""
    whole, fraction, zone = re.fullmatch(r"([^.]*?)(\.\d+)?(Z|[+-]\d\d:\d\d)", text).groups()
    return datetime.datetime.fromisoformat(whole + zone.replace("Z", "+00:00")).timestamp() + float(fraction or 0)


def _reasons_inside(since):
    """Returns what went wrong on this worker's device since a time, with pytest --rdma."""
    try:
        sessions = json.loads(_ask("explain", "--json"))
    except ValueError as error:
        return f"gorxe explain: {error}\n"
    lines = []
    for record in (r for s in sessions for r in s["errors"]):
        if record.get("device") in (None, _name(_worker())) and _seconds(record["time"]) >= since:
            fix = f"; {record['fix']}" if record.get("fix") else ""
            lines.append(f"{record.get('program', '')}[{record.get('pid', '')}]: {record['what']}{fix}.\n")
    return "".join(lines)
