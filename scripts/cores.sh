#!/usr/bin/env bash
# Packs gorxe, perftest, ip, and what they need into one folder, which runs on any x86-64 Linux without
# packages, and runs it. usage: scripts/cores.sh FOLDER [pack]
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1
most_mib=60

[ "$(uname -m)" = x86_64 ] || { echo "cores: the folder is for x86-64" >&2; exit 1; }
rm -rf "$out"
mkdir -p "$out/bin" "$out/lib" "$out/libexec"
CGO_ENABLED=0 go build -trimpath -ldflags=-s -o "$out/bin/gorxe" ./cmd/gorxe
CGO_ENABLED=0 go build -trimpath -ldflags=-s -o "$out/bin/bench" ./scripts/bench

provider=$(ls /usr/lib/*/libibverbs/librxe-rdmav*.so)
cp "$provider" "$out/lib/"
for tool in ib_{write,send,read}_{bw,lat} ib_atomic_lat ip; do
	path=$(command -v "$tool") || { echo "cores: $tool is missing: make setup" >&2; exit 1; }
	cp "$path" "$out/libexec/"
	# The program's own loader and libraries. It must not need those of the machine.
	cat >"$out/bin/$tool" <<-'WRAPPER'
		#!/bin/sh
		here=$(cd "$(dirname "$0")/.." && pwd)
		exec "$here/lib/ld-linux-x86-64.so.2" --library-path "$here/lib" "$here/libexec/${0##*/}" "$@"
	WRAPPER
	chmod +x "$out/bin/$tool"
done
ldd "$out"/libexec/* "$provider" | awk '$2 == "=>" { print $3 } $1 ~ "/ld-linux" { print $1 }' | sort -u |
	xargs -I{} cp -L {} "$out/lib/"
cat >"$out/run" <<'RUN'
#!/bin/sh
# Measures 1, 2, 4, 8 and 16 pairs of programs at once, in ten minutes, and prints a table.
# As root, or with user namespaces, it measures two daemons as well. Arguments go to bench: -json.
here=$(cd "$(dirname "$0")" && pwd)
export PATH="$here/bin:$PATH"
# libibverbs loads the provider from here, and not from the machine's directories.
IBV_DRIVERS=$(ls "$here"/lib/librxe-rdmav*.so)
export IBV_DRIVERS="${IBV_DRIVERS%-rdmav*.so}"
exec bench -curve -gorxe "$here/bin/gorxe" -time 2s "$@"
RUN
chmod +x "$out/run"
size=$(du -sm "$out" | cut -f1)
echo "cores: $out has $size MiB; $out/run measures, here or on another machine" >&2
[ "$size" -le "$most_mib" ] || { echo "cores: more than $most_mib MiB" >&2; exit 1; }
[ "${2:-}" = pack ] || "$out/run"
