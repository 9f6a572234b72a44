#!/usr/bin/env bash
# A step of action.yml: judges the capture, and writes the job's summary.
set -euo pipefail
INPUT_DEVICES='' source "$(dirname "$0")/devices.sh"

if [ ! -s "$capture" ]; then
	echo "gorxe: there is no capture" >>"$GITHUB_STEP_SUMMARY"
	exit 0
fi
check=0
gorxe pcap check "$capture" >"$dir/check.txt" 2>&1 || check=$?
gorxe pcap show --html "$dir/packets.html" "$capture" >/dev/null 2>&1 || true
violations=$(sed -n 's/.*: \([0-9]*\) violations.*/\1/p' "$dir/check.txt" | tail -n 1)
{
	echo "capture=$capture"
	echo "violations=${violations:-0}"
} >>"$GITHUB_OUTPUT"
{
	echo "### RDMA traffic"
	echo
	case $check in
	0) echo "The packets obey the protocol." ;;
	1) echo "**The packets violate the protocol.**" ;;
	*) echo "The capture could not be judged." ;;
	esac
	echo
	echo '```'
	tail -n 40 "$dir/check.txt"
	echo '```'
	if [ -n "${GORXE_SOCKET:-}" ]; then
		echo
		echo "<details><summary>The daemon's devices and programs</summary>"
		echo
		echo '```'
		gorxe status --socket "$GORXE_SOCKET" 2>&1 | tee "$dir/status.txt" || true
		echo '```'
		echo
		echo "</details>"
	fi
} >>"$GITHUB_STEP_SUMMARY"
