import assert from "node:assert/strict";
import { keyText } from "../../../kernel/nftables/encode/element.ts";
import type { Element } from "../../../kernel/nftables/model/object.ts";
import { formatTable } from "../../../kernel/nftables/text/text.ts";
import { judge } from "../../../objects/gate/gate.ts";
import type { ClusterObject, EndpointSlice, Service } from "../../../objects/model.ts";
import type { DesiredElement } from "../../../policyd/ruleset/desired/desired_element.ts";
import { tunnelNodes } from "../../../policyd/node/tables/tunnel_guard.ts";
import { INET_TABLE, joined } from "../../../policyd/ruleset/table_part.ts";
import { NO_AFFINITY } from "../../../policyd/services/affinity/timeout_numbers.ts";
import { type CompiledService, compileFrontends } from "../../../policyd/services/elements/compile_service.ts";
import type { CompileContext, ServiceRules } from "../../../policyd/services/rules/context.ts";
import { ServiceIndex } from "../../../policyd/services/elements/service_index.ts";
import { services } from "../../../policyd/services/rules/services_part.ts";
import { readObjects } from "../../../objects/yaml/documents.ts";

export const SERVICE_RULES: ServiceRules = { masqueradeBit: 0x1000_0000, tcpReset: false, dropInvalid: true };

/** Returns the objects of a file as the daemon reads it; every one must be accepted. */
export function readScenario(text: string, fileName = "scenario.yaml"): readonly ClusterObject[] {
  return [...readObjects(text, fileName)].map((value) => {
    const verdict = judge(value);
    assert.ok(verdict.type === "accepted", verdict.type === "refused" ? verdict.problem : verdict.type);
    return verdict.object;
  });
}

/** Returns the objects in an index, and the context that they give for a node. */
export function indexed(
  objects: readonly ClusterObject[],
  nodeName: string,
): { readonly index: ServiceIndex; readonly context: CompileContext } {
  const index = new ServiceIndex(nodeName);
  index.apply(objects.map((object) => ({ type: "set", kind: object.kind, key: object.key, object })));
  return { index, context: { nodeName, refuseExternalIps: false, ...index.nodeFacts() } };
}

/** Compiles a Service at once, with the claims of all its frontends. */
export function compileService(...parts: Parameters<typeof compileFrontends>): CompiledService {
  const compiling = compileFrontends(...parts);
  const ofFrontends: (readonly DesiredElement[])[] = [];
  let step = compiling.next();
  for (; step.done !== true; step = compiling.next()) ofFrontends.push(step.value.claims);
  return { ...step.value, claims: step.value.claims.concat(ofFrontends.flat()) };
}

/** Compiles a Service beside which no other one has session affinity, nor, without holders, any of its frontends. */
export function compileAlone(
  service: Service,
  slices: readonly EndpointSlice[],
  context: CompileContext,
  holders: Parameters<typeof compileService>[3] = { rival: () => undefined },
): CompiledService {
  return compileService(service, slices, context, holders, (seconds) =>
    seconds === undefined ? NO_AFFINITY : { number: 1, seconds },
  );
}

/** Compiles each Service among the objects for a node, by its key. */
export function compileAll(
  objects: readonly ClusterObject[],
  nodeName: string,
  overrides: Partial<CompileContext> = {},
): ReadonlyMap<string, CompiledService> {
  const { index, context } = indexed(objects, nodeName);
  return new Map(
    objects
      .filter((object) => object.kind === "Service")
      .map((service) => [
        service.key,
        compileAlone(service, index.slicesOf(service.key), { ...context, ...overrides }),
      ]),
  );
}

/** Returns elements by their set, in the order of their keys; each key once. */
export function elementsOf(claims: readonly DesiredElement[]): ReadonlyMap<string, readonly Element[]> {
  const found = new Map<string, Map<string, Element>>();
  for (const { set, element } of claims) {
    const elements = found.get(set) ?? new Map<string, Element>();
    found.set(set, elements.set(keyText(element.key), element));
  }
  const inOrder = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number => (a < b ? -1 : 1);
  return new Map([...found].map(([set, elements]) => [set, [...elements].sort(inOrder).map(([, element]) => element)]));
}

/** Returns the sets that have elements, as nft prints them. */
export function formatClaims(claims: readonly DesiredElement[]): string {
  const elements = elementsOf(claims);
  const { sets } = joined([tunnelNodes(), ...services(SERVICE_RULES)]);
  const names = new Set(sets.map(({ name }) => name));
  for (const set of elements.keys()) assert.ok(names.has(set), `set ${set}`);
  return formatTable({ ...INET_TABLE, sets: sets.filter(({ name }) => elements.has(name)), chains: [] }, elements);
}
