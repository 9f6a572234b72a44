#!/usr/bin/env bash
# Unpacks DPDK's testpmd of a Debian release, with every library that it needs, and its drivers.
# TestDPDK runs it there with chroot. Nothing is installed.
# usage: scripts/dpdk-root.sh DIR RELEASE
set -euo pipefail
. "$(dirname "$0")/private-apt.sh"

dir=$1
release=$2

if [ -e "$dir/.complete" ]; then
	echo "DPDK: $(cat "$dir/.complete") in $dir"
	exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
private_apt "$work" "$release"
# Without what compiles programs. Memory pools are drivers, and not all releases name that of rings.
mapfile -t libraries < <(
	apt-cache "${apt[@]}" depends --no-recommends --no-suggests dpdk-dev | sed -n 's/^ *Depends: //p' | grep -v -e ^libdpdk-dev -e ^python3 -e '^<'
	apt-cache "${apt[@]}" pkgnames librte-mempool-ring)
apt-get "${apt[@]}" install -y --download-only "${libraries[@]}" coreutils dash
(cd "$work/archives" && apt-get "${apt[@]}" download dpdk-dev)
unpack_archives "$work" "$dir"
mkdir -p "$dir/run"
ln -sfn /run "$dir/var/run"
echo "DPDK $(dpkg-deb -f "$work"/archives/dpdk-dev_*.deb Version) of Debian $release" >"$dir/.complete"
cat "$dir/.complete"
