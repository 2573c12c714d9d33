import assert from "node:assert/strict";
import { accepted, manifest, refusal } from "./objects.ts";

/** Returns a number of labels with values of one length. */
function labels(count: number, length: number): object {
  return Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i + 1000}`, "v".repeat(length)]));
}

describe("objects/gate: what stays in memory of large Pods", () => {
  it("DAEMON-01: a Pod with more labels, or longer ones, than 512 of 32,768 characters together is refused", () => {
    const refusalOf = (count: number, length: number): string =>
      refusal(manifest("Pod", {}, { labels: labels(count, length) }));
    assert.match(refusalOf(513, 1), /metadata\.labels: "513 labels"; expected at most 512/);
    assert.match(refusalOf(512, 60), /metadata\.labels: "33280 characters"; expected at most 32768/);
    accepted(manifest("Pod", {}, { labels: labels(512, 59) }));
  });

  it("DAEMON-01: of a Pod's named ports the first 512 count, and the others are reported", () => {
    const ports = Array.from({ length: 513 }, (_, i) => ({ name: `p-${i}`, containerPort: 1 + i }));
    const { object, problems } = accepted(manifest("Pod", { spec: { containers: [{ ports }] } }));
    assert.deepEqual(
      object["ports"],
      ports.slice(0, 512).map(({ name, containerPort: port }) => ({ name, protocol: "TCP", port })),
    );
    assert.deepEqual(problems, ["Pod default/web: spec.containers: 513 named ports; only the first 512 count"]);
  });
});
