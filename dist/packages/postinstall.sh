#!/bin/sh
# After gorxe was installed: the group of gorxe.socket. The service is not enabled, because
# `gorxe run` needs none.
set -e
if ! getent group rdma >/dev/null 2>&1; then
	if command -v groupadd >/dev/null 2>&1; then
		groupadd --system rdma
	else
		addgroup -S rdma # Alpine
	fi
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
