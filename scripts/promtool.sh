#!/usr/bin/env bash
# Unpacks promtool of Debian's package prometheus into DIR. Nothing is installed: the package would
# start a server.
# usage: scripts/promtool.sh DIR
set -euo pipefail

dir=$(mkdir -p "$1" && cd "$1" && pwd)
if [ -x "$dir/promtool" ]; then
	exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -q -o APT::Sandbox::User="$(id -un)" prometheus
dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool
mv usr/bin/promtool "$dir"
