import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import YAML from "yaml";
import { type Address, type Family, familyOf, parseAddress } from "../../../../kernel/ip/address.ts";
import { ipv6Twin } from "../../evaluate/family_twin.ts";
import { manifestsOf, type ManifestText } from "../../evaluate/manifest.ts";
import type { SocketAddress } from "../../../../objects/semantics/services/packet.ts";
import { isPlace, type Place, PLACES } from "./places.ts";

interface WorldText extends Required<ManifestText> {
  readonly nodes: readonly object[];
}

const TEXT = YAML.parse(readFileSync(new URL("world.yaml", import.meta.url), "utf8")) as WorldText;

/** The texts of the document that are replaced in a lab: addresses, pod networks, node names. */
export type Renamed = ReadonlyMap<string, string>;

/** Returns a text of the document's world in one family, IPv4 as written. */
export function documentText(text: string, family: Family): string {
  return family === 4 ? text : String(ipv6Twin(text));
}

/** The cluster of the acceptance table, all its Services at once, in both families. */
export class AcceptanceWorld {
  readonly #renamed: Renamed;

  constructor(renamed: Renamed = new Map()) {
    this.#renamed = renamed;
  }

  /** Returns the objects as the API has them. */
  manifests(): readonly object[] {
    const { nodes, services, slices } = TEXT;
    const twins = ipv6Twin({ nodes, services, slices }) as WorldText;
    const dual = { nodes: merged(nodes, twins.nodes), services: merged(services, twins.services) } as WorldText;
    const twinSlices = Object.fromEntries(Object.entries(twins.slices).map(([name, slice]) => [`${name}-6`, slice]));
    const all = [
      ...dual.nodes,
      ...manifestsOf({ services: dual.services, slices }, "IPv4"),
      ...manifestsOf({ slices: twinSlices }, "IPv6"),
    ];
    return all.map((object) => this.#inLab(object) as object);
  }

  /** Returns the address of a place. */
  addressOf(place: Place, family: Family): Address {
    return this.#address(PLACES[place], family);
  }

  /** Returns the address and port of "n1:30001", "redis:6379", "vote-lb LB:80" and "our-external-local XIP:6379". */
  socketOf(to: string, family: Family): SocketAddress {
    const colon = to.lastIndexOf(":");
    const name = to.slice(0, colon);
    return {
      address: this.#address(isPlace(name) ? PLACES[name] : textOf(name), family),
      port: Number(to.slice(colon + 1)),
    };
  }

  /** Returns every address that belongs to no host: those of Services, load balancers, and external IPs of our own. */
  virtualAddresses(family: Family): readonly Address[] {
    const names = Object.entries(TEXT.services).flatMap(([name, service]) => [
      ...(clusterIpOf(service) === "None" ? [] : [name]),
      ...(balancerOf(service) === undefined ? [] : [`${name} LB`]),
      ...(name.startsWith("our-") && "externalIPs" in service ? [`${name} XIP`] : []),
    ]);
    return names.map((name) => this.#address(textOf(name), family));
  }

  #address(text: string, family: Family): Address {
    const inDocument = documentText(text, family);
    const address = parseAddress(this.#renamed.get(inDocument) ?? inDocument);
    assert.equal(familyOf(address), family);
    return address;
  }

  #inLab(value: unknown): unknown {
    if (typeof value === "string") return this.#renamed.get(value) ?? value;
    if (Array.isArray(value)) return value.map((member) => this.#inLab(member));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, this.#inLab(member)]));
  }
}

/** Returns an object merged with its twin: lists that differ are joined, of single values the first counts. */
function merged(first: unknown, second: unknown): unknown {
  if (isDeepStrictEqual(first, second)) return first;
  if (isList(first) && isList(second)) {
    const areObjects = first.every((member) => typeof member === "object" && member !== null && "metadata" in member);
    return areObjects ? first.map((member, i) => merged(member, second[i])) : [...first, ...second];
  }
  if (typeof first !== "object" || first === null || typeof second !== "object" || second === null) return first;
  const other = new Map(Object.entries(second));
  return Object.fromEntries(Object.entries(first).map(([key, member]) => [key, merged(member, other.get(key))]));
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value);
}

function textOf(name: string): string {
  const [serviceName = "", kind] = name.split(" ");
  const service = TEXT.services[serviceName];
  assert.ok(service !== undefined, `no place and no Service ${name}`);
  if (kind === "XIP") return String((service["externalIPs"] as readonly string[])[0]);
  return kind === "LB" ? (balancerOf(service) ?? assert.fail(name)) : clusterIpOf(service);
}

function clusterIpOf(service: Readonly<Record<string, unknown>>): string {
  return String((service["clusterIPs"] as readonly string[])[0]);
}

function balancerOf(service: Readonly<Record<string, unknown>>): string | undefined {
  const status = service["status"] as
    | { readonly loadBalancer: { readonly ingress: readonly { readonly ip?: string }[] } }
    | undefined;
  return status?.loadBalancer.ingress[0]?.ip;
}
