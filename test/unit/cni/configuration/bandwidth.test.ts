import assert from "node:assert/strict";
import { tokenBucket } from "../../../../cni/configuration/bandwidth.ts";
import { configurationOf, networkInput } from "../../../support/cni/cni.ts";

const KUBELET_BURST = 2 ** 32 - 1;
const MTU = 1500;
const LARGEST_FRAME = MTU + 22;

describe("cni/bandwidth", () => {
  it("limits of both directions are read with keys in any case, as containerd and CRI-O write them", () => {
    const of = (bandwidth: Readonly<Record<string, number>>): unknown =>
      configurationOf(networkInput({ runtimeConfig: { bandwidth } })).limits;
    const ingress = { rate: 20_000_000, burst: KUBELET_BURST };
    const egress = { rate: 1000, burst: 8 };
    assert.deepEqual(of({ IngressRate: 20_000_000, IngressBurst: KUBELET_BURST, EgressRate: 1000, EgressBurst: 8 }), {
      ingress,
      egress,
    });
    assert.deepEqual(of({ ingressRate: 20_000_000, ingressBurst: KUBELET_BURST }), { ingress, egress: undefined });
    assert.deepEqual(of({ EgressRate: 1000, EgressBurst: 8, IngressRate: 0, IngressBurst: 0 }), {
      ingress: undefined,
      egress,
    });
  });

  it("a burst is cut to 100 ms of the rate, and a shorter one is kept", () => {
    const bucket = (rate: number, burst: number): unknown => tokenBucket({ rate, burst }, MTU);
    assert.deepEqual(bucket(20e6, KUBELET_BURST), { rate: 2_500_000, burst: 250_000, limit: 125_000 });
    assert.deepEqual(bucket(200e6, 2 ** 63), { rate: 25_000_000, burst: 2_500_000, limit: 1_250_000 });
    assert.deepEqual(bucket(20e6, 160_000), { rate: 2_500_000, burst: 20_000, limit: 125_000 });
  });

  it("a burst is at least a frame, and a queue holds at least what arrives at once", () => {
    assert.deepEqual(tokenBucket({ rate: 64_000, burst: 1 }, MTU), { rate: 8000, burst: LARGEST_FRAME, limit: 6088 });
    assert.deepEqual(tokenBucket({ rate: 64_000, burst: 1 }, 9000), { rate: 8000, burst: 9022, limit: 36_088 });
    // 62,500 bytes are less than a packet of segments may have, so one of that size has to fit the queue.
    assert.deepEqual(tokenBucket({ rate: 5e6, burst: 1e9 }, MTU), { rate: 625_000, burst: 62_500, limit: 62_500 });
    assert.deepEqual(tokenBucket({ rate: 10e6, burst: 1e9 }, MTU), { rate: 1_250_000, burst: 125_000, limit: 65_558 });
  });
});
