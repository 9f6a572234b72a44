# Runs the tools that look at RDMA devices, on a device that some programs use.
# usage: session.sh ROOT ADDRESS COMMANDS
#
# ROOT is where a Debian is unpacked, or empty for this one. ADDRESS is the device's. COMMANDS
# has one command a line. The output has "$ COMMAND", what the command writes, and
# "= STATUS".
root=$1 address=$2 commands=$3

enter='root=$1; shift
for d in proc sys dev; do mount --rbind /$d "$root/$d" || exit 1; done
exec chroot "$root" "$@"'

run() {
	if [ -z "$root" ]; then
		"$@"
	else
		unshare --mount sh -c "$enter" sh "$root" "$@"
	fi
}

PATH=$PATH:/usr/sbin
# until_true PROCESS COMMAND waits for what a program makes.
until_true() {
	until eval "$2"; do
		kill -0 "$1" || exit 1
		sleep 0.1
	done
}

# The first has made everything before the second starts, so numbers rise in the same order.
ibv_srq_pingpong -d rxe0 -g 1 -q 4 -p 18999 >/dev/null 2>&1 &
pingpong=$!
trap 'kill $pingpong' EXIT
until_true $pingpong '[ "$(rdma resource show qp pid $pingpong | grep -c "state INIT")" = 4 ]'
rping -s -a "$address" -p 7171 >/dev/null 2>&1 &
rping=$!
trap 'kill $pingpong $rping' EXIT
until_true $rping 'rdma resource show cm_id pid $rping | grep -q LISTEN'
number() { rdma resource show "$1" pid "$2" | sed -n "s/.* $3 \([0-9]*\).*/\1/p" | head -n 1; }
qpn=$(number qp $pingpong lqpn)
pdn=$(number pd $pingpong pdn)

echo "$commands" | while read -r command; do
	echo "\$ $command"
	eval "run $command" </dev/null 2>&1
	echo "= $?"
done
