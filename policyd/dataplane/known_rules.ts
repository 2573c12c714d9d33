import { createHash } from "node:crypto";
import type { Instruction } from "../../kernel/nftables/instruction.ts";
import type { RuleState } from "../../kernel/nftables/state.ts";
import type { TableKey } from "./claim.ts";

/**
 * A chain's rules as the kernel shows them, in one text without what counts or names by itself. The kernel adds defaults
 * to attributes, so a rule is only comparable with what the kernel itself showed for it right after we wrote it.
 */
export function rulesText(rules: readonly RuleState[]): string {
  return rules.map(ruleText).join("\n");
}

/** {@link rulesText} as it is kept: the texts are kilobytes for each chain. */
export function rulesDigest(rules: readonly RuleState[]): string {
  return createHash("sha256").update(rulesText(rules)).digest("base64");
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

  /** A table was made or taken over by this process. */
  begin(table: TableKey): void {
    if (!this.#tables.has(table)) this.#tables.set(table, new Map());
  }

  /** Whether a table was. */
  has(table: TableKey): boolean {
    return this.#tables.has(table);
  }

  get(table: TableKey, chain: string): string | undefined {
    return this.#tables.get(table)?.get(chain);
  }

  /** Notes what the kernel showed of a chain; undefined forgets it. */
  set(table: TableKey, chain: string, digest: string | undefined): void {
    const chains = this.#tables.get(table);
    if (digest === undefined) chains?.delete(chain);
    else chains?.set(chain, digest);
  }

  /** Forgets a table, of which nothing is left. */
  forget(table: TableKey): void {
    this.#tables.delete(table);
  }
}
