#!/usr/bin/env bash
# Installs the programs that the tests call and that this machine lacks. With the argument
# "demo" it installs those that `make demo` runs, with "packages" those of
# `make test-packages`, and likewise with "containers", "kubernetes", "labs", "sanitizers" and
# "libvma". It uses apt-get or dnf, says what it does, and does nothing if all programs are there.
set -euo pipefail
cd "$(dirname "$0")/.."

manager=
for tool in apt-get dnf; do
	if command -v "$tool" >/dev/null 2>&1; then
		manager=$tool
		break
	fi
done

missing=()
# need DEBIAN FEDORA CHECK...: a package is missing when the check fails. Its names are those of
# Debian and of Fedora. A dash says that Fedora has no such package, and tests that need it are
# skipped there.
need() {
	local package=$1
	[ "$manager" != dnf ] || package=$2
	shift 2
	[ "$package" = - ] || "$@" >/dev/null 2>&1 || missing+=("$package")
}

what=${1:-tests}

# Stock programs, run under `gorxe run`.
need ibverbs-utils libibverbs-utils command -v ibv_rc_pingpong
need ibverbs-providers libibverbs test -e /etc/libibverbs.d/rxe.driver
need perftest perftest command -v ib_write_bw
if [ "$what" = tests ]; then
	need tshark wireshark-cli command -v tshark
	# The system's Python: a version manager's python3 does not see the distribution's scapy.
	need python3 python3 test -x /usr/bin/python3
	need python3-scapy python3-scapy /usr/bin/python3 -c 'import scapy.contrib.roce'
	# verbs.h: the list of calls that package verbsapi has to cover.
	need libibverbs-dev rdma-core-devel test -e /usr/include/infiniband/verbs.h
	# rdma_cma.h: likewise for verbsapi/rdmacm.
	need librdmacm-dev rdma-core-devel test -e /usr/include/rdma/rdma_cma.h
	# More of them, for internal/test/e2e.
	need ucx-utils ucx command -v ucx_perftest
	need openmpi-bin - command -v mpirun.openmpi
	need libopenmpi-dev - command -v oshcc
	need mpich - command -v mpirun.mpich
	need libmpich-dev - command -v mpicc.mpich
	need python3-pyverbs python3-pyverbs /usr/bin/python3 -c 'import pyverbs.device'
	need prometheus-node-exporter node-exporter sh -c 'command -v prometheus-node-exporter || command -v node_exporter'
	need infiniband-diags infiniband-diags test -x /usr/sbin/ibstatus
	need hwloc-nox hwloc command -v lstopo-no-graphics
	need rdmacm-utils librdmacm-utils command -v rping
	need qperf qperf command -v qperf
	need libfabric-bin libfabric command -v fi_pingpong
	need strace strace command -v strace
	need gdb gdb command -v gdb
	# dist/python's plugin: one device for each worker.
	need python3-pytest python3-pytest command -v pytest-3
	need python3-pytest-xdist python3-pytest-xdist /usr/bin/python3 -c 'import xdist'
	# What lints the manual pages: cmd/gorxe.
	need man-db man-db command -v lexgrog
	need iproute2 iproute command -v ip
	# The race detector, and the tests' own C programs.
	need gcc gcc command -v "${CC:-gcc}"
	need g++ gcc-c++ command -v g++ # cmd/internal/backtrace
	need libc6-dev glibc-devel test -e /usr/include/stdio.h
	# A C library whose programs make the older system calls: internal/trap.
	need musl-tools musl-gcc command -v musl-gcc
	# The machine that has a kernel's rdma_rxe: internal/test/interop.
	need qemu-system-x86 qemu-system-x86-core command -v qemu-system-x86_64
	need xz-utils xz command -v xz # modules of newer kernels
	# They read Debian's archive: newer-rdma-core.sh and debian-kernel.sh.
	need apt apt command -v apt-get
	need dpkg dpkg command -v dpkg-deb
	need debian-archive-keyring debian-keyring test -e /usr/share/keyrings/debian-archive-keyring.gpg
	# What looks at the pages of `gorxe pcap show --html`: internal/pcap/ladder.
	need chromium-headless-shell chromium-headless sh -c 'command -v chromium-headless-shell || command -v chromium || command -v headless_shell'
fi
if [ "$what" = sanitizers ]; then
	need gcc gcc command -v "${CC:-gcc}"
	need clang clang command -v clang
	need libclang-rt-dev compiler-rt sh -c 'ls "$(clang -print-resource-dir)"/lib/*/libclang_rt.msan*.a'
	need libibverbs-dev rdma-core-devel test -e /usr/include/infiniband/verbs.h
