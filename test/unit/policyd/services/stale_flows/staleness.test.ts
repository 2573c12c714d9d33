import assert from "node:assert/strict";
import { manifest, setUp, VIP } from "../../../../support/services/stale_flow_machine.ts";
import { udpEntry } from "../../../../support/services/udp_entry.ts";

for (const [family, { vip, first, second, other }] of [
  [4, { vip: VIP, first: "10.244.1.2", second: "10.244.2.3", other: "10.244.3.4" }],
  [6, { vip: "fd00:96::10", first: "fd00:244:1::2", second: "fd00:244:2::3", other: "fd00:244:3::4" }],
] as const) {
  describe(`services/stale_flows: staleness of flows, IPv${family}`, () => {
    const toFirst = udpEntry([vip, 53], [first, 5353]);
    const toSecond = udpEntry([vip, 53], [second, 5353]);

    it("SVC-27 ETP-02: policies and hints send new clients elsewhere and make no flow stale", async () => {
      const { tell, areDeleted } = setUp();
      tell(manifest("a", vip, [{ address: first }, { address: other }]));
      const local = { externalTrafficPolicy: "Local", internalTrafficPolicy: "Local" };
      tell(manifest("a", vip, [{ address: first }], local));
      assert.deepEqual(await areDeleted(udpEntry([vip, 53], [other, 5353]), toFirst), [true, false]);
    });

    it("SVC-27: a flow to an endpoint that is its own frontend is not stale, and one to a former endpoint there is", async () => {
      const { tell, remove, areDeleted } = setUp();
      const own = { externalIPs: [first], ports: [{ name: "dns", port: 5353, protocol: "UDP" }] };
      const flow = udpEntry([first, 5353], [first, 5353]);
      tell(manifest("a", vip, [{ address: first }], own));
      assert.deepEqual(await areDeleted(flow), [false]);
      tell(manifest("a", vip, [{ address: second }], own));
      assert.deepEqual(await areDeleted(flow), [true]);
      tell(manifest("a", vip, [{ address: first }], own));
      remove("a");
      assert.deepEqual(await areDeleted(flow), [false]);
    });

    it("SVC-27: a frontend that moves from one Service to another at once is checked by the new one", async () => {
      for (const order of ["ab", "ba"]) {
        const { tell, remove, settle, areDeleted } = setUp();
        tell(manifest("a", vip, [{ address: first }]));
        await settle();
        for (const step of order) {
          if (step === "a") remove("a");
          else tell(manifest("b", vip, [{ address: second }]));
        }
        // The daemon compiles a Service again when it gets a frontend.
        tell(manifest("b", vip, [{ address: second }]));
        assert.deepEqual(await areDeleted(toFirst, toSecond), [true, false], order);
      }
    });
  });
}
