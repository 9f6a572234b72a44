#!/bin/sh
# Prints what `gorxe run --sanitize` costs, with each group of checks: how many times slower programs
# are, and how much memory the daemon takes. Needs what scripts/setup.sh installs, and root or the
# right to make network namespaces. Takes 3 minutes. A busy machine has no time for all groups, and the
# script says which are missing.
#
#	scripts/sanitizer-cost.sh [GORXE [DEVICE]]
#	scripts/sanitizer-cost.sh bin/gorxe mlx5_0	# with libmlx5
set -eu
cd "$(dirname "$0")/.."
gorxe=$(readlink -f "${1:-bin/gorxe}")
device=${2:-rxe0}
if [ -z "${GORXE_COST_NS:-}" ]; then
	GORXE_COST_NS=1 exec unshare -rn "$0" "$gorxe" "$device"
fi
ip link set lo up
end=$(($(date +%s) + 200))
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mpicc.mpich -O2 -w -o "$dir/mpi" internal/test/e2e/testdata/mpi.c

# pair runs a program as server and client, and prints what the client says.
pair() {
	"$gorxe" pair --socket "$dir/socket" $checks "$@" -- "$@" 127.0.0.1 2>"$dir/err" | sed -n 's/^client: //p'
}

# Each prints the time of one operation, or what is proportional to it.
write_64k() { pair ib_write_bw -d "$device" -x 1 -F -n 2000 | awk '$1 == 65536 {print 1/$4}'; }
write_8() { pair ib_write_bw -d "$device" -x 1 -F -n 5000 -s 8 | awk '$1 == 8 {print 1/$5}'; }
send_lat() { pair ib_send_lat -d "$device" -x 1 -F -n 2000 | awk '$1 == 2 {print $5}'; }
ucx() {
	UCX_TLS=ib UCX_NET_DEVICES="$device:1" pair unshare --ipc --pid --fork --kill-child ucx_perftest -t tag_bw -s 8192 -n 5000 -w 100 |
		awk '/^Final/ {print $5}'
}
mpi() {
	start=$(date +%s%N)
	UCX_TLS=ib UCX_NET_DEVICES="$device:1" "$gorxe" run --socket "$dir/socket" $checks mpirun.mpich -n 2 "$dir/mpi" "$dir/result" >"$dir/out" 2>&1
	echo $(($(date +%s%N) - start))
}

# best runs a program twice, and prints the best.
best() { for _ in 1 2; do "$1"; done | sort -g | head -n 1; }

programs="write_64k write_8 send_lat ucx mpi"
echo '| checks | `ib_write_bw` | of 8 bytes | `ib_send_lat` | `ucx_perftest` | MPICH | memory of the daemon |'
echo '|---|---|---|---|---|---|---|'
for group in none default all keys buffers lifetime queues state races; do
	if [ "$(date +%s)" -ge $end ]; then
		echo "$group: no time is left" >&2
		continue
	fi
	checks=
	[ $group = none ] || checks="--sanitize=$group"
	"$gorxe" daemon --socket "$dir/socket" --device "$device=lo" 2>"$dir/daemon" &
	daemon=$!
	until grep -q ready "$dir/daemon"; do sleep 0.1; done
	row="| $group |"
	for program in $programs; do
		t=$(best $program)
		[ $group != none ] || eval "base_$program=\$t"
		eval "base=\$base_$program"
		row="$row $(awk -v t="$t" -v base="$base" 'BEGIN {printf "%.1f", t/base}') |"
	done
	echo "$row $(awk '/VmHWM/ {printf "%.0f", $2/1024}' /proc/$daemon/status) MiB |"
	kill $daemon
	wait $daemon || true
done
