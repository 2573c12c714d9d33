import assert from "node:assert/strict";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { rangeOf, unitedRanges } from "../../../../../kernel/ip/ranges.ts";
import { parseCidr } from "../../../../../kernel/ip/cidr.ts";
import {
  localPodElements,
  nodePortElements,
  podRangeElement,
} from "../../../../../policyd/services/elements/node_elements.ts";
import { formatClaims } from "../../../../support/services/scenario.ts";

/** The elements of the sets without their types. */
function elements(text: string): readonly string[] {
  return [...text.matchAll(/^\t\t\t(.*),$/gm)].map(([, element]) => element ?? "");
}

describe("services/compile: elements of nodes and pods", () => {
  it("NODE-03: by default every address but loopback serves NodePorts", () => {
    assert.deepEqual(elements(formatClaims(nodePortElements([], []))), [
      "0.0.0.0-126.255.255.255",
      "128.0.0.0/1",
      "::",
      "::2-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    ]);
  });

  it("NODE-04 NODE-05: configured prefixes and primary addresses serve NodePorts, loopback never", () => {
    const primary = ["192.0.2.10", "2001:db8::2"].map((text) => parseAddress(text));
    const configured = ["primary", parseCidr("198.51.100.0/24"), parseCidr("127.0.0.0/8")] as const;
    assert.deepEqual(elements(formatClaims(nodePortElements(configured, primary))), [
      "192.0.2.10",
      "198.51.100.0/24",
      "2001:db8::2",
    ]);
    assert.deepEqual(nodePortElements([parseCidr("127.0.0.0/8")], primary), []);
  });

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

  it("POD-12: a pod has an element as a local pod, and one as a pair with itself", () => {
    assert.deepEqual(elements(formatClaims(localPodElements([parseAddress("10.244.1.7")]))), [
      "10.244.1.7",
      "10.244.1.7 . 10.244.1.7",
    ]);
  });
});
