#!/usr/bin/env bash
# A step of action.yml: starts a daemon for the rest of the job.
set -euo pipefail
source "$(dirname "$0")/devices.sh"

socket=$dir-daemon.sock
log=$dir/daemon.log
if gorxe status --socket "$socket" >/dev/null 2>&1; then
	echo "::notice::an earlier step of this job has started the daemon"
	exit 0
fi
setsid gorxe daemon --socket "$socket" "${devices[@]}" --pcap "$capture" --log-level info </dev/null >"$log" 2>&1 &
daemon=$!
until gorxe status --socket "$socket" >/dev/null 2>&1; do
	if ! kill -0 "$daemon" 2>/dev/null; then
		echo "::error::gorxe daemon has ended: $(tail -n 1 "$log")"
		exit 1
	fi
	sleep 0.1
done
echo "GORXE_SOCKET=$socket" >>"$GITHUB_ENV"
gorxe status --socket "$socket"
