import { DrawbridgeError } from "../../kernel/error.ts";
import { type FeatureName, isFeature, missingFeature } from "../../kernel/missing_feature.ts";
import type { Trial } from "../../kernel/nftables/table_check.ts";
import { diagnose } from "../problems/diagnose.ts";
import { remarkText } from "../problems/problem.ts";
import { type Check, type MachineFacts, type Remark, seen } from "../problems/check.ts";

/** The oldest kernel in which the tests run (docs/kernels.md). */
const OLDEST = [5, 10] as const;

const WHY = "policyd cannot load its tables or connect pods";

/** The facts that tell what a kernel can do. */
type KernelFacts = Pick<MachineFacts, "release" | "trials" | "linkKinds" | "hasPacketLog">;

export const kernelVersion: Check<KernelFacts> = {
  id: "kernel-version",
  summary: "The kernel is 5.10 or later.",
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
        way: "boot a later kernel, as the distribution's next release has it",
      },
    ];
  },
};

export const kernelFeatures: Check<KernelFacts> = {
  id: "kernel-features",
  summary: "The kernel takes the daemon's tables, bridges, veth pairs, VXLAN devices and packet logging.",
  needs: ["trials", "linkKinds"],
  examine: ({ trials, linkKinds, hasPacketLog }) => {
    const remarks: Remark[] = [...refusedTables(seen(trials) ?? [], hasPacketLog)];
    for (const { kind, isKnown } of seen(linkKinds) ?? []) if (!isKnown) remarks.push(lacking(kind));
    const noLog = lacking("nflog");
    if (!hasPacketLog && !remarks.some(({ what }) => what === noLog.what)) {
      const why = "policyd cannot load rules for dropLog, shadow policies and domain names";
      remarks.push({ ...noLog, severity: "warning", why });
    }
    return remarks;
  },
};

/**
 * Reports what refused tables lack: their families, else the parts that no accepted request has, else the kernel's
 * words. A request that refers to a refused one is refused, too, so only the first of a table without its family counts.
 * A rule that logs is refused in the same words without its instruction and without what that hands packets to.
 */
function refusedTables(trials: readonly Trial[], hasPacketLog: boolean): readonly Remark[] {
  const refused = trials.filter(({ refusal }) => refusal !== undefined);
  const [first] = refused;
  if (first === undefined) return [];
  const families = refused.flatMap(({ needs }) => needs().filter((name) => name.startsWith("table ")));
  const accepted = new Set(trials.flatMap(({ needs, refusal }) => (refusal === undefined ? needs() : [])));
  const parts = refused
    .flatMap(({ needs }) => needs())
    .filter((name) => !accepted.has(name))
    .map((name) => (name === "log" && !hasPacketLog ? "nflog" : name));
  const missing = [...new Set(families.length > 0 ? families : parts)].filter(isFeature);
  if (missing.length > 0) return missing.map(lacking);
  return [
    {
      severity: "error",
      what: `the kernel refuses the daemon's rules: ${first.refusal}`,
      why: WHY,
      way: "boot the distribution's full kernel, with CONFIG_NF_CONNTRACK_LABELS and CONFIG_NF_CONNTRACK_BRIDGE",
    },
  ];
}

function lacking(name: FeatureName): Remark {
  return { severity: "error", ...missingFeature(name), why: WHY };
}

/**
 * Refuses a kernel that cannot have the daemon's tables, in the doctor's words. Without links of some kind, which a node
 * may do without, the daemon runs and reports it.
 *
 * @throws DrawbridgeError ERR_NETLINK with all that the kernel lacks, and the way out
 */
export function refuseUnfitKernel(kernel: Pick<MachineFacts, "release" | "trials" | "hasPacketLog">): void {
  const facts = { ...kernel, linkKinds: { value: [] } };
  const { findings } = diagnose(facts, [kernelVersion, kernelFeatures]);
  const errors = findings.filter(({ severity }) => severity === "error");
  if (errors.length > 0) throw new DrawbridgeError("ERR_NETLINK", errors.map(remarkText).join("; "));
}
