import process from "node:process";
import { executeUnder } from "../confined/execute.ts";
import type { SeccompProfile } from "../confined/seccomp.ts";
import { labCalls } from "../libc.ts";
import { MASKED_FEATURES, type MaskedFeature } from "./features.ts";

/** The launcher that {@link masked} starts: `main.ts <feature,...> <program> [argument...]`. */
const [list = "", file = "", ...args] = process.argv.slice(2);
const syscalls = list.split(",").flatMap((name): SeccompProfile["syscalls"] => {
  if (isFeature(name)) return MASKED_FEATURES[name];
  const known = Object.keys(MASKED_FEATURES).join(", ");
  throw new Error(`mask: ${JSON.stringify(name)} is not a feature; expected ${known}`);
});
executeUnder(labCalls(), { defaultAction: "SCMP_ACT_ALLOW", syscalls }, file, args);

function isFeature(name: string): name is MaskedFeature {
  return Object.hasOwn(MASKED_FEATURES, name);
}
