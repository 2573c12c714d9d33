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

/** The digests of the chains that this process has written. */
export class KnownRules {
  readonly #tables = new Map<TableKey, Map<string, string>>();

  /** Notes that this process created a table or took it over. */
  begin(table: TableKey): void {
    if (!this.#tables.has(table)) this.#tables.set(table, new Map());
  }

  /** Whether this process created a table or took it over. */
  has(table: TableKey): boolean {
    return this.#tables.has(table);
  }

  get(table: TableKey, chain: string): string | undefined {
    return this.#tables.get(table)?.get(chain);
  }

  /** Records what the kernel showed for a chain; undefined forgets it. */
  set(table: TableKey, chain: string, digest: string | undefined): void {
    const chains = this.#tables.get(table);
    if (digest === undefined) chains?.delete(chain);
    else chains?.set(chain, digest);
  }

  /** Forgets a table whose content will be replaced. */
  forget(table: TableKey): void {
    this.#tables.delete(table);
  }
}
