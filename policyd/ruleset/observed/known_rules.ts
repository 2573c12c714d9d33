import { hash } from "node:crypto";
import type { Instruction } from "../../../kernel/nftables/encode/instruction.ts";
import type { RuleState } from "../../../kernel/nftables/decode/state.ts";
import type { TableKey } from "../desired/desired_element.ts";

/**
 * Returns the instructions of a chain's rules as the kernel shows them, as one text without handles and values of
 * counters. The kernel adds default attributes, so a rule is only comparable with what the kernel itself showed for it
 * right after we wrote it.
 */
export function rulesText(rules: readonly RuleState[]): string {
  return rules.map(ruleText).join("\n");
}

/** Returns the hash of {@link rulesText} that is stored: the texts have kilobytes for each chain. */
export function rulesDigest(rules: readonly RuleState[]): string {
  return hash("sha256", rulesText(rules), "base64");
}

function ruleText({ instructions }: { readonly instructions: readonly Instruction[] }): string {
  return instructions.map(({ name, data }) => (name === "counter" ? name : `${name} ${hex(data)}`)).join(", ");
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
}

/**
 * The digests of the chains that this process has written, by table and name. It has the tables that this process created
 * or took over.
 */
export type KnownRules = Map<TableKey, Map<string, string>>;
