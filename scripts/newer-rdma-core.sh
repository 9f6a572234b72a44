#!/usr/bin/env bash
# Unpacks the ibverbs-utils, rdmacm-utils, perftest, UCX, MPI, monitors, verbs headers, iproute2,
# infiniband-diags and pyverbs with rdma-core's tests of a newer Debian release, with every library
# that they need. They run in the directory with chroot. It has empty directories as mount points
# for /proc, /sys, /dev and /tmp.
# Nothing is installed, and apt's own configuration is not touched.
# usage: scripts/newer-rdma-core.sh DIR [RELEASE]   (default trixie)
set -euo pipefail
. "$(dirname "$0")/private-apt.sh"

dir=$1
release=${2:-trixie}
packages=(ibverbs-utils ibverbs-providers libibverbs-dev rdmacm-utils perftest ucx-utils openmpi-bin mpich
	prometheus-node-exporter hwloc-nox iproute2 infiniband-diags python3-pyverbs coreutils dash sed)

if [ -e "$dir/.complete" ] && [ "$(cat "$dir/.packages" 2>/dev/null)" = "${packages[*]}" ]; then
	echo "newer rdma-core: $(cat "$dir/.complete") in $dir"
	exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
private_apt "$work" "$release"
apt-get "${apt[@]}" install -y --download-only "${packages[@]}"

unpack_archives "$work" "$dir" usr/share/doc/rdma-core/tests
echo "${packages[*]}" >"$dir/.packages"
dpkg-deb -f "$work"/archives/libibverbs1_*.deb Version >"$work/version"
echo "rdma-core $(cat "$work/version") of Debian $release" >"$dir/.complete"
cat "$dir/.complete"
