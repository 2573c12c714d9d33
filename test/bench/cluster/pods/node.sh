#!/bin/sh
# The first process of a node that has only a container runtime, within mount and PID namespaces of its own. The files
# that containerd, runc and libcni keep at fixed places are in memory and end with it.
#
# node.sh COMMAND…: the container runtime
set -eu
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
kept=/var/lib/cni
[ -d "$kept" ] || kept=/var/lib
mount -t tmpfs -o mode=755 tmpfs "$kept"
# The shell reaps the processes that are reparented to it while it waits.
"$@" &
wait
