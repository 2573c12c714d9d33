import { littleEndian } from "../../byte_order.ts";
import type { Step } from "./step.ts";

/** iptables targets that let the packet continue. */
const NOTING =
  "LOG NFLOG ULOG TRACE AUDIT CHECKSUM TCPMSS TCPOPTSTRIP CLASSIFY DSCP TOS TTL HL SET SECMARK CONNSECMARK IDLETIMER RATEEST TEE LED HMARK".split(
    " ",
  );
const TRANSLATING = ["DNAT", "SNAT", "MASQUERADE", "REDIRECT", "NETMAP"];
/** XT_CT_NOTRACK, in the flags at the start of struct xt_ct_target_info. */
const NOTRACK = 1;
const CONNMARK_RESTORE = 2;

/** Returns the steps of an iptables target (`-j NAME`, struct xt_*). An unknown target may do anything. */
export function targetSteps(name: string, info: Uint8Array): readonly Step[] {
  const view = new DataView(info.buffer, info.byteOffset, info.byteLength);
  if (NOTING.includes(name)) return [];
  if (TRANSLATING.includes(name)) return [{ kind: "end", end: { kind: "translate" } }];
  switch (name) {
    case "REJECT":
      return [{ kind: "end", end: { kind: "reject" } }];
    case "MARK":
      return info.length < 8
        ? [{ kind: "blur", what: "mark" }]
        : [{ kind: "change mark", mask: ~view.getUint32(4, littleEndian), xor: view.getUint32(0, littleEndian) }];
    case "CONNMARK":
      return info.length >= 13 && view.getUint8(12) === CONNMARK_RESTORE
        ? [{ kind: "blur", what: "mark" }]
        : [{ kind: "blur", what: "connection mark" }];
    case "NOTRACK":
      return [{ kind: "untrack" }];
    case "CT":
      return info.length >= 2 && (view.getUint16(0, littleEndian) & NOTRACK) !== 0 ? [{ kind: "untrack" }] : [];
    default:
      return [{ kind: "end", end: { kind: "hand over", to: `target ${name}` } }];
  }
}
