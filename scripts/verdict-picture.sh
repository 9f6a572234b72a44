#!/bin/sh
# Draws docs/verdict.png: the page of a run that loses packets. Needs bin/gorxe, ibverbs-utils and
# Chromium.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/bin:$PATH
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
here=$PWD
cd "$dir"
ping="ibv_rc_pingpong -d rxe0 -g 1 -n 200 -s 8192"
# shellcheck disable=SC2086
GORXE_SOCKET=$dir/s gorxe pair --verdict v --fault 'packet drop,p=1%' $ping -- $ping 127.0.0.1
browser=$(command -v chromium-headless-shell || command -v chromium)
"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$dir/p" --virtual-time-budget=5000 \
	--window-size=1100,1160 --screenshot="$here/docs/verdict.png" "file://$dir/v/verdict.html"
