#!/usr/bin/env bash
# debian-root.sh makes bin/root-bookworm.tar, a Debian with the programs that the test of the package
# needs beside it, and nothing of gorxe. "debian-root.sh slurm" makes bin/root-slurm.tar, a Debian with
# Slurm, for make test-labs. It does nothing if the file is there.
set -euo pipefail
cd "$(dirname "$0")/.."
name=${1:-bookworm}
packages=ibverbs-providers,ibverbs-utils,perftest,iproute2
case $name in
bookworm) packages+=,man-db,bash-completion,systemd,sysvinit-utils ;;
slurm) packages+=,slurmctld,slurmd,slurm-client,munge ;;
esac
root=bin/root-$name.tar
[ -e "$root" ] && exit 0
mkdir -p bin
echo "debian-root: making $root (once; two minutes)"
mmdebstrap --variant=minbase --quiet --include="$packages" bookworm "$root.new.tar"
mv "$root.new.tar" "$root"
