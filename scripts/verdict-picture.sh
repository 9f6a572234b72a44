#!/bin/sh
# Draws docs/verdict.png and docs/timeline.png: the page of a run that loses packets, and its charts.
# Needs bin/gorxe, ibverbs-utils and Chromium.
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

# picture FILE PLACE HEIGHT: the page from a place on.
picture() {
	echo "<body style='margin:0'><iframe style='border:0;width:1100px;height:$3px' src='v/verdict.html#$2'></iframe>" >frame.html
	"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$dir/p" --virtual-time-budget=5000 \
		--window-size=1100,"$3" --screenshot="$here/docs/$1" "file://$dir/frame.html"
}
picture verdict.png verdict 1030
picture timeline.png zoom-in 915
