#!/bin/sh
# start.sh DAEMON runs munge and a daemon of Slurm.
set -e
mkdir -p /run/munge
chown munge:munge /run/munge
setpriv --reuid=munge --regid=munge --clear-groups munged
exec "$1" -D
