# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: the fixture rdma_device is an RDMA device for one test.

    def test_ping_pong(rdma_device):
        server = ["ibv_rc_pingpong", "-d", rdma_device.name, "-g", "1"]
        rdma_device.pair(server, server + [rdma_device.address])

The programs that a test starts have the device. A test that uses pyverbs itself needs
`pytest --rdma`: then one gorxe run has the tests and all that they start.

If a test fails, its report names the capture of its packets and what gorxe says of it.
"""

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

_INSIDE = "GORXE_PYTEST_ADDRESS"  # set in the processes of pytest --rdma
_TIMEOUT = 60  # seconds


def gorxe():
    """Returns the path of the gorxe program: this package's, or the first in PATH."""
    own = Path(sysconfig.get_path("scripts"), "gorxe")
    path = str(own) if own.exists() else shutil.which("gorxe")
    if path is None:
        raise FileNotFoundError("there is no program gorxe in PATH")
    return path


def _address():
    """Returns a loopback address of this process. No two processes have the same one."""
    pid = os.getpid()
    return f"127.{64 + (pid >> 16 & 63)}.{pid >> 8 & 255}.{pid & 255}"


class RDMADevice:
    """A device of the loopback interface, and the programs that use it."""

    name = "rxe0"
    gid_index = 1  # of the IPv4 address

    def __init__(self, address, directory=None, capture=None):
        self.address = address
        self.capture = capture  # a pcapng file; None with pytest --rdma
        self._directory = directory
        self._daemon = None
        if directory is not None:
            self._start()

    def _start(self):
        self._socket = str(self._directory / "socket")
        log = self._directory / "log"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, open(log, "wb") as out:
            ready.bind(str(self._directory / "ready"))
            ready.settimeout(0.1)
            self._daemon = subprocess.Popen(
                [gorxe(), "daemon", "--socket", self._socket, "--device", f"{self.name}={self.address}",
                 "--pcap", str(self.capture)],
                env={**os.environ, "NOTIFY_SOCKET": str(self._directory / "ready")},
                stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            while True:
                try:
                    if b"READY=1" in ready.recv(4096):
                        return
                except socket.timeout:
                    if self._daemon.poll() is not None:
                        raise RuntimeError(log.read_text().strip()) from None

    def _command(self, subcommand, faults=()):
        words = [gorxe(), subcommand]
        if self._daemon is not None:
            words += ["--socket", self._socket]
        for rule in faults:
            words += ["--fault", rule]
        return words + ["--"]

    def popen(self, argv, faults=(), **kwargs):
        """Starts a program, as subprocess.Popen does. faults are rules: gorxe help faults."""
        return subprocess.Popen(self._command("run", faults) + list(map(str, argv)), **kwargs)

    def run(self, argv, faults=(), **kwargs):
        """Runs a program, as subprocess.run does with check, text and capture_output."""
        return self._run(self._command("run", faults) + list(map(str, argv)), kwargs)

    def pair(self, server, client, **kwargs):
        """Runs a server, and a client when the server listens. Returns what both say."""
        return self._run(self._command("pair") + ["--no-labels"] + list(map(str, server)) + ["--"] + list(map(str, client)), kwargs)

    @staticmethod
    def _run(words, kwargs):
        kwargs = {"check": True, "text": True, "capture_output": True, "timeout": _TIMEOUT, **kwargs}
        done = subprocess.run(words, **{**kwargs, "check": False})
        if kwargs["check"] and done.returncode != 0:
            pytest.fail(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout or ''}{done.stderr or ''}")
        return done

    def check(self):
        """Ends the device. Returns what `gorxe pcap check` says of its packets."""
        self.close()
        done = subprocess.run([gorxe(), "pcap", "check", str(self.capture)], text=True, timeout=_TIMEOUT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.stdout

    def close(self):
        """Ends the device. Programs that still use it have none then."""
        if self._daemon is not None:
            self._daemon.terminate()
            self._daemon.wait()


@pytest.fixture
def rdma_device(tmp_path):
    """An RDMA device, rxe0, for the programs that this test starts."""
    inside = os.environ.get(_INSIDE)
    if inside is not None:
        yield RDMADevice(inside)
        return
    # tmp_path may be too long for a socket.
    with tempfile.TemporaryDirectory(prefix="gorxe-") as directory:
        device = RDMADevice(_address(), Path(directory), tmp_path / "rdma.pcapng")
        yield device
        device.close()


def pytest_addoption(parser):
    parser.getgroup("gorxe").addoption("--rdma", action="store_true", help="run pytest itself with an RDMA device, for tests with pyverbs")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    if not config.getoption("--rdma") or _INSIDE in os.environ:
        return
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)
    sys.stdout.flush()
    os.environ[_INSIDE] = _address()
    os.execv(gorxe(), [gorxe(), "run", "--device", f"{RDMADevice.name}={os.environ[_INSIDE]}", "--",
                       sys.executable, "-m", "pytest", *map(str, config.invocation_params.args)])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    device = getattr(item, "funcargs", {}).get("rdma_device")
    if report.when == "call" and report.failed and device is not None and device.capture is not None:
        report.sections.append(("gorxe", f"{device.check()}\nThe packets are in {device.capture}"))
