import type { LabCalls } from "../../lab/libc.ts";
import type { World } from "../world.ts";
import { type CellDifference, compareCells, type ExpectedCell, type SeenCell } from "./cells.ts";
import { measureServices } from "./measure.ts";
import type { PublishedServices } from "./publish.ts";

/** The expected results of Services, the measured ones, and the differences. */
export interface ServicesResult {
  readonly expected: readonly ExpectedCell[];
  readonly seen: readonly SeenCell[];
  readonly differences: readonly CellDifference[];
}

/** Measures every cell once. */
export async function checkServices(
  calls: LabCalls,
  world: World,
  services: PublishedServices,
  onProgress: (connections: number) => void,
): Promise<ServicesResult> {
  const { expected } = services;
  const seen = await measureServices(calls, world, services, onProgress);
  return { expected, seen, differences: compareCells(expected, seen) };
}
