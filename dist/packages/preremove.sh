#!/bin/sh
# Before gorxe is removed. An upgrade leaves the service alone: dpkg says "upgrade", and rpm
# the number of versions that remain.
set -e
case "${1:-remove}" in
upgrade | failed-upgrade | 1) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	systemctl disable --now gorxe.socket gorxe.service || true
fi
