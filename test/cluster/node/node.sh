#!/usr/bin/env bash
# The first process of a node: makes its own mounts for everything that a container runtime, a kubelet and an add-on
# keep on a machine, then the node's network.
#
# node.sh NAME DIRECTORY SHOWN...: the directory keeps the node's files; SHOWN are directories of the machine that the
# node must see, wherever they are
set -euo pipefail
name=$1
directory=$2
shown=("${@:3}")

# A node's part of each cgroup hierarchy becomes the root that it sees.
join_cgroups() {
  local hierarchy
  for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*; do
    [[ -f $hierarchy/cgroup.procs ]] || continue
    mkdir -p "$hierarchy/drawbridge-cluster/$name"
    if [[ -f $hierarchy/cpuset.cpus ]]; then
      for part in "$hierarchy/drawbridge-cluster" "$hierarchy/drawbridge-cluster/$name"; do
        cat "$hierarchy/cpuset.cpus" >"$part/cpuset.cpus"
        cat "$hierarchy/cpuset.mems" >"$part/cpuset.mems"
      done
    fi
    echo $$ >"$hierarchy/drawbridge-cluster/$name/cgroup.procs"
  done
}

mount_cgroups() {
  local line controllers point
  mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
  # /proc/self/cgroup: number, controllers (empty for cgroup2), path.
  while IFS=: read -r _ controllers _; do
    if [[ -z $controllers ]]; then
      if [[ $(wc -l </proc/self/cgroup) -eq 1 ]]; then
        mount -t cgroup2 cgroup2 /sys/fs/cgroup
        return
      fi
      mkdir /sys/fs/cgroup/unified
      mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified
    else
      point=/sys/fs/cgroup/${controllers#name=}
      mkdir "$point"
      mount -t cgroup -o "$controllers" cgroup "$point"
    fi
  done </proc/self/cgroup
}

# A mount needs a directory or file below it. Those that this machine does not have are removed with the cluster.
remember() {
  local missing=$1
  while [[ -n $missing && ! -e $missing ]]; do
    echo "$missing" >>"$directory/../made"
    missing=${missing%/*}
  done
}

keep() {
  remember "$1"
  mkdir -p "$1" "$directory$1"
  for one in "${shown[@]}"; do
    [[ $one == "$1"/* ]] || continue
    mkdir -p "$directory$one"
    mount --bind "$one" "$directory$one"
  done
  mount --rbind "$directory$1" "$1"
}

if [[ ${DRAWBRIDGE_NODE_STAGE:-} != inside ]]; then
  join_cgroups
  export DRAWBRIDGE_NODE_STAGE=inside
  exec unshare --mount --net --pid --fork --uts --ipc --cgroup --kill-child -- "$0" "$name" "$directory" "${shown[@]}"
fi

hostname "$name"
mount --make-rprivate /
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount_cgroups
mount -t tmpfs -o mode=755 tmpfs /run
for kept in /etc/kubernetes /etc/cni /opt/cni /opt/containerd /usr/libexec/kubernetes /etc/containerd /var/lib/containerd /var/lib/kubelet /var/lib/cni /var/log /var/lib/etcd /tmp; do
  keep "$kept"
done
chmod 1777 /tmp
for file in hosts resolv.conf machine-id; do
  [[ -f $directory/etc/$file ]] || : >"$directory/etc/$file"
  remember "/etc/$file"
  [[ -e /etc/$file ]] || : >"/etc/$file"
  mount --bind "$directory/etc/$file" "/etc/$file"
done
# The kubelet sets these, which apply to the whole machine: a node has files in their place.
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  mkdir -p "$directory/sysctl/${setting%/*}"
  cat "/proc/sys/$setting" >"$directory/sysctl/$setting"
  mount --bind "$directory/sysctl/$setting" "/proc/sys/$setting"
done
# The kubelet's mounts propagate to the containers that request it.
mount --make-rshared /
ip link set lo up
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv6.conf.all.accept_ra=0
echo $$ >/run/node.ready
sleep infinity &
wait
