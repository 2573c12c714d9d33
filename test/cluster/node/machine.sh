#!/usr/bin/env bash
# The first process of the machine that holds the cluster: a network with a bridge that acts as the link between the
# nodes. The whole cluster lives in its PID namespace and ends with it.
#
# machine.sh DIRECTORY ADDRESS…: the directory of the cluster, by which this process is found later, and the addresses
# of the machine itself on that link, in prefix notation
set -euo pipefail
shift
mount --make-rprivate /
mount -t proc proc /proc
ip link set lo up
ip link add link0 type bridge
ip link set link0 up
for address; do ip address add "$address" dev link0 nodad; done
# bash reaps reparented processes while it waits.
sleep infinity &
wait
