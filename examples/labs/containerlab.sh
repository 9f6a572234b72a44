#!/bin/sh
# containerlab.sh runs all-to-all.sh on the hosts of rails.clab.yml. containerlab needs the image of
# dist/container as gorxe:latest, and bridges that exist.
set -eu
cd "$(dirname "$0")"
devices=
for r in 1 2 3 4 5 6 7 8; do
    for bridge in spine$r leafa$r leafb$r; do
        ip link add $bridge type bridge
        ip link set $bridge up
    done
    devices="$devices --device rxe$((r - 1))=eth$r"
done
containerlab deploy --topo rails.clab.yml
for h in 1 2 3 4 5 6 7 8; do
    docker cp all-to-all.sh clab-rails-h$h:/
    # shellcheck disable=SC2086 # the devices are words
    docker exec --env GORXE_RANK=$((h - 1)) --env GORXE_HOSTS=h1,h2,h3,h4,h5,h6,h7,h8 clab-rails-h$h \
        gorxe run $devices /all-to-all.sh &
done
wait
containerlab destroy --topo rails.clab.yml
for r in 1 2 3 4 5 6 7 8; do
    for bridge in spine$r leafa$r leafb$r; do
        ip link del $bridge
    done
done
