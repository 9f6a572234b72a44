#!/bin/sh -e
# podman in TestImage: without a network, with Debian's packages from $HOME/debs.
command=$1
shift
case $command in
build)
	set -- --network none --pull-never --volume "$HOME/debs:/debs:ro" --volume "$HOME/sources.list:/etc/apt/sources.list:ro" "$@"
	;;
run)
	set -- --network none --pull never "$@"
	;;
esac
PATH=${PATH#"$HOME/offline:"}
exec podman --storage-driver overlay --runtime "${RUNTIME:-runc}" --cgroup-manager cgroupfs "$command" "$@"
