import { Errno } from "./syscall/errno.ts";

/** A part of the kernel that may be missing: the option that it is built with, and the module that brings it. */
interface Feature {
  readonly words: string;
  readonly option: string;
  /** Undefined where the option is never a module. */
  readonly module?: string;
  /** The error that means its absence. */
  readonly errno?: number;
}

function instruction(name: string, option: string): Feature {
  return { words: `nftables "${name}"`, option: `CONFIG_${option}`, module: `nft_${name}` };
}

function link(kind: string, option: string): Feature {
  return { words: `links of kind ${kind}`, option: `CONFIG_${option}`, module: kind };
}

/** The answer of nfnetlink without a subsystem (nfnetlink_rcv_msg). Our requests to those that exist are correct. */
const NO_SUBSYSTEM = Errno.EINVAL;

/** net/netfilter/Kconfig, net/bridge/Kconfig, drivers/net/Kconfig; the names are those of our requests. */
const FEATURES = {
  "table inet": { words: "nftables tables of the family inet", option: "CONFIG_NF_TABLES_INET" },
  "table bridge": { words: "nftables tables of the family bridge", option: "CONFIG_NF_TABLES_BRIDGE" },
  "chain nat": { words: "nftables chains of the type nat", option: "CONFIG_NFT_NAT", module: "nft_chain_nat" },
  // Part of nf_tables from Linux 5.17 on.
  counter: instruction("counter", "NFT_COUNTER"),
  ct: instruction("ct", "NFT_CT"),
  fib: instruction("fib", "NFT_FIB_INET"),
  hash: instruction("hash", "NFT_HASH"),
  limit: instruction("limit", "NFT_LIMIT"),
  log: instruction("log", "NFT_LOG"),
  masq: instruction("masq", "NFT_MASQ"),
  nat: instruction("nat", "NFT_NAT"),
  numgen: instruction("numgen", "NFT_NUMGEN"),
  queue: instruction("queue", "NFT_QUEUE"),
  reject: instruction("reject", "NFT_REJECT_INET"),
  bridge: link("bridge", "BRIDGE"),
  veth: link("veth", "VETH"),
  vxlan: link("vxlan", "VXLAN"),
  ifb: link("ifb", "IFB"),
  conntrack: {
    words: "connection tracking by netlink",
    option: "CONFIG_NF_CT_NETLINK",
    module: "nf_conntrack_netlink",
    errno: NO_SUBSYSTEM,
  },
  nflog: {
    words: "packet logging by netlink",
    option: "CONFIG_NETFILTER_NETLINK_LOG",
    module: "nfnetlink_log",
    errno: NO_SUBSYSTEM,
  },
  nfqueue: {
    words: "packet queues by netlink",
    option: "CONFIG_NETFILTER_NETLINK_QUEUE",
    module: "nfnetlink_queue",
    errno: NO_SUBSYSTEM,
  },
} as const satisfies Readonly<Record<string, Feature>>;

export type FeatureName = keyof typeof FEATURES;

/** Returns whether a name is that of a feature that some kernels lack. */
export function isFeature(name: string): name is FeatureName {
  return Object.hasOwn(FEATURES, name);
}

/** Returns whether an error of a request that needs a feature means that the kernel lacks it. */
export function meansMissing(name: FeatureName, errno: number): boolean {
  const { errno: absence = Errno.EOPNOTSUPP }: Feature = FEATURES[name];
  return errno === absence;
}

/** Returns what a kernel without a feature lacks, and the way out: the words of plugin, daemon and doctor. */
export function missingFeature(name: FeatureName): { readonly what: string; readonly way: string } {
  const { words, option, module }: Feature = FEATURES[name];
  const build = `boot the distribution's full kernel or build it with ${option}`;
  return {
    what: `the kernel has no ${words} (${option})`,
    way: module === undefined ? `${build}=y` : `modprobe ${module}; where that fails ${build}=m`,
  };
}
