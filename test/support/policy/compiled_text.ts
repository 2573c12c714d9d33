import { elementCode } from "../../../kernel/nftables/encode/element.ts";
import { formatElement } from "../../../kernel/nftables/text/element_text.ts";
import { formatRule } from "../../../kernel/nftables/text/rule_text.ts";
import { DEFAULT_POLICY_OPTIONS, type PolicyOptions } from "../../../policyd/policies/compile/options.ts";
import { policyTable } from "../../../policyd/policies/compile/policy_table.ts";
import { readObjects } from "../../../objects/yaml/documents.ts";
import { storeOf } from "../evaluate/store.ts";
import { CompiledCluster, type CompiledNode } from "./compiled_cluster.ts";

/** Compiles the objects of YAML documents for "node1". */
export function compiledYaml(text: string, options: Partial<PolicyOptions> = {}): CompiledNode {
  const manifests = [...readObjects(text, "scenario.yaml")].filter(isObject);
  return new CompiledCluster(storeOf(manifests), { ...DEFAULT_POLICY_OPTIONS, ...options }).node("node1");
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/**
 * Prints what policies add to a node's table: the elements of its sets, a line each, and the chains of profiles. Each
 * hash is replaced by a letter in the order of their occurrence; sets without elements are omitted.
 */
export function compiledText(text: string, options: Partial<PolicyOptions> = {}): string {
  const { table, elements } = compiledYaml(text, options);
  const fixed = policyTable({ ...DEFAULT_POLICY_OPTIONS, ...options });
  const isOwn = ({ name }: { readonly name: string }): boolean =>
    !fixed.sets.some((set) => set.name === name) && !fixed.chains.some((chain) => chain.name === name);
  const sets = table.sets.filter(isOwn).flatMap((set) => {
    const code = elementCode(set);
    const all = (elements.get(set.name) ?? []).map((element) => formatElement(code, element)).sort();
    return all.length === 0 ? [] : [`${set.name}: ${all.join(", ")}`];
  });
  const chains = table.chains
    .filter(isOwn)
    .flatMap(({ name, rules }) => [`${name}:`, ...rules.map((rule) => `  ${formatRule(rule, table.family)}`)]);
  return lettered(`${[...sets, ...chains].join("\n")}\n`);
}

function lettered(text: string): string {
  const letters = new Map<string, string>();
  return text.replaceAll(/(?<=[_ ])[0-9a-f]{24}(?=[_ :\n])|(?<=_)[0-9a-f]{8}(?=[_ :\n])/g, (hash) => {
    const letter = letters.get(hash) ?? String.fromCharCode("A".charCodeAt(0) + letters.size);
    letters.set(hash, letter);
    return letter;
  });
}
