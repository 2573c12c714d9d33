import assert from "node:assert/strict";
import { familyOf, parseAddress } from "../../kernel/ip/address.ts";
import { hostCidr } from "../../kernel/ip/cidr.ts";
import { parseMac } from "../../kernel/ip/mac.ts";
import { newAddress } from "../../kernel/route/interface_address.ts";
import { changeLink, createVeth } from "../../kernel/route/link.ts";
import { newRoute } from "../../kernel/route/route.ts";
import { waitUntilLocal, waitUntilUp } from "../../kernel/route/readiness.ts";
import { realWaiting, type Waiting } from "../../kernel/waiting.ts";
import type { Lab } from "../lab/lab.ts";
import { type LabNamespace, requestAll } from "../lab/namespace.ts";
import { testLab } from "../support/suite_lab.ts";

describe("kernel/route readiness", () => {
  let lab: Lab | undefined;
  let node: LabNamespace;
  let pod: LabNamespace;

  beforeEach(function () {
    lab = testLab(this, "kernel-ready");
    node = lab.namespace("node");
    pod = lab.namespace("pod");
    node.route.request(
      createVeth({
        host: { name: "host0", mac: parseMac("ae:00:00:00:00:01") },
        peer: { name: "eth0", mac: parseMac("0a:00:00:00:00:01"), netnsFd: pod.handle.fd },
        mtu: 0,
        master: 0,
      }),
    );
    node.route.request(changeLink({ name: "host0" }, { up: true }));
  });
  /** Returns a clock that jumps past every deadline with the first pause. */
  const impatient = (): Waiting => {
    let now = 0;
    return { now: () => now, pause: () => void (now += 1e6) };
  };

  /** Returns the real clock, whose first pause also runs an action, so that it certainly happens during the wait. */
  const meanwhile = (action: () => void): Waiting => {
    let isDone = false;
    return {
      now: () => realWaiting.now(),
      pause: (milliseconds) => {
        if (!isDone) action();
        isDone = true;
        realWaiting.pause(milliseconds);
      },
    };
  };

  it("a wait for a link without carrier fails with its name", () => {
    assert.throws(() => waitUntilUp(node.route, { name: "host0" }, impatient()), {
      code: "ERR_NETLINK",
      message: /link host0 has no carrier/,
    });
  });

  it("a wait for a link ends when its other end comes up", () => {
    const peerUp = (): void => void pod.route.request(changeLink({ name: "eth0" }, { up: true }));
    waitUntilUp(node.route, { name: "host0" }, meanwhile(peerUp));
    assert.equal(node.link("host0").operationalState, 6);
  });

  for (const text of ["10.244.1.7", "fd00:244::7"]) {
    const address = parseAddress(text);

    it(`a wait for a foreign address, ${text}, to which there is a route, fails with its name`, () => {
      const { index } = pod.link("eth0");
      const gateway = parseAddress(text.replace(/7$/, "1"));
      requestAll(pod.route, [
        changeLink({ index }, { up: true }),
        newRoute({ family: familyOf(gateway), destination: undefined, gateway, outputInterface: index, onLink: true }),
      ]);
      assert.throws(() => waitUntilLocal(pod.route, address, impatient()), {
        code: "ERR_NETLINK",
        message: new RegExp(`address ${text} has no local route`),
      });
    });

    it(`${text} is received after the wait for it (B18)`, () => {
      const { index } = pod.link("eth0");
      pod.route.request(changeLink({ index }, { up: true }));
      const add = (): void => void pod.route.request(newAddress(index, hostCidr(address)));
      waitUntilLocal(pod.route, address, meanwhile(add));
      assert.match(pod.exec("ip", ["route", "get", text]), /^local /);
    });
  }
});
