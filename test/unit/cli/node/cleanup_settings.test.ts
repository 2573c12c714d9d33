import assert from "node:assert/strict";
import { carryOut } from "../../../../cli/node/cleanup/carry_out.ts";
import { cleanupPlan } from "../../../../cli/node/cleanup/plan.ts";
import type { Removal } from "../../../../cli/node/cleanup/removal.ts";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { inventory, texts } from "../../../support/node/inventory.ts";

describe("cli/node: settings in a cleanup", () => {
  const MAX = "net/netfilter/nf_conntrack_max";
  const SETTINGS: readonly (readonly [
    string,
    { readonly key: string; readonly now: string | undefined; readonly connections?: number },
    string | RegExp | undefined,
  ])[] = [
    [
      "that has Drawbridge's value gets its original value back",
      { key: "net/ipv4/conf/all/send_redirects", now: "1000" },
      "setting net.ipv4.conf.all.send_redirects, back to 500",
    ],
    [
      "that another program has set since stays",
      { key: "net/ipv4/conf/all/send_redirects", now: "7" },
      /it was 500 before Drawbridge, and somebody else has set it to 7/,
    ],
    ["that somebody has given back is as it was", { key: "net/ipv4/conf/all/send_redirects", now: "500" }, undefined],
    ["of a device that is gone is gone", { key: "net/ipv4/conf/br0/send_redirects", now: undefined }, undefined],
    [
      "for forwarding stays, with the way to change it",
      { key: "net/ipv4/ip_forward", now: "1000" },
      /sysctl -w net\.ipv4\.ip_forward=500/,
    ],
    ["for forwarding of IPv6 stays", { key: "net/ipv6/conf/all/forwarding", now: "1000" }, /others may rely on that/],
    [
      "for advertised routes stays, since forwarding would lose them",
      { key: "net/ipv6/conf/eth0.7/accept_ra", now: "1000" },
      /sysctl -w net\/ipv6\/conf\/eth0\.7\/accept_ra=500/,
    ],
    [
      "for the number of connections gets its value back",
      { key: MAX, now: "1000", connections: 250 },
      "setting net.netfilter.nf_conntrack_max, back to 500",
    ],
    [
      "for the number of connections stays while there are many",
      { key: MAX, now: "1000", connections: 251 },
      /251 connections are tracked/,
    ],
  ];
  for (const [name, { key, now, connections = 0 }, expected] of SETTINGS) {
    it(`UNINSTALL-01: a setting ${name}`, () => {
      const setting = { key, original: "500", ours: ["1000"] };
      const changes = { settings: [{ path: "/run/drawbridge/settings/x.json", setting, present: now }], connections };
      const { removals, kept } = cleanupPlan(inventory({ ...changes, links: [] }), true);
      const given = texts(removals).filter((text) => text.startsWith("setting "));
      const said = kept.filter(({ what }) => what.startsWith("net"));
      assert.deepEqual(given, typeof expected === "string" ? [expected] : []);
      assert.equal(said.length, expected instanceof RegExp ? 1 : 0);
      if (expected instanceof RegExp) assert.match(said[0]?.why ?? "", expected);
    });
  }

  it("UNINSTALL-01: the record of an original value stays when the setting cannot be restored", () => {
    const record = "/run/drawbridge/settings/x.json";
    const removals: readonly Removal[] = [
      { kind: "setting", key: "net/ipv4/conf/all/send_redirects", value: "1", record },
      { kind: "directory", path: "/var/lib/cni/drawbridge-flows" },
      { kind: "directory", path: "/run/drawbridge" },
    ];
    const asked: string[] = [];
    const outcomes = carryOut(
      {
        remove: (removal) => {
          asked.push(removal.kind);
          if (removal.kind === "setting") throw new DrawbridgeError("ERR_NETLINK", "read-only file system (EROFS)");
        },
      },
      removals,
    );
    assert.deepEqual(asked, ["setting", "directory"]);
    assert.match(outcomes[2]?.failure ?? "", /original values/);
  });
});
