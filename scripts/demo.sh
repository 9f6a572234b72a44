#!/usr/bin/env bash
# `make demo` runs this: stock RDMA programs, as Debian ships them, on a machine without
# RDMA hardware and without a kernel module. Then it runs gorxe's own demo. All traffic
# stays on the loopback interface.
set -euo pipefail
cd "$(dirname "$0")/.."

gorxe=./bin/gorxe
port=${DEMO_PORT:-18600} # TCP, where the programs meet

# The demo has its own daemon, whatever else runs on this machine.
work=$(mktemp -d)
server= # the one that runs in the background
trap 'if [ -n "$server" ]; then kill "$server" || true; fi; rm -rf "$work"' EXIT
export GORXE_SOCKET=$work/gorxe.sock

bold='' plain=''
if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; fi

say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

run() { # run COMMAND...: shows a command and runs it with a device
	say "\$ gorxe run $*"
	"$gorxe" run --device rxe0=lo -- "$@"
}

listens() { # listens PORT: somebody accepts TCP connections there
	grep -qiE "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$1") [0-9A-F]+:0000 0A " /proc/net/tcp /proc/net/tcp6
}

pair() { # pair SERVER-COMMAND...: runs it, and beside it its client
	say "\$ gorxe run $* &    # the server"
	"$gorxe" run --device rxe0=lo -- "$@" >"$work/server" 2>&1 &
	server=$!
	until listens "$port"; do
		kill -0 "$server" 2>/dev/null || { server=; cat "$work/server" >&2; exit 1; }
		sleep 0.05
	done
	run "$@" 127.0.0.1
	wait "$server" || { cat "$work/server" >&2; exit 1; }
	server=
}

both() { # both SERVER-COMMAND...: runs it and its client in a shell under one gorxe run
	say "\$ gorxe run    # a shell, and in it:"
	say "\$ $* & $* 127.0.0.1"
	export -f listens
	"$gorxe" run --device rxe0=lo -- bash -euc '
		log=$1 port=$2; shift 2
		"$@" >"$log" 2>&1 & server=$!
		until listens "$port"; do kill -0 "$server"; sleep 0.05; done
		"$@" 127.0.0.1
		wait "$server"' bash "$work/server" "$port" "$@" || { cat "$work/server" >&2; exit 1; }
}

say "1. The device, as libibverbs sees it"
run ibv_devinfo -d rxe0

say "2. A ping-pong between two processes, every byte checked (-c)"
pair ibv_rc_pingpong -d rxe0 -g 1 -c -p "$port"

say "3. Bandwidth of RDMA WRITE between two processes (perftest)"
pair ib_write_bw -d rxe0 -x 1 -F -p "$port"

say "4. Latency, with both programs under one run"
both ib_send_lat -d rxe0 -x 1 -F -s 8 -p "$port"

say "5. What the daemon holds (the runs above shared one; it ends with the last)"
say "\$ gorxe status"
"$gorxe" run --device rxe0=lo -- sleep 1 &
until "$gorxe" status 2>/dev/null; do sleep 0.05; done
wait
while "$gorxe" status >/dev/null 2>&1; do sleep 0.05; done

say "6. Two devices of a Go program, over UDP: package verbsapi"
"$gorxe" demo "$@"
