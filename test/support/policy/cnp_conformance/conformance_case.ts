import type { Protocol } from "../../../../objects/model.ts";
import { type House, HOUSES, pairOf, type PodName } from "./hogwarts.ts";

/** One of the tests in conformance/tests of kubernetes-sigs/network-policy-api, by its ShortName there. */
export interface ConformanceCase {
  readonly name: `CNP${"Admin" | "Baseline"}Tier${string}`;
  readonly subtests: readonly ConformanceSubtest[];
}

export interface ConformanceSubtest {
  /** The ID in docs/behaviours.md of the tested behaviour. */
  readonly behaviour: `CNP-0${1 | 2 | 3 | 4 | 5 | 6 | 8}`;
  readonly name: string;
  /** All policies that exist at this point: changes of earlier subtests stay. */
  readonly policies: readonly object[];
  readonly flows: readonly Flows[];
}

/** The traffic between two pods or, where a house is named, between both of its pods and those of the other. */
export interface Flows {
  readonly from: House | PodName;
  readonly to: House | PodName;
  readonly allowed?: readonly Traffic[];
  readonly denied?: readonly Traffic[];
  /** The clients connect to a Service, of which the servers are endpoints. */
  readonly isThroughService?: true;
}

export type Traffic = `${number}/${Protocol}`;

/** One connection that a subtest tries. */
export interface Poke {
  readonly from: PodName;
  readonly to: PodName;
  readonly traffic: Traffic;
  readonly isAllowed: boolean;
  readonly isThroughService: boolean;
}

/**
 * Returns every single connection. Where upstream tries one replica of a pair, or one order of two ports, this includes
 * all.
 */
export function pokesOf({ flows }: ConformanceSubtest): readonly Poke[] {
  return flows.flatMap(({ from, to, allowed = [], denied = [], isThroughService = false }) =>
    podsNamed(from).flatMap((client) =>
      podsNamed(to).flatMap((server) => {
        const ends = { from: client, to: server, isThroughService };
        return [
          ...allowed.map((traffic) => ({ ...ends, traffic, isAllowed: true })),
          ...denied.map((traffic) => ({ ...ends, traffic, isAllowed: false })),
        ];
      }),
    ),
  );
}

function podsNamed(name: House | PodName): readonly PodName[] {
  return isHouse(name) ? pairOf(name) : [name];
}

function isHouse(name: House | PodName): name is House {
  return Object.hasOwn(HOUSES, name);
}
