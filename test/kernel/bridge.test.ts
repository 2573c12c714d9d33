import assert from "node:assert/strict";
import fc from "fast-check";
import { parseMac } from "../../kernel/ip/mac.ts";
import {
  changeLink,
  createBridge,
  createVeth,
  deleteLink,
  OPERATIONAL_STATE_UNKNOWN,
} from "../../kernel/route/link.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { inner, iprouteOne, pick } from "./iproute.ts";

const mac = parseMac("8a:58:0a:f4:01:01");

describe("kernel/route bridge", () => {
  let lab: Lab | undefined;
  let node: LabNamespace;
  let pod: LabNamespace;
  let bridge = 0;

  before(function () {
    lab = suiteLab(this, "kernel-bridge");
    node = lab.namespace("node");
    pod = lab.namespace("pod");
    node.route.request(createBridge({ name: "cni0", mac }));
    bridge = node.link("cni0").index;
  });

  /** Adds a port whose MAC is lower than the bridge's. A bridge without a MAC of its own would adopt it. */
  function addPort(number: number, master = bridge): void {
    const host = {
      name: `dbv${number}`,
      mac: parseMac(`02:00:00:00:00:${(number + 1).toString(16).padStart(2, "0")}`),
    };
    const peer = { name: `eth${number}`, mac: parseMac("0a:58:0a:f4:01:07"), netnsFd: pod.handle.fd };
    node.route.request(createVeth({ host, peer, mtu: 1400, master }));
    node.route.request(changeLink({ name: host.name }, { up: true }));
  }

  it("is created down, with its own MAC and STP off (POD-16)", () => {
    const seen = iprouteOne(node, "ip", "link show cni0");
    assert.deepEqual(pick(seen, "address", "ifindex"), { address: mac, ifindex: bridge });
    const data = inner(seen, "linkinfo", "info_data");
    assert.deepEqual(pick(data, "stp_state"), { stp_state: 0 });
    const ours = node.link("cni0");
    assert.deepEqual([ours.kind, ours.mac, ours.up, ours.bridge], ["bridge", mac, false, { stp: false }]);
    node.route.request(changeLink({ index: bridge }, { up: true }));
    assert.equal(node.link("cni0").up, true);
  });

  it("has no carrier before its first port; a bridge made without a MAC has one, and its state stays unknown", () => {
    assert.equal(node.link("cni0").carrier, false);
    node.exec("ip", ["link", "add", "br9", "type", "bridge"]);
    node.exec("ip", ["link", "set", "br9", "up"]);
    const { carrier, operationalState } = node.link("br9");
    assert.deepEqual([carrier, operationalState], [true, OPERATIONAL_STATE_UNKNOWN]);
    node.route.request(deleteLink({ name: "br9" }));
  });

  it("has STP on when iproute2 switches it on", () => {
    node.exec("ip", ["link", "add", "stp0", "type", "bridge", "stp_state", "1"]);
    assert.deepEqual(node.link("stp0").bridge, { stp: true });
    node.route.request(deleteLink({ name: "stp0" }));
  });

  it("keeps its MAC while ports come and go in any order (B7)", () => {
    const ports = new Set<number>();
    fc.assert(
      fc.property(fc.array(fc.nat(5), { minLength: 4, maxLength: 12 }), (toggled) => {
        for (const number of toggled) {
          if (ports.delete(number)) node.route.request(deleteLink({ name: `dbv${number}` }));
          else {
            addPort(number);
            ports.add(number);
          }
          assert.equal(node.link("cni0").mac, mac);
        }
      }),
      { numRuns: 5 },
    );
    assert.equal(iprouteOne(node, "ip", "link show cni0")["address"], mac);
    for (const number of ports) node.route.request(deleteLink({ name: `dbv${number}` }));
    assert.equal(node.link("cni0").mac, mac);
  });

  it("has ports whose hairpin is switched on and off, by index and by name (POD-11)", () => {
    addPort(2);
    assert.deepEqual(node.link("dbv2").bridgePort, {
      state: 0,
      hairpin: false,
      groupForwardMask: 0,
      multicastRouter: 1,
    });
    for (const hairpin of [true, false, true]) {
      const reference = hairpin ? { index: node.link("dbv2").index } : { name: "dbv2" };
      node.route.request(changeLink(reference, { bridgePort: { hairpin } }));
      assert.equal(iprouteOne(node, "bridge", "link show dev dbv2")["hairpin"], hairpin);
      assert.equal(node.link("dbv2").bridgePort?.hairpin, hairpin);
    }
  });

  it("has ports whose up, MTU, alias and hairpin change in one message", () => {
    addPort(3);
    node.route.request(
      changeLink({ name: "dbv3" }, { up: false, mtu: 1300, alias: "a/b", bridgePort: { hairpin: true } }),
    );
    const { up, mtu, alias, bridgePort } = node.link("dbv3");
    assert.deepEqual(
      { up, mtu, alias, bridgePort },
      {
        up: false,
        mtu: 1300,
        alias: "a/b",
        bridgePort: { state: 0, hairpin: true, groupForwardMask: 0, multicastRouter: 1 },
      },
    );
  });

  it("is read as its ports' master, until a port leaves it", () => {
    assert.equal(node.link("dbv2").master, bridge);
    node.exec("ip", ["link", "set", "dbv2", "nomaster"]);
    assert.equal(node.link("dbv2").master, undefined);
    node.exec("ip", ["link", "set", "dbv2", "master", "cni0"]);
    assert.equal(node.link("dbv2").master, bridge);
  });
});
