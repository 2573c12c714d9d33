import { createHash } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, readFileSync, renameSync, appendFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { CACHE } from "../setup/debian.mjs";
import { makeWhole } from "../setup/whole_directory.mjs";
import type { Kernel } from "./kernels.ts";
import { run, unpacked } from "./packages.ts";

const DIRECTORY = path.join(CACHE, "kernels/uml");

/** The options beyond the default of User Mode Linux; without modules, everything is built in. */
const OPTIONS = `
  BLK_DEV_INITRD SECCOMP MEMCG CGROUP_PIDS CGROUP_BPF BPF_SYSCALL USER_NS PID_NS NET_NS TMPFS_XATTR MEMFD_CREATE
  OVERLAY_FS FHANDLE TASKSTATS TASK_DELAY_ACCT
  IPV6 IP_ADVANCED_ROUTER IP_MULTIPLE_TABLES IPV6_MULTIPLE_TABLES PACKET_DIAG INET_DIAG INET_UDP_DIAG
  INET_DIAG_DESTROY UNIX_DIAG IP_SCTP
  BRIDGE BRIDGE_VLAN_FILTERING VETH VLAN_8021Q VXLAN WIREGUARD DUMMY IFB TUN MACVLAN IPVLAN BONDING NET_VRF
  NET_SCHED NET_SCH_TBF NET_SCH_INGRESS NET_SCH_FQ_CODEL NET_SCH_HTB NET_SCH_PRIO NET_SCH_NETEM NET_CLS NET_CLS_ACT
  NET_CLS_U32 NET_CLS_BPF NET_CLS_MATCHALL NET_CLS_FLOWER NET_ACT_MIRRED NET_ACT_GACT
  NETFILTER NETFILTER_ADVANCED BRIDGE_NETFILTER NETFILTER_INGRESS NETFILTER_EGRESS NETFILTER_NETLINK_LOG
  NETFILTER_NETLINK_QUEUE NF_CONNTRACK NF_CONNTRACK_MARK NF_CONNTRACK_ZONES NF_CONNTRACK_PROCFS NF_CONNTRACK_EVENTS
  NF_CONNTRACK_TIMEOUT NF_CONNTRACK_TIMESTAMP NF_CONNTRACK_LABELS NF_CT_PROTO_SCTP NF_CT_PROTO_UDPLITE
  NF_CT_PROTO_DCCP NF_CT_NETLINK NETFILTER_NETLINK_GLUE_CT NF_NAT
  NF_TABLES NF_TABLES_INET NF_TABLES_NETDEV NF_TABLES_IPV4 NF_TABLES_IPV6 NF_TABLES_ARP NF_TABLES_BRIDGE NFT_NUMGEN
  NFT_CT NFT_LOG NFT_LIMIT NFT_CONNLIMIT NFT_MASQ NFT_REDIR NFT_NAT NFT_OBJREF NFT_QUEUE NFT_QUOTA NFT_REJECT
  NFT_COMPAT NFT_HASH NFT_SOCKET NFT_TPROXY NFT_FIB_IPV4 NFT_FIB_IPV6 NFT_FIB_INET NFT_FIB_NETDEV NFT_DUP_NETDEV
  NFT_FWD_NETDEV NFT_BRIDGE_META NFT_BRIDGE_REJECT NF_CONNTRACK_BRIDGE NF_LOG_SYSLOG
  NETFILTER_XTABLES IP_NF_IPTABLES IP_NF_FILTER IP_NF_NAT IP6_NF_IPTABLES IP6_NF_FILTER IP6_NF_NAT
  NETFILTER_XT_MATCH_COMMENT NETFILTER_XT_MATCH_CONNTRACK NETFILTER_XT_MATCH_MARK NETFILTER_XT_TARGET_MASQUERADE
  NETFILTER_XT_MATCH_ADDRTYPE`
  .trim()
  .split(/\s+/);
/** Options of its default that a guest does not need, and those that put devices of tunnels into each namespace. */
const NEEDLESS =
  "MODULES DEBUG_KERNEL DEBUG_INFO UML_NET UML_SOUND SOUND INET_ESP REISERFS_FS EXT4_FS ISO9660_FS QUOTA IPV6_SIT " +
  "NET_IPIP BLK_DEV_LOOP PPP SLIP WERROR";

/**
 * Returns a Debian kernel built as User Mode Linux, which is a program, and its release: from the user's cache where an
 * earlier run has built it. An option that many files ask for costs nearly a whole build (BRIDGE).
 *
 * @throws Error when it cannot be built, or has other options than those
 */
export function userModeLinux(kernel: Kernel): { readonly image: string; readonly release: string } {
  const image = built(kernel);
  return { image, release: run(image, ["--version"]).trim() };
}

function built({ suite, debianPackage, without = [] }: Kernel): string {
  const options = new Map([
    ...OPTIONS.map((name) => [name, !without.includes(name)] as const),
    ...NEEDLESS.split(" ").map((name) => [name, false] as const),
    ["DEBUG_INFO_NONE", true] as const,
  ]);
  const lines = [...options].map(([name, isOn]) => `CONFIG_${name}=${isOn ? "y" : "n"}\n`).join("");
  const hash = createHash("sha256").update(debianPackage).update(lines).digest("hex").slice(0, 12);
  const program = path.join(DIRECTORY, `linux-${hash}`);
  if (existsSync(program)) return program;
  const source = path.join(DIRECTORY, debianPackage);
  if (!existsSync(source)) {
    const packages = unpacked({ suite, architecture: "x64", packages: [debianPackage], pattern: /^linux-source-\d/ });
    const archive = path.join(packages, "usr/src", `${debianPackage}.tar.xz`);
    makeWhole(source, (unfinished) => run("tar", ["-xf", archive, "--strip-components=1", "-C", unfinished]));
  }
  // Kernels with other options are built where the one before them was: only what differs is compiled again.
  const output = path.join(DIRECTORY, "out");
  mkdirSync(output, { recursive: true });
  const make = (...targets: readonly string[]): string =>
    run("make", ["-C", source, "ARCH=um", `O=${output}`, ...targets]);
  const configuration = path.join(output, ".config");
  make("x86_64_defconfig");
  appendFileSync(configuration, lines);
  make("olddefconfig");
  const isOn = (name: string): boolean => readFileSync(configuration, "utf8").includes(`\nCONFIG_${name}=y\n`);
  // Without an option, those that depend on it go, too.
  const other = without.length === 0 ? OPTIONS.filter((name) => !isOn(name)) : without.filter(isOn);
  if (other.length > 0) throw new Error(`User Mode Linux does not take these options: ${other.join(", ")}`);
  make(`-j${os.availableParallelism()}`, "linux");
  copyFileSync(path.join(output, "linux"), `${program}.new`);
  renameSync(`${program}.new`, program);
  return program;
}
