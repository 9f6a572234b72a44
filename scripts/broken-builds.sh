#!/usr/bin/env bash
# Shows that the tests against a kernel's rdma_rxe can fail. It builds gorxe with one mistake
# at a time, and requires that a ping-pong fails each time. Without a mistake it must pass.
# The mistakes are in an overlay of go build, so the tree does not change.
# usage: scripts/broken-builds.sh [TESTS]   (a pattern of go test -run)
set -euo pipefail
cd "$(dirname "$0")/.."

tests=${1:-'TestPingPong/^RC$/IPv4'}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
out=$PWD/bin/interop-broken
# A ping-pong takes a second or two; with a mistake it may hang.
export GORXE_INTEROP=quick GORXE_INTEROP_OUT=$out/none GORXE_INTEROP_PATIENCE=30s

run() { go test -count=1 -v -timeout 30m -run "$tests" ./internal/test/interop >"$log" 2>&1; }

# broken NAME FILE SED: the change must affect one line, and compile.
broken() {
	sed "$3" "$2" >"$work/broken.go"
	if [ "$(diff "$2" "$work/broken.go" | grep -c '^>')" -ne 1 ]; then
		echo "broken-builds: $1: not one line of $2 is changed by: $3" >&2
		exit 1
	fi
	printf '{"Replace": {"%s": "%s"}}\n' "$PWD/$2" "$work/broken.go" >"$work/overlay.json"
	go build -overlay "$work/overlay.json" -o "$work/gorxe" ./cmd/gorxe
	GORXE_INTEROP_OUT=$out/${1// /-}
	if GORXE_INTEROP_OVERLAY=$work/overlay.json run; then
		echo "broken-builds: $1: NOT noticed" >&2
		exit 1
	fi
	if ! grep -q '^ *--- FAIL: .*/' "$log"; then # no case: the machines did not even start
		cat "$log" >&2
		exit 1
	fi
	echo "$1: noticed; captures are in $GORXE_INTEROP_OUT"
	grep -E '^ *--- (FAIL|PASS): .*/.*/.*/' "$log"
	test -s "$(find "$GORXE_INTEROP_OUT" -name tap0.pcapng | head -n 1)"
}

run || { cat "$log" >&2; exit 1; }
echo "as it is: passes"
grep -E '^ *--- (FAIL|PASS): .*/.*/.*/' "$log"
broken "wrong ICRC seed" wire/icrc.go '/prefix4 = feed(/s/\^uint32(0)/0/'
broken "PSN off by one" rxe/requester_packets.go '/PSN: *psn,/s/psn,/psn+1,/'
broken "AckReq missing" rxe/gather.go '/h\.AckReq, .* = m\.acks\.next(/s/size)/size) \&\& false/'
