import { type Check, type Remark, seen } from "../problems/check.ts";

/** The oldest kernel whose nftables the tests cover (docs/limits.md). */
const OLDEST = [5, 15] as const;

/** The kernel option for each instruction (net/netfilter/Kconfig). */
const OPTIONS: Readonly<Record<string, string>> = {
  ct: "CONFIG_NFT_CT",
  fib: "CONFIG_NFT_FIB_INET",
  hash: "CONFIG_NFT_HASH",
  limit: "CONFIG_NFT_LIMIT",
  log: "CONFIG_NFT_LOG",
  masq: "CONFIG_NFT_MASQ",
  nat: "CONFIG_NFT_NAT",
  numgen: "CONFIG_NFT_NUMGEN",
  redir: "CONFIG_NFT_REDIR",
  reject: "CONFIG_NFT_REJECT_INET",
};

const LINK_OPTIONS: Readonly<Record<string, string>> = {
  bridge: "CONFIG_BRIDGE",
  veth: "CONFIG_VETH",
  vxlan: "CONFIG_VXLAN",
};

export const kernelVersion: Check = {
  id: "kernel-version",
  summary: "The kernel is 5.15 or later.",
  needs: ["release"],
  examine: ({ release }) => {
    const text = seen(release) ?? "";
    const [, major = "0", minor = "0"] = /^(\d+)\.(\d+)/.exec(text) ?? [];
    const isOld = Number(major) < OLDEST[0] || (Number(major) === OLDEST[0] && Number(minor) < OLDEST[1]);
    if (!isOld) return [];
    return [
      {
        severity: "error",
        what: `kernel ${text}`,
        why: `Drawbridge's rules need nftables as of Linux ${OLDEST.join(".")}`,
        way: "boot a later kernel; on Debian 11: apt-get install -t bullseye-backports linux-image-amd64",
      },
    ];
  },
};

export const kernelFeatures: Check = {
  id: "kernel-features",
  summary: "The kernel takes the daemon's tables, bridges, veth pairs, VXLAN devices and packet logging.",
  needs: ["trials", "linkKinds"],
  examine: ({ trials, linkKinds, hasPacketLog }) => {
    const remarks: Remark[] = [...refusedTables(seen(trials) ?? [])];
    for (const { kind, isKnown } of seen(linkKinds) ?? []) {
      if (!isKnown)
        remarks.push(missingOption(LINK_OPTIONS[kind] ?? kind, `the kernel has no links of kind ${kind}`, kind));
    }
    if (!hasPacketLog) {
      remarks.push({
        ...missingOption(
          "CONFIG_NETFILTER_NETLINK_LOG",
          "the kernel has no packet logging by netlink",
          "nfnetlink_log",
        ),
        severity: "warning",
        why: "dropLog has nothing to tell",
      });
    }
    return remarks;
  },
};

type Trials = readonly {
  readonly operation: string;
  readonly instructions: readonly string[];
  readonly refusal: string | undefined;
}[];

/** Reports refused tables by the instruction that no accepted rule has, or else in the kernel's words. */
function refusedTables(trials: Trials): readonly Remark[] {
  const proven = new Set(trials.flatMap(({ instructions, refusal }) => (refusal === undefined ? instructions : [])));
  const refused = trials.filter(({ refusal }) => refusal !== undefined);
  const lacking = [...new Set(refused.flatMap(({ instructions }) => instructions))].filter((name) => !proven.has(name));
  const known = lacking.filter((name) => name in OPTIONS);
  if (known.length > 0) {
    return known.map((name) =>
      missingOption(OPTIONS[name] ?? name, `the kernel has no nftables "${name}"`, `nft_${name}`),
    );
  }
  const [first] = refused;
  if (first === undefined) return [];
  const isBridge = first.operation.includes(" bridge ");
  return [
    missingOption(
      isBridge
        ? "CONFIG_NF_TABLES_BRIDGE, CONFIG_NF_CONNTRACK_BRIDGE"
        : "CONFIG_NF_TABLES_INET, CONFIG_NF_CONNTRACK_LABELS",
      `the kernel refuses the daemon's rules: ${first.refusal}`,
      "nf_tables",
    ),
  ];
}

function missingOption(option: string, what: string, module: string): Remark {
  return {
    severity: "error",
    what: `${what} (${option})`,
    why: "policyd cannot load its tables or connect pods",
    way: `modprobe ${module}; where that fails install the distribution's full kernel or build it with ${option}=m`,
  };
}
