import type { Element } from "../../../kernel/nftables/model/object.ts";
import { INET_TABLE } from "../../../policyd/ruleset/table_part.ts";
import { endpointMap, restMap } from "../../../policyd/services/rules/endpoint_maps.ts";
import { DRAWS, isDrawn, modulusFor } from "../../../policyd/services/rules/endpoint_draw.ts";
import { type ClusterSize, sizeText } from "./cluster.ts";
import { kernelMemory } from "./kernel_memory.ts";
import { type Ours, TABLES } from "./ours.ts";
import { found, type Row } from "../row.ts";
import { sharesOf, worstDeviation } from "./shares.ts";
import type { Stage } from "./stage.ts";

const SECONDS_GOAL = 10_000;
const MEGABYTES_GOAL = 300;
const DEVIATION_GOAL = 12.5;
const KIND = { family: 4, space: "service" } as const;

/** Measures a load of very many endpoints: its time, its memory in the kernel, and the shares of the endpoints. */
export function manyEndpoints(stage: Stage, size: ClusterSize): readonly Row[] {
  const before = kernelMemory();
  const { whole, inKernel } = stage.loadOurs(size);
  const grown = kernelMemory() - before;
  const shares = sharesInKernel(stage.ours(size).contestant, size);
  if (shares.length !== size.services) throw new Error(`the kernel has ${shares.length} Services`);
  const worst = 100 * Math.max(...shares.map(worstDeviation));
  const count = size.services * size.endpoints;
  const title = `${count.toLocaleString("en")} endpoints (${sizeText(size)})`;
  return [
    found(`${title}: cold load`, "ms", whole, SECONDS_GOAL, `${inKernel.toFixed(0)} ms of it in the kernel`),
    found(
      `${title}: kernel memory`,
      "MB",
      grown,
      MEGABYTES_GOAL,
      "growth of Slab, Percpu and VmallocUsed of the machine",
    ),
    found(
      `${title}: largest deviation of a share`,
      "%",
      worst,
      DEVIATION_GOAL,
      "from all elements, read from the kernel",
    ),
  ];
}

/** Returns the shares of each Service's endpoints, from the kernel's elements. */
function sharesInKernel({ kernel }: Ours, { endpoints }: ClusterSize): readonly ReadonlyMap<string, number>[] {
  const modulus = modulusFor(endpoints, "all");
  const read = (name: string): readonly Element[] => {
    const set = TABLES.find(({ family }) => family === "inet")?.sets.find((definition) => definition.name === name);
    return set === undefined ? [] : kernel.elements(INET_TABLE, set);
  };
  const holders = new Map<string, string[]>();
  for (const element of read(endpointMap(KIND, "all", modulus))) {
    const frontend = frontendOf(element);
    const held = holders.get(frontend) ?? [];
    holders.set(frontend, held);
    held.push(JSON.stringify(element.data));
  }
  const last = isDrawn(modulus) ? read(restMap(KIND, "all")) : [];
  const rest = new Map(last.map((element) => [frontendOf(element), JSON.stringify(element.data)]));
  return [...holders].map(([frontend, held]) =>
    sharesOf({ modulus, draws: DRAWS, holders: held, rest: rest.get(frontend) }),
  );
}

/** Returns address, protocol and port; the number that is drawn comes after them. */
function frontendOf({ key }: Element): string {
  return JSON.stringify(key.slice(0, 3));
}
