# Sourced by the steps of action.yml: puts the flags for INPUT_DEVICES into the array devices.
devices=()
if [[ $INPUT_DEVICES =~ ^[0-9]+$ ]]; then
	devices=(--devices "$INPUT_DEVICES")
else
	while read -r device; do
		[ -z "$device" ] || devices+=(--device "$device")
	done <<<"$INPUT_DEVICES"
fi
dir=${RUNNER_TEMP:-/tmp}/gorxe
mkdir -p "$dir"
verdict=$dir/verdict
# A daemon of the job captures for all steps. Without one, a verdict has the packets of its step.
if [ -n "${GORXE_SOCKET:-}" ] || [ "$(basename "$0")" = daemon.sh ]; then
	capture=$dir/rdma.pcapng
else
	capture=$verdict/packets.pcapng
fi
