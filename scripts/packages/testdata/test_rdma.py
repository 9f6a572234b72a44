"""Tests that a user of the wheel may have, and one that fails."""

import os
import subprocess

import pytest


def test_ping_pong(rdma_device):
    server = ["ibv_rc_pingpong", "-d", rdma_device.name, "-g", rdma_device.gid_index, "-n", 50]
    assert "8192" not in rdma_device.run(["ibv_devices"]).stdout
    rdma_device.pair(server, server + [rdma_device.address])


def test_exit_code(rdma_device):
    assert rdma_device.run(["sh", "-c", "exit 7"], check=False).returncode == 7


def test_background(rdma_device):
    program = rdma_device.popen(["ibv_devinfo"], stdout=subprocess.PIPE, text=True)
    assert "PORT_ACTIVE" in program.communicate(timeout=60)[0]
    assert program.returncode == 0


@pytest.mark.skipif("--rdma" in os.environ.get("GORXE_TEST", ""), reason="rules are for a run of its own")
def test_faults(rdma_device):
    pair = 'ibv_rc_pingpong -g 1 -n 200 >/dev/null & until grep -q ":4853 .* 0A " /proc/net/tcp*; do :; done; ibv_rc_pingpong -g 1 -n 200 $0; wait $!'
    rdma_device.run(["bash", "-c", pair, rdma_device.address], faults=["packet drop,opcode=RC_SEND_FIRST,first=3"])


def test_that_fails(rdma_device):
    server = ["ibv_rc_pingpong", "-d", rdma_device.name, "-g", "1", "-n", "20"]
    rdma_device.pair(server, server + [rdma_device.address])
    assert False, "on purpose"


def test_itself():
    here = os.path.exists("/sys/class/infiniband/rxe0/ports/1/gids/0")
    assert here == ("--rdma" in os.environ.get("GORXE_TEST", ""))