fi
if [ "$what" = libvma ]; then
	need git git command -v git
	need autoconf autoconf command -v autoreconf
	need automake automake command -v automake
	need libtool libtool command -v libtoolize
	need make make command -v make
	need pkg-config pkgconf command -v pkg-config
	need g++ gcc-c++ command -v g++
	need libnl-3-dev libnl3-devel pkg-config --exists libnl-3.0
	need libnl-route-3-dev libnl3-devel pkg-config --exists libnl-route-3.0
	need libibverbs-dev rdma-core-devel test -e /usr/include/infiniband/mlx5dv.h
	need librdmacm-dev rdma-core-devel test -e /usr/include/rdma/rdma_cma.h
	need sockperf sockperf command -v sockperf
	need iperf3 iperf3 command -v iperf3
	need nftables nftables command -v nft
	need iproute2 iproute command -v ip
	need tshark wireshark-cli command -v tshark
fi
if [ "$what" = packages ] || [ "$what" = containers ] || [ "$what" = kubernetes ] || [ "$what" = labs ]; then
	need mmdebstrap - command -v mmdebstrap
	need util-linux util-linux command -v unshare
	need iproute2 iproute command -v ip
	need containerd containerd command -v containerd
	need rpm rpm command -v rpm
	need podman podman command -v podman
	need uidmap shadow-utils command -v newuidmap
	need runc runc command -v runc
	need crun crun command -v crun
fi
if [ "$what" = containers ] || [ "$what" = kubernetes ] || [ "$what" = labs ]; then
	need containernetworking-plugins containernetworking-plugins sh -c 'test -x /usr/lib/cni/bridge || test -x /usr/libexec/cni/bridge'
	need docker.io moby-engine sh -c 'command -v docker && command -v dockerd'
	need qemu-user-static qemu-user-static command -v qemu-aarch64-static
fi
if [ "$what" = kubernetes ]; then
	need etcd-server etcd command -v etcd
	need dnsmasq-base dnsmasq test -x /usr/sbin/dnsmasq
	need openssl openssl command -v openssl
	need busybox-static busybox command -v busybox
fi
if [ "$what" = labs ]; then
	need docker-compose docker-compose command -v docker-compose
	need podman-compose podman-compose command -v podman-compose
	# gives names to podman's containers
	need golang-github-containernetworking-plugin-dnsname podman-plugins sh -c 'test -x /usr/lib/cni/dnsname || test -x /usr/libexec/cni/dnsname'
fi

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)

if [ ${#missing[@]} -eq 0 ]; then
	echo "setup: every package needed is installed"
else
	echo "setup: missing: ${missing[*]}"
	if [ -z "$manager" ]; then
		echo "setup: this machine has neither apt-get nor dnf: install these packages (Debian names) by hand" >&2
		exit 1
	fi
	if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null 2>&1; then
		echo "setup: run as root: $manager install ${missing[*]}" >&2
		exit 1
	fi
	case $manager in
	apt-get)
		# tshark's package asks a question otherwise; the answer (no) is its default.
		apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y --no-install-recommends)
		# The lists of a fresh machine are empty, and those of an old image name versions that the
		# mirror does not have any more.
		"${as_root[@]}" apt-get -q update
		echo "setup: ${apt[*]} install ${missing[*]}"
		"${apt[@]}" install "${missing[@]}"
		;;
	dnf)
		echo "setup: ${as_root[*]} dnf install ${missing[*]}"
		"${as_root[@]}" dnf install -y --setopt=install_weak_deps=False "${missing[@]}"
		;;
	esac
fi

[ "$what" = tests ] || exit 0

# Debian ships rdma-core's Python tests as documentation, which slim images leave out.
tests=usr/share/doc/rdma-core/tests
if [ "$manager" = apt-get ] && [ ! -e "/$tests/run_tests.py" ] && [ ! -e "bin/$tests/run_tests.py" ]; then
	echo "setup: unpacking rdma-core's tests into bin/$tests"
	work=$(mktemp -d)
	(cd "$work" && apt-get download -o APT::Sandbox::User="$(id -un)" python3-pyverbs)
	mkdir -p bin
	dpkg-deb --fsys-tarfile "$work"/python3-pyverbs_*.deb | tar -x -C bin "./$tests"
	rm -rf "$work"
fi

./scripts/newer-rdma-core.sh bin/rdma-core-newer
./scripts/debian-kernel.sh bookworm >/dev/null
