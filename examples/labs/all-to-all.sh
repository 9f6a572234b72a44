#!/bin/sh
# Each host of a lab exchanges messages with each other one. The numbers of both choose the rail. The
# host with the lower number is the client.
set -eu
rails=$(ls /sys/class/infiniband | wc -l)
n=0
for peer in $(echo "$GORXE_HOSTS" | tr , ' '); do
    if [ $n -lt "$GORXE_RANK" ]; then
        ibv_rc_pingpong -e -d rxe$(((n + GORXE_RANK) % rails)) -g 1 -n 10 -p $((18000 + n)) >/dev/null &
    fi
    n=$((n + 1))
done
n=0
for peer in $(echo "$GORXE_HOSTS" | tr , ' '); do
    if [ $n -gt "$GORXE_RANK" ]; then
        tries=0
        until ibv_rc_pingpong -e -d rxe$(((n + GORXE_RANK) % rails)) -g 1 -n 10 -p $((18000 + GORXE_RANK)) "$peer" >/dev/null 2>&1; do
            tries=$((tries + 1)) # the peer may not listen yet
            [ $tries -lt 1000 ] || exit 1
        done
    fi
    n=$((n + 1))
done
for server in $(jobs -p); do
    wait "$server"
done
echo "exchanged messages with $((n - 1)) hosts on $rails rails"
