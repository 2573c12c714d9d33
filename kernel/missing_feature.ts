/** A part of the kernel that may be missing: the option that it is built with, and the module that brings it. */
interface Feature {
  readonly words: string;
  readonly option: string;
  /** Undefined where the option is never a module. */
  readonly module?: string;
}

function instruction(name: string, option: string): Feature {
  return { words: `nftables "${name}"`, option: `CONFIG_${option}`, module: `nft_${name}` };
}

function link(kind: string, option: string): Feature {
  return { words: `links of kind ${kind}`, option: `CONFIG_${option}`, module: kind };
}

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
  reject: instruction("reject", "NFT_REJECT_INET"),
  bridge: link("bridge", "BRIDGE"),
  veth: link("veth", "VETH"),
  vxlan: link("vxlan", "VXLAN"),
  ifb: link("ifb", "IFB"),
  conntrack: {
    words: "connection tracking by netlink",
    option: "CONFIG_NF_CT_NETLINK",
    module: "nf_conntrack_netlink",
  },
  nflog: { words: "packet logging by netlink", option: "CONFIG_NETFILTER_NETLINK_LOG", module: "nfnetlink_log" },
} as const satisfies Readonly<Record<string, Feature>>;

export type FeatureName = keyof typeof FEATURES;

/** Returns whether a name is that of a feature that some kernels lack. */
export function isFeature(name: string): name is FeatureName {
  return Object.hasOwn(FEATURES, name);
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
