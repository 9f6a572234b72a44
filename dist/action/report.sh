#!/usr/bin/env bash
# A step of action.yml: judges the capture, and writes the job's summary. What went wrong comes first.
set -euo pipefail
INPUT_DEVICES='' source "$(dirname "$0")/devices.sh"

page=
if [ -z "${GORXE_SOCKET:-}" ] && [ -s "$verdict/verdict.md" ]; then
	page=$verdict/verdict.md
fi
failed=
if [ -n "$page" ] && ! head -n 1 "$page" | grep -q '^# Verdict: the [a-z]* ended well$'; then
	failed=1
	cat "$page" >>"$GITHUB_STEP_SUMMARY"
	echo >>"$GITHUB_STEP_SUMMARY"
fi
if [ ! -s "$capture" ]; then
	echo "gorxe: there is no capture" >>"$GITHUB_STEP_SUMMARY"
	exit 0
fi
check=0
results=$(dirname "$capture")
gorxe pcap check --allow-empty "$capture" >"$results/check.txt" 2>&1 || check=$?
if [ ! -e "$results/verdict.html" ]; then
	gorxe pcap show --html "$results/packets.html" "$capture" >/dev/null 2>&1 || true
fi
violations=$(sed -n 's/.*[:;] \([0-9]*\) violations\{0,1\}[,. ].*/\1/p' "$results/check.txt" | tail -n 1)
{
	echo "capture=$capture"
	echo "violations=${violations:-0}"
} >>"$GITHUB_OUTPUT"
{
	echo "### RDMA traffic"
	echo
	if [ "${violations:-0}" -gt 0 ]; then
		echo "**The packets violate the protocol.**"
	elif [ "$check" -ne 0 ]; then
		echo "The capture could not be judged."
	elif grep -q ': 0 packets,' "$results/check.txt"; then
		echo "The devices sent no packets."
	elif [ -n "$failed" ]; then
		echo "The packets obey the protocol. What failed is above."
	else
		echo "The packets obey the protocol."
	fi
	echo
	echo '```'
	tail -n 40 "$results/check.txt"
	echo '```'
	if [ -n "$page" ] && [ -z "$failed" ]; then
		echo
		echo "<details><summary>What the commands did with RDMA</summary>"
		echo
		cat "$page"
		echo
		echo "</details>"
	fi
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
