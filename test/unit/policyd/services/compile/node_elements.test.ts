import assert from "node:assert/strict";
import { rangeOf, unitedRanges } from "../../../../../kernel/ip/ranges.ts";
import { parseCidr } from "../../../../../kernel/ip/cidr.ts";
import { podRangeElement } from "../../../../../policyd/node/tables/tunnel_guard.ts";
import { formatClaims } from "../../../../support/services/scenario.ts";

/** The elements of the sets without their types. */
function elements(text: string): readonly string[] {
  return [...text.matchAll(/^\t\t\t(.*),$/gm)].map(([, element]) => element ?? "");
}

describe("services/compile: elements of nodes and pods", () => {
  it("SVC-13 DS-05: nested, adjacent and repeated pod ranges become elements that do not touch", () => {
    const cidrs = ["10.244.0.0/16", "10.244.1.0/24", "10.245.0.0/16", "10.250.0.0/24", "fd00::/64"];
    const claimed = (texts: readonly string[]): ReturnType<typeof podRangeElement>[] =>
      unitedRanges(texts.map((text) => rangeOf(parseCidr(text)))).map(podRangeElement);
    assert.deepEqual(elements(formatClaims(claimed([...cidrs, ...cidrs]))), [
      "10.244.0.0/15",
      "10.250.0.0/24",
      "fd00::/64",
    ]);
    assert.deepEqual(claimed(cidrs.toReversed()), claimed(cidrs), "in whatever order");
  });
});
