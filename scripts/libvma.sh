#!/usr/bin/env bash
# Builds libvma, which Debian does not have, from its source at a version into DIR/libvma.so.
# LIBVMA_SOURCE is the repository or a checkout that git can clone.
# usage: scripts/libvma.sh DIR [VERSION]
set -euo pipefail

dir=$(realpath -m "$1")
version=${2:-9.8.84}
source=${LIBVMA_SOURCE:-https://github.com/Mellanox/libvma}

if [ "$(cat "$dir/.version" 2>/dev/null)" = "$version" ]; then
	echo "libvma: $version in $dir"
	exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! git clone -q -c advice.detachedHead=false -b "$version" "$source" "$work/libvma"; then
	echo "libvma.sh: cannot clone $source at $version: set LIBVMA_SOURCE to a copy of the repository" >&2
	exit 1
fi
echo "compiling libvma $version (once; minutes on two cores)"
cd "$work/libvma"
if ! { ./autogen.sh && ./configure --disable-static && make -j"$(nproc)"; } >"$work/log" 2>&1; then
	tail -n 20 "$work/log" >&2
	exit 1
fi
mkdir -p "$dir"
cp -L src/vma/.libs/libvma.so "$dir/libvma.so"
echo "$version" >"$dir/.version"
