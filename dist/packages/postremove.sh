#!/bin/sh
# After gorxe was removed. The group stays, because rdma-core's packages use it.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
