import { constants } from "node:os";
import type { SeccompProfile } from "../confined/seccomp.ts";

/** Node does not name all of them. */
const ERRNO = { ...constants.errno, ESOCKTNOSUPPORT: 94 } as const;

type SeccompRule = SeccompProfile["syscalls"][number];

const AF_INET6 = 10;
const AF_NETLINK = 16;
const NETLINK_NETFILTER = 12;
const IPPROTO_SCTP = 132;
const SOCK_STREAM = 1;
const SOCK_DGRAM = 2;
const SOCK_SEQPACKET = 5;
/** Without SOCK_NONBLOCK and SOCK_CLOEXEC (SOCK_TYPE_MASK of linux/net.h). */
const TYPE_MASK = 0xf;
const BPF_PROG_LOAD = 5;

/** Kernel features that can be missing, each with the errno a kernel without it gives. */
export const MASKED_FEATURES = {
  /** CONFIG_NETFILTER_NETLINK is off (netlink_create). */
  nftables: [refused("socket", "EPROTONOSUPPORT", [argument(0, AF_NETLINK), argument(2, NETLINK_NETFILTER)])],
  /** CONFIG_IPV6 is off (__sock_create). */
  ipv6: [refused("socket", "EAFNOSUPPORT", [argument(0, AF_INET6)])],
  /**
   * CONFIG_IP_SCTP is off: other protocols have the first two types, none has the third, and raw sockets still work
   * (inet_create).
   */
  sctp: [
    sctpSocket(SOCK_STREAM, "EPROTONOSUPPORT"),
    sctpSocket(SOCK_DGRAM, "EPROTONOSUPPORT"),
    sctpSocket(SOCK_SEQPACKET, "ESOCKTNOSUPPORT"),
  ],
  /** A file system without locks: some network and FUSE ones. */
  fileLocks: [refused("flock", "ENOLCK")],
  /** A file system without hard links: FAT, some FUSE ones (vfs_link). */
  hardLinks: [refused("link", "EPERM"), refused("linkat", "EPERM")],
  /** CONFIG_BPF_SYSCALL is off. */
  bpf: [refused("bpf", "ENOSYS")],
  /** A kernel in lockdown, or a process that may not load programs (bpf_prog_load). */
  newPrograms: [refused("bpf", "EPERM", [argument(0, BPF_PROG_LOAD)])],
} satisfies Readonly<Record<string, readonly SeccompRule[]>>;

export type MaskedFeature = keyof typeof MASKED_FEATURES;

function sctpSocket(type: number, errno: keyof typeof ERRNO): SeccompRule {
  return refused("socket", errno, [argument(1, type, TYPE_MASK), argument(2, IPPROTO_SCTP)]);
}

function refused(name: string, errno: keyof typeof ERRNO, args: SeccompRule["args"] = []): SeccompRule {
  return { names: [name], action: "SCMP_ACT_ERRNO", errnoRet: ERRNO[errno], args };
}

/** Compares an argument, of which the kernel reads 32 bits. */
function argument(index: number, valueTwo: number, value = 0xffff_ffff): NonNullable<SeccompRule["args"]>[number] {
  return { index, op: "SCMP_CMP_MASKED_EQ", value, valueTwo };
}
