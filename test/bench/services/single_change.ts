import { measured, type Row } from "../row.ts";
import {
  type BenchService,
  benchService,
  changesOf,
  type ClusterSize,
  sizeText,
  sliceChange,
  withFirstReplaced,
} from "./cluster.ts";
import type { Taken } from "./ours.ts";
import type { Loaded, Stage } from "./stage.ts";

/** The goals: milliseconds in the kernel, and those that a large cluster may cost more than a small one. */
const GOAL = 0.2;
const DIFFERENCE_GOAL = 0.1;
/** A number coprime to all sizes, so that the Services that change are spread over all of them. */
const STEP = 7919;

type Kind = "add a service" | "replace an endpoint";
const KINDS: readonly Kind[] = ["add a service", "replace an endpoint"];

/** Measures changes of one Service among many, at all sizes in turn. */
export function singleChanges(stage: Stage, sizes: readonly ClusterSize[], rounds: number): readonly Row[] {
  const loaded = sizes.map((size) => stage.loaded(size));
  return KINDS.flatMap((kind) => {
    const taken = loaded.map((): Taken[] => []);
    for (let round = 0; round < rounds; round++) {
      // The sizes take turns at being first.
      for (let turn = 0; turn < loaded.length; turn++) {
        const which = (round + turn) % loaded.length;
        const one = loaded[which];
        if (one !== undefined) taken[which]?.push(changeOne(one, kind, nextNumber(one)));
      }
    }
    const rows = sizes.flatMap((size, index) => {
      const title = `${kind}, ${sizeText(size)}`;
      const all = taken[index] ?? [];
      return [
        measured(
          `${title}: in the kernel`,
          "ms",
          all.map(({ inKernel }) => inKernel),
          GOAL,
        ),
        measured(
          `${title}: from the object to the commit`,
          "ms",
          all.map(({ whole }) => whole),
        ),
      ];
    });
    const [small, large] = [taken[0] ?? [], taken[sizes.findIndex(({ services }) => services === 30_000)] ?? []];
    const differences = large.map(({ inKernel }, round) => inKernel - (small[round]?.inKernel ?? Number.NaN));
    return differences.length === 0
      ? rows
      : [...rows, measured(`${kind}: in the kernel, 30,000 less 1,000`, "ms", differences, DIFFERENCE_GOAL)];
  });
}

const next = new WeakMap<Loaded, number>();

/** Returns a number that no change of this load has used yet. */
function nextNumber(loaded: Loaded): number {
  const number = next.get(loaded) ?? 0;
  next.set(loaded, number + 1);
  return number;
}

function changeOne({ node, services, size }: Loaded, kind: Kind, number: number): Taken {
  if (kind === "add a service") return node.change(changesOf([newService(size, number)]));
  return node.change([sliceChange(withFirstReplaced(chosen(services, number), number))]);
}

/** Returns a Service after those that are loaded. */
function newService({ services, endpoints }: ClusterSize, number: number): BenchService {
  return benchService(services + number, endpoints);
}

function chosen(services: readonly BenchService[], number: number): BenchService {
  const service = services[(number * STEP) % services.length];
  if (service === undefined) throw new RangeError("there are no Services");
  return service;
}
