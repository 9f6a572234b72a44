#!/usr/bin/env bash
# Builds UCX's own tests (gtest) of Debian's source package, once, in a directory, and runs those of
# the transports over an adapter beside those over plain verbs. It prints what each says: OK, SKIP or
# FAILED, by name. The build takes half an hour on two processors, and the run as long.
# usage: scripts/ucx-gtest.sh GORXE DIR [FILTER...]
set -euo pipefail
. "$(dirname "$0")/private-apt.sh"

gorxe=$(realpath "$1")
mkdir -p "$2"
dir=$(realpath "$2")
shift 2
filters=("${@:-rc_mlx5/*}")
[ $# -gt 0 ] || filters=('rc_mlx5/*' 'rc_verbs/*' 'ud_mlx5/*' 'ud_verbs/*')
# Tests that measure, and those that wait for a peer's timeouts a hundred times.
without='*/test_uct_perf.*:*/test_uct_loopback.*:*/uct_cancel_test.*'

if [ ! -e "$dir/.complete" ]; then
	for tool in libtoolize autoconf automake g++ dpkg-source; do
		if ! command -v "$tool" >/dev/null; then
			echo "$0: needs $tool: make setup, and apt-get install libtool autoconf automake g++ dpkg-dev" >&2
			exit 1
		fi
	done
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	private_apt "$work" bookworm
	sed -i 's/^deb /deb-src /' "$work/sources.list"
	apt-get "${apt[@]}" update
	(cd "$work" && apt-get "${apt[@]}" --download-only source ucx)
	rm -rf "$dir/src"
	dpkg-source -x "$work"/ucx_*.dsc "$dir/src" >/dev/null
	cd "$dir/src"
	./autogen.sh
	# The tests' warnings are errors for another compiler than Debian's, and need -O2 for
	# always_inline.
	./configure --enable-gtest --enable-mt --with-verbs --with-rdmacm --enable-cma --disable-logging --without-java \
		--without-go --disable-doxygen-doc CFLAGS='-O1 -g0' CXXFLAGS='-O2 -g0 -Wno-error'
	for part in src/ucm src/ucs src/uct src/ucp src/tools/info src/tools/perf test/gtest; do
		make -C "$part" -j"$(nproc)"
	done
	touch "$dir/.complete"
fi >&2

failed=0
for filter in "${filters[@]}"; do
	log=$dir/${filter%%/*}.log
	UCX_NET_DEVICES=mlx5_0:1 timeout "${UCX_GTEST_TIME:-3600}" "$gorxe" run --private --device mlx5_0=lo -- \
		"$dir/src/test/gtest/gtest" --gtest_filter="$filter-$without" >"$log" 2>&1 || failed=1
	# A skipped test says both SKIP and OK. One that never ends, or ends the program, says neither.
	awk -v of="$filter" '
		/^\[ RUN / { name = $4; skip = 0; open = 1; ran++ }
		/^\[ +SKIP / { skip = 1 }
		/^\[ +OK / && open { open = 0; if (skip) skipped++; else ok++ }
		/^\[ +FAILED / && open { open = 0; bad++; print "FAILED " name }
		END { if (open) { bad++; print "did not end: " name }
			printf "%s: %d ran, %d passed, %d failed, %d skipped\n", of, ran, ok, bad, skipped }' "$log"
done
exit $failed
