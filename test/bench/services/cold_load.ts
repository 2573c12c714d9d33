import { measured, type Row } from "../row.ts";
import { type ClusterSize, sizeText } from "./cluster.ts";
import type { Stage } from "./stage.ts";

/** Measures loads from nothing: from the objects to the kernel's answer. */
export function coldLoad(stage: Stage, size: ClusterSize, rounds: number): readonly Row[] {
  const title = `cold load, ${sizeText(size)}`;
  const taken = Array.from({ length: rounds }, () => stage.load(size));
  return [
    measured(
      title,
      "ms",
      taken.map(({ whole }) => whole),
    ),
    measured(
      `${title}: processor time`,
      "ms",
      taken.map(({ processor }) => processor),
    ),
  ];
}
