import assert from "node:assert/strict";
import { type NotificationSource, planSource, type SourcePlan } from "../../../kernel/notifications/source.ts";
import { bindLogGroup } from "../../../kernel/packets/log_group.ts";

const log = { kind: "nflog", group: 4, copyBytes: 64, queueThreshold: 1, queueMilliseconds: 0 } as const;

describe("kernel/notifications source", () => {
  const plans: readonly (readonly [source: NotificationSource, plan: Omit<SourcePlan, "receiveBufferBytes">])[] = [
    [
      { kind: "route", groups: ["link", "neighbour", "ipv4-address", "ipv4-route", "ipv6-address", "ipv6-route"] },
      { protocol: 0, groups: [1, 3, 5, 7, 9, 11], requests: [], tellsState: true },
    ],
    [{ kind: "nftables" }, { protocol: 12, groups: [7], requests: [], tellsState: true }],
    [
      { kind: "conntrack", events: ["new", "update", "destroy"] },
      { protocol: 12, groups: [1, 2, 3], requests: [], tellsState: true },
    ],
    [log, { protocol: 12, groups: [], requests: [bindLogGroup(log)], tellsState: false }],
  ];
  for (const [source, expected] of plans) {
    it(`the plan of source ${source.kind} has its netlink groups and its receive buffer`, () => {
      const { receiveBufferBytes, ...plan } = planSource(source);
      assert.deepEqual(plan, expected);
      assert.equal(receiveBufferBytes, 8 * 1024 * 1024);
      assert.equal(planSource({ ...source, receiveBufferBytes: 4096 }).receiveBufferBytes, 4096);
    });
  }
});
