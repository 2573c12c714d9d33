import type { MaskRule } from "./filter.ts";

const AF_INET6 = 10;
const AF_NETLINK = 16;
const NETLINK_NETFILTER = 12;
const IPPROTO_SCTP = 132;
const SOCK_STREAM = 1;
const SOCK_DGRAM = 2;
const SOCK_SEQPACKET = 5;
/** Without SOCK_NONBLOCK and SOCK_CLOEXEC (SOCK_TYPE_MASK of linux/net.h). */
const TYPE_BITS = { 1: 0xf };
const BPF_PROG_LOAD = 5;
const BPF_PROG_QUERY = 16;

/** Kernel features that can be missing, each with the errno a kernel without it gives. */
export const MASKED_FEATURES = {
  /** CONFIG_NETFILTER_NETLINK is off (netlink_create). */
  nftables: [{ call: "socket", arguments: { 0: AF_NETLINK, 2: NETLINK_NETFILTER }, errno: "EPROTONOSUPPORT" }],
  /** CONFIG_IPV6 is off (__sock_create). */
  ipv6: [{ call: "socket", arguments: { 0: AF_INET6 }, errno: "EAFNOSUPPORT" }],
  /**
   * CONFIG_IP_SCTP is off: other protocols have the first two types, none has the third, and raw sockets still work
   * (inet_create).
   */
  sctp: [
    { call: "socket", arguments: { 1: SOCK_STREAM, 2: IPPROTO_SCTP }, bits: TYPE_BITS, errno: "EPROTONOSUPPORT" },
    { call: "socket", arguments: { 1: SOCK_DGRAM, 2: IPPROTO_SCTP }, bits: TYPE_BITS, errno: "EPROTONOSUPPORT" },
    { call: "socket", arguments: { 1: SOCK_SEQPACKET, 2: IPPROTO_SCTP }, bits: TYPE_BITS, errno: "ESOCKTNOSUPPORT" },
  ],
  /** A file system without locks: some network and FUSE ones. */
  fileLocks: [{ call: "flock", errno: "ENOLCK" }],
  /** A file system without hard links: FAT, some FUSE ones (vfs_link). */
  hardLinks: [
    { call: "link", errno: "EPERM" },
    { call: "linkat", errno: "EPERM" },
  ],
  /** CONFIG_BPF_SYSCALL is off. */
  bpf: [{ call: "bpf", errno: "ENOSYS" }],
  /** Before Linux 6.6, or without CONFIG_NET_XGRESS, there is no list of programs (bpf_prog_query). */
  linkPrograms: [{ call: "bpf", arguments: { 0: BPF_PROG_QUERY }, errno: "EINVAL" }],
  /** A kernel in lockdown, or a process that may not load programs (bpf_prog_load). */
  newPrograms: [{ call: "bpf", arguments: { 0: BPF_PROG_LOAD }, errno: "EPERM" }],
} as const satisfies Readonly<Record<string, readonly MaskRule[]>>;

export type MaskedFeature = keyof typeof MASKED_FEATURES;
