#!/usr/bin/env bash
# A step of action.yml: runs the user's commands with an RDMA device. Its exit status is theirs.
set -euo pipefail
source "$(dirname "$0")/devices.sh"

script=$dir-commands.sh
printf '%s\n' "$INPUT_RUN" >"$script"
commands=(bash --noprofile --norc -eo pipefail "$script")
if [ -n "${GORXE_SOCKET:-}" ]; then
	exec gorxe run -- "${commands[@]}" # the daemon has the devices and the capture
fi
# --private: several runners may share a host and a user.
exec gorxe run --private "${devices[@]}" --verdict "$verdict" -- "${commands[@]}"
