import assert from "node:assert/strict";
import { parseAddress, FAMILIES } from "../../kernel/ip/address.ts";
import { formatCidr, parseCidr } from "../../kernel/ip/cidr.ts";
import { parseMac } from "../../kernel/ip/mac.ts";
import { newAddress } from "../../kernel/route/interface_address.ts";
import { changeLink, createBridge } from "../../kernel/route/link.ts";
import { deleteRoute, dumpRoutes, newRoute, parseRoute, type Route, ROUTE_PROTOCOL } from "../../kernel/route/route.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { iproute, pick } from "./iproute.ts";

const gateways = { 4: "10.244.1.1", 6: "fd00:244:1::1" } as const;

describe("kernel/route route", () => {
  let lab: Lab | undefined;
  let pod: LabNamespace;
  let eth0 = 0;

  before(function () {
    lab = suiteLab(this, "kernel-route");
    pod = lab.namespace("pod");
    pod.route.request(createBridge({ name: "eth0", mac: parseMac("0a:58:0a:f4:01:07") }));
    eth0 = pod.link("eth0").index;
    pod.route.request(changeLink({ index: eth0 }, { up: true }));
    pod.route.request(newAddress(eth0, parseCidr("10.99.0.7/32")));
    pod.route.request(newAddress(eth0, parseCidr("fd99::7/128")));
  });

  function ours(family: 4 | 6): readonly Route[] {
    return pod.route
      .dump(dumpRoutes(family))
      .map(parseRoute)
      .filter((found) => found !== undefined);
  }

  for (const family of FAMILIES) {
    const gateway = parseAddress(gateways[family]);
    const via = { family, gateway, onLink: true, destination: undefined };

    it(`an on-link IPv${family} default route is added and marked as ours (POD-14)`, () => {
      pod.route.request(newRoute({ ...via, outputInterface: eth0 }));
      const [found] = iproute(pod, "ip", `-${family} route show default`);
      assert.deepEqual(pick(found ?? {}, "gateway", "dev", "protocol", "flags"), {
        gateway: gateways[family],
        dev: "eth0",
        protocol: "107",
        flags: ["onlink", "linkdown"],
      });
      assert.deepEqual(
        ours(family).find(({ destination }) => destination === undefined),
        {
          table: 254,
          family,
          destination: undefined,
          gateway,
          outputInterface: eth0,
          source: undefined,
          hasOtherNextHop: false,
          priority: family === 4 ? 0 : 1024,
          protocol: ROUTE_PROTOCOL,
          onLink: true,
        },
      );
    });

    it(`a second default route, also by another gateway, is refused, and the first is deleted once (IPv${family})`, () => {
      const spec = { ...via, outputInterface: eth0 };
      const other = parseAddress(family === 4 ? "10.244.1.2" : "fd00:244:1::2");
      for (const again of [spec, { ...spec, gateway: other }]) {
        assert.throws(() => pod.route.request(newRoute(again)), {
          message: /^add route default \(IPv\d\) via .* \(EEXIST\)$/,
        });
      }
      assert.equal(ours(family).find(({ destination }) => destination === undefined)?.gateway, gateway);
      pod.route.request(deleteRoute(spec));
      assert.equal(iproute(pod, "ip", `-${family} route show default`).length, 0);
      assert.throws(() => pod.route.request(deleteRoute(spec)), { message: /\(ESRCH\)$/ });
    });

    it(`a route to a host on the link is added with a priority (IPv${family})`, () => {
      const destination = parseCidr(family === 4 ? "10.244.1.1/32" : "fd00:244:1::1/128");
      const spec = { family, destination, gateway: undefined, outputInterface: eth0, onLink: false, priority: 77 };
      pod.route.request(newRoute(spec));
      const text = formatCidr(destination).replace(/\/.*/, "");
      const [found] = iproute(pod, "ip", `-${family} route show ${text}`);
      assert.deepEqual(pick(found ?? {}, "dst", "metric", "protocol", "gateway"), {
        dst: text,
        metric: 77,
        protocol: "107",
        gateway: undefined,
      });
      assert.ok(
        ours(family).some(
          (route) =>
            route.destination !== undefined &&
            formatCidr(route.destination) === formatCidr(destination) &&
            route.priority === 77,
        ),
      );
      pod.route.request(deleteRoute(spec));
      assert.equal(iproute(pod, "ip", `-${family} route show ${text}`).length, 0);
    });
  }

  for (const table of [100, 255 + 1, 4_294_967_295]) {
    it(`routes with an MTU and a segment size are added to table ${table}`, () => {
      for (const family of FAMILIES) {
        const gateway = parseAddress(gateways[family]);
        const spec = { family, gateway, onLink: true, destination: undefined, outputInterface: eth0, table };
        pod.route.request(newRoute({ ...spec, mtu: 1300, advmss: 1200, priority: 77 }));
        pod.route.request(newRoute({ ...spec, priority: 78 }));
        const [first, second] = iproute(pod, "ip", `-${family} route show default table ${table}`);
        const metrics = [{ mtu: 1300, advmss: 1200 }];
        assert.deepEqual(pick(first ?? {}, "metric", "metrics"), { metric: 77, metrics });
        assert.deepEqual(pick(second ?? {}, "metric", "metrics"), { metric: 78, metrics: second?.["metrics"] });
        assert.notDeepEqual(second?.["metrics"], metrics);
      }
    });
  }

  it("a route has the requested protocol", () => {
    const destination = parseCidr("10.245.0.0/16");
    pod.route.request(
      newRoute({ family: 4, destination, gateway: undefined, outputInterface: eth0, onLink: false, protocol: 199 }),
    );
    assert.equal(iproute(pod, "ip", "route show 10.245.0.0/16")[0]?.["protocol"], "199");
  });

  it("only the unicast routes of the main table are read", () => {
    pod.exec("ip", ["route", "add", "10.246.0.0/16", "dev", "eth0", "table", "99"]);
    pod.exec("ip", ["route", "add", "unreachable", "10.247.0.0/16"]);
    const texts = ours(4).map(({ destination }) => (destination === undefined ? "default" : formatCidr(destination)));
    assert.ok(texts.includes("10.245.0.0/16"));
    assert.ok(!texts.includes("10.246.0.0/16") && !texts.includes("10.247.0.0/16"), texts.join(" "));
    assert.ok(!texts.some((text) => text.startsWith("127.")), "routes of the local table are not read");
  });

  it("the error has the kernel's own words", () => {
    const spec = { family: 4, outputInterface: eth0, onLink: false, gateway: undefined } as const;
    assert.throws(() => pod.route.request(newRoute({ ...spec, destination: parseCidr("10.9.0.1/24") })), {
      message: "add route 10.9.0.1/24: Invalid prefix for given prefix length (EINVAL)",
    });
    assert.throws(
      () => pod.route.request(newRoute({ ...spec, destination: undefined, gateway: parseAddress("192.0.2.1") })),
      {
        message: /^add route default \(IPv4\) via 192\.0\.2\.1: Nexthop has invalid gateway.* \(ENETUNREACH/,
      },
    );
  });
});
