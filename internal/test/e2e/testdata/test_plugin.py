"""Tests for the pytest plugin of dist/python. Two fail: one in its own process, one in a program that it starts."""

import os

import pyverbs.device as d
from pyverbs.mr import MR
from pyverbs.pd import PD

WRONG = "import sys, pyverbs.device as d; from pyverbs.cq import CQ; CQ(d.Context(name=sys.argv[1]), 1 << 30)"


def test_in_this_process():
    name = "rxe" + os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]
    pd = PD(d.Context(name=name))
    MR(pd, 4096, 2)  # remote write without local write


def test_in_a_program(rdma_device):
    rdma_device.run(["/usr/bin/python3", "-c", WRONG, rdma_device.name])


def test_rdma_cm(rdma_device):
    # Within one daemon two servers cannot listen at one port of two loopback addresses.
    words = ["rping", "-a", rdma_device.address, "-C", "2", "-p", "717" + rdma_device.name[3:]]
    assert "rdma-ping-1" in rdma_device.pair(words + ["-s"], words + ["-c", "-v"]).stdout


def test_no_word_more(rdma_device):
    assert rdma_device.run(["true"]).stderr == ""


def test_device_of_worker(rdma_device):
    with open(os.path.join(os.environ["SEEN"], rdma_device.name + "-" + rdma_device.address), "w"):
        pass


def test_device_of_other_worker(rdma_device):
    test_device_of_worker(rdma_device)
