import { dualStack } from "../lab/dual_stack.ts";
import { twinsIn } from "../lab/nine_pods.ts";
import { pairs } from "../lab/pairs.ts";
import { UPSTREAM_CASES } from "../upstream_cases.ts";
import type { Row } from "./row.ts";

/** The behaviours that upstream's cases show, by their numbers. */
const IDS: Readonly<Record<number, string>> = {
  3: "POL-21 ",
  9: "POL-23 ",
  10: "POL-23 ",
  15: "POL-04 ",
  16: "POL-13 ",
  21: "POL-28 ",
  22: "POL-28 ",
  24: "POL-28 ",
  31: "POL-13 ",
  32: "POL-13 ",
  41: "POL-24 ",
  42: "POL-24 ",
};

/** The cases of Kubernetes' own network policy tests. */
export const UPSTREAM_ROWS: readonly Row[] = UPSTREAM_CASES.map(({ number, name, steps }) => ({
  title: `${IDS[number] ?? ""}POL-61: upstream ${number}: ${name}`,
  steps: (lab) =>
    steps.map(({ policies, labels = {}, protocol, port, isDenied }) => ({
      policies: dualStack(policies, twinsIn(lab)),
      labels,
      ...pairs(isDenied, `${port}/${protocol}`),
    })),
}));
