import { labelled } from "../../manifest.ts";
import { baseWith, DIRECTIONS, type GeneratedCase } from "./generated_case.ts";

/** Prefixes around a pod, of both families: one with all of its node's pods, and one with its neighbours. */
export interface Prefixes {
  readonly wide: readonly [string, string];
  readonly narrow: readonly [string, string];
}

interface NamedPeers {
  readonly name: string;
  readonly peers: readonly object[];
}

const POD_SELECTORS = { "no pods": undefined, "all pods": {}, "pods b": labelled({ pod: "b" }) };
const NAMESPACE_SELECTORS = { "own namespace": undefined, "all namespaces": {}, "namespace y": labelled({ ns: "y" }) };

/** Returns 112 cases: every peer by itself, in pairs, and no peer, in either direction. */
export function peerCases(prefixes: Prefixes): readonly GeneratedCase[] {
  const all = [...selectorPeers(), ...blockPeers(prefixes)];
  const pairs = all.flatMap((one, place) =>
    all
      .slice(place + 1)
      .map((other) => ({ name: `${one.name} or ${other.name}`, peers: [...one.peers, ...other.peers] })),
  );
  return DIRECTIONS.flatMap((direction) =>
    [{ name: "everyone", peers: [] }, ...all, ...pairs].map(({ name, peers }): GeneratedCase => ({
      group: "peers",
      name: `${direction}: ${name}`,
      policies: [baseWith(direction, { peers })],
    })),
  );
}

function selectorPeers(): readonly NamedPeers[] {
  return Object.entries(POD_SELECTORS).flatMap(([pods, podSelector]) =>
    Object.entries(NAMESPACE_SELECTORS).flatMap(([namespaces, namespaceSelector]) => {
      if (podSelector === undefined && namespaceSelector === undefined) return [];
      const peer = {
        ...(podSelector === undefined ? {} : { podSelector }),
        ...(namespaceSelector === undefined ? {} : { namespaceSelector }),
      };
      return [{ name: `${pods} of ${namespaces}`, peers: [peer] }];
    }),
  );
}

function blockPeers({ wide, narrow }: Prefixes): readonly NamedPeers[] {
  return [
    { name: "a block", peers: wide.map((cidr) => ({ ipBlock: { cidr } })) },
    { name: "a block but", peers: wide.map((cidr, family) => ({ ipBlock: { cidr, except: [narrow[family] ?? ""] } })) },
  ];
}
