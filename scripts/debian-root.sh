#!/usr/bin/env bash
# Makes bin/root-bookworm.tar, a Debian with the programs that the test of the package needs
# beside it, and nothing of gorxe. Does nothing if the file is there.
set -euo pipefail
cd "$(dirname "$0")/.."
root=bin/root-bookworm.tar
[ -e "$root" ] && exit 0
mkdir -p bin
echo "debian-root: making $root (once; two minutes)"
mmdebstrap --variant=minbase --quiet \
	--include=ibverbs-providers,ibverbs-utils,perftest,man-db,bash-completion,iproute2,systemd,sysvinit-utils \
	bookworm "$root.new.tar"
mv "$root.new.tar" "$root"
