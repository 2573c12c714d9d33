import type { Step } from "../nftables/foreign/step.ts";
import { targetSteps } from "../nftables/foreign/target.ts";
import { type Option, optionsOf } from "./option.ts";
import { addressStep, headerSteps } from "./header_option.ts";
import { matchSteps } from "./match_option.ts";

/**
 * Returns the steps of a rule as `iptables-save` prints it, after the name of its chain.
 *
 * @param isChain tells whether a target is a user-defined chain of the same table
 */
export function ruleSteps(
  rule: readonly string[],
  family: "ip" | "ip6",
  isChain: (target: string) => boolean,
): readonly Step[] {
  const options = optionsOf(rule);
  const at = options.findIndex(({ name }) => name === "-j" || name === "-g");
  const before = at < 0 ? options : options.slice(0, at);
  return [...conditions(before, family), ...(at < 0 ? [] : ends(options.slice(at), isChain))];
}

function conditions(options: readonly Option[], family: "ip" | "ip6"): readonly Step[] {
  const steps: Step[] = [];
  for (let i = 0; i < options.length; i++) {
    const option = options[i];
    if (option === undefined) break;
    if (option.name === "-m") {
      let end = i + 1;
      while (end < options.length && options[end]?.name.startsWith("--") === true) end++;
      steps.push(...matchSteps(option.values[0] ?? "", options.slice(i + 1, end)));
      i = end - 1;
    } else if (option.name === "-s" || option.name === "-d") steps.push(addressStep(option, family));
    else steps.push(...headerSteps(option));
  }
  return steps;
}

function ends([target, ...options]: readonly Option[], isChain: (target: string) => boolean): readonly Step[] {
  const name = target?.values[0] ?? "";
  if (isChain(name)) return [{ kind: "end", end: { kind: target?.name === "-g" ? "goto" : "jump", chain: name } }];
  switch (name) {
    case "ACCEPT":
      return [{ kind: "end", end: { kind: "accept" } }];
    case "DROP":
      return [{ kind: "end", end: { kind: "drop" } }];
    case "RETURN":
      return [{ kind: "end", end: { kind: "return" } }];
    case "MARK":
      return [markStep(options)];
    case "CONNMARK":
      return [
        { kind: "blur", what: options.some((one) => one.name === "--restore-mark") ? "mark" : "connection mark" },
      ];
    case "CT":
      return options.some((one) => one.name === "--notrack") ? [{ kind: "untrack" }] : [];
    default:
      return targetSteps(name, new Uint8Array());
  }
}

/** Returns the step of `--set-xmark VALUE/MASK`, as iptables-save prints all mark changes: clear MASK, xor VALUE. */
function markStep(options: readonly Option[]): Step {
  const [value, mask = 0xffff_ffff] = (options.find(({ name }) => name === "--set-xmark")?.values[0] ?? "")
    .split("/")
    .map(Number);
  if (value === undefined || Number.isNaN(value) || Number.isNaN(mask)) return { kind: "blur", what: "mark" };
  return { kind: "change mark", mask: ~mask, xor: value };
}
