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
capture=$dir/rdma.pcapng
