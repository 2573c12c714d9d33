import { expectDomainPattern } from "../domain_name.ts";
import type { Labels, PolicyPort, PolicyRule, Protocol } from "../model.ts";
import { expectPort } from "../name.ts";
import { PROTOCOLS } from "../protocol.ts";
import { invalid, type Reader } from "./reader.ts";

/** The annotation of a NetworkPolicy with domain names that it allows for egress: `api.example.com:443/TCP`, by spaces. */
export const NAMES_ANNOTATION = "drawbridge.dev/egress-domain-names";

/**
 * Returns the rules that the annotation adds to a policy's egress, one for each port; none without the annotation. An
 * entry that cannot be kept is reported and allows nothing.
 *
 * @param first the index of the first of them
 */
export function readNameRules(annotations: Labels, spec: Reader, first: number): readonly PolicyRule[] {
  const entries = (annotations[NAMES_ANNOTATION] ?? "").split(/[\s,]+/).filter((entry) => entry !== "");
  const read = entries.flatMap((entry) => spec.attempt(() => readEntry(entry)) ?? []);
  return [...Map.groupBy(read, ({ port }) => JSON.stringify(port)).values()].map((all, i) =>
    Object.freeze({
      index: first + i,
      peers: [Object.freeze({ type: "names", index: 0, names: all.map(({ name }) => name) } as const)],
      ports: all[0]?.port === undefined ? undefined : [all[0].port],
    }),
  );
}

/** @throws DrawbridgeError ERR_OBJECT */
function readEntry(entry: string): { readonly name: string; readonly port: PolicyPort | undefined } {
  const field = `annotation ${NAMES_ANNOTATION}`;
  const [, name = "", number, protocol = "TCP"] = /^([^:]+)(?::(\d+)(?:\/(\w+))?)?$/.exec(entry) ?? [];
  if (name === "") throw invalid(field, entry, 'a name with a port such as "api.example.com:443/TCP"');
  if (!isProtocol(protocol)) throw invalid(field, entry, `one of ${PROTOCOLS.join(", ")} after "/"`);
  const port = number === undefined ? undefined : expectPort(Number(number), field);
  return {
    name: expectDomainPattern(name, field),
    port: port === undefined ? undefined : Object.freeze({ index: 0, protocol, port, endPort: undefined }),
  };
}

function isProtocol(text: string): text is Protocol {
  return PROTOCOLS.some((protocol) => protocol === text);
}
