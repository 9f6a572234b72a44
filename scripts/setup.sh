#!/usr/bin/env bash
# Installs the programs that the tests call and that this machine lacks. With the argument
# "demo" it installs those that `make demo` runs, with "packages" those of
# `make test-packages`, with "containers" those of `make test-containers`. It uses Debian
# packages through apt-get, says what it does, and does nothing if all programs are there.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
need() { # need PACKAGE CHECK...: the package is missing when the check fails
	local package=$1
	shift
	"$@" >/dev/null 2>&1 || missing+=("$package")
}

what=${1:-tests}

# Stock programs, run under `gorxe run`.
need ibverbs-utils command -v ibv_rc_pingpong
need ibverbs-providers test -e /etc/libibverbs.d/rxe.driver
need perftest command -v ib_write_bw
if [ "$what" = tests ]; then
	need tshark command -v tshark
	# The system's Python: a version manager's python3 does not see Debian's scapy.
	need python3 test -x /usr/bin/python3
	need python3-scapy /usr/bin/python3 -c 'import scapy.contrib.roce'
	# verbs.h: the list of calls that package verbsapi has to cover.
	need libibverbs-dev test -e /usr/include/infiniband/verbs.h
	# rdma_cma.h: likewise for verbsapi/rdmacm.
	need librdmacm-dev test -e /usr/include/rdma/rdma_cma.h
	# More of them, for internal/test/e2e.
	need ucx-utils command -v ucx_perftest
	need openmpi-bin command -v mpirun.openmpi
	need libopenmpi-dev command -v oshcc
	need mpich command -v mpirun.mpich
	need libmpich-dev command -v mpicc.mpich
	need python3-pyverbs /usr/bin/python3 -c 'import pyverbs.device'
	need python3-pytest /usr/bin/python3 -c 'import pytest'
	need python3-pytest-xdist /usr/bin/python3 -c 'import xdist'
	need prometheus-node-exporter command -v prometheus-node-exporter
	need infiniband-diags test -x /usr/sbin/ibstatus
	need hwloc-nox command -v lstopo-no-graphics
	need librdmacm-dev test -e /usr/include/rdma/rdma_cma.h
	need rdmacm-utils command -v rping
	need qperf command -v qperf
	need libfabric-bin command -v fi_pingpong
	need strace command -v strace
	need gdb command -v gdb
	# What lints the manual pages: cmd/gorxe.
	need man-db command -v lexgrog
	need iproute2 command -v ip
	# The race detector, and the tests' own C programs.
	need gcc command -v "${CC:-gcc}"
	need libc6-dev test -e /usr/include/stdio.h
	# A C library whose programs make the older system calls: internal/trap.
	need musl-tools command -v musl-gcc
	# The machine that has a kernel's rdma_rxe: internal/test/interop.
	need qemu-system-x86 command -v qemu-system-x86_64
	need xz-utils command -v xz # modules of newer kernels
	# What looks at the pages of `gorxe pcap show --html`: internal/pcap/ladder.
	need chromium-headless-shell sh -c 'command -v chromium-headless-shell || command -v chromium'
fi
if [ "$what" = packages ] || [ "$what" = containers ]; then
	need mmdebstrap command -v mmdebstrap
	need util-linux command -v unshare
	need iproute2 command -v ip
	need containerd command -v containerd
	need rpm command -v rpm
	need podman command -v podman
	need uidmap command -v newuidmap
	need runc command -v runc
	need crun command -v crun
fi
if [ "$what" = containers ]; then
	need docker.io sh -c 'command -v docker && command -v dockerd'
	need qemu-user-static command -v qemu-aarch64-static
fi

if ! command -v go >/dev/null 2>&1; then
	echo "setup: Go is not installed or not in PATH: see https://go.dev/doc/install" >&2
	exit 1
fi

if [ ${#missing[@]} -eq 0 ]; then
	echo "setup: every package needed is installed"
else
	echo "setup: missing: ${missing[*]}"
	if ! command -v apt-get >/dev/null 2>&1; then
		echo "setup: no apt-get here: install these packages (Debian names) by hand" >&2
		exit 1
	fi
	as_root=()
	if [ "$(id -u)" -ne 0 ]; then
		if ! command -v sudo >/dev/null 2>&1; then
			echo "setup: run as root: apt-get install ${missing[*]}" >&2
			exit 1
		fi
		as_root=(sudo)
	fi
	# tshark's package asks a question otherwise; the answer (no) is its default.
	export DEBIAN_FRONTEND=noninteractive
	install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}")
	echo "setup: ${install[*]}"
	"${install[@]}" || { "${as_root[@]}" apt-get update && "${install[@]}"; }
fi

[ "$what" = tests ] || exit 0

# Debian ships rdma-core's Python tests as documentation, which slim images leave out.
tests=usr/share/doc/rdma-core/tests
if [ ! -e "/$tests/run_tests.py" ] && [ ! -e "bin/$tests/run_tests.py" ]; then
	echo "setup: unpacking rdma-core's tests into bin/$tests"
	work=$(mktemp -d)
	(cd "$work" && apt-get download -o APT::Sandbox::User="$(id -un)" python3-pyverbs)
	mkdir -p bin
	dpkg-deb --fsys-tarfile "$work"/python3-pyverbs_*.deb | tar -x -C bin "./$tests"
	rm -rf "$work"
fi

./scripts/newer-rdma-core.sh bin/rdma-core-newer
./scripts/debian-kernel.sh bookworm >/dev/null
