import assert from "node:assert/strict";
import { type Address, familyOf, parseAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { parseMac } from "../../../kernel/ip/mac.ts";
import { dumpAddresses, parseInterfaceAddress } from "../../../kernel/route/interface_address.ts";
import { setNeighbour } from "../../../kernel/route/neighbour.ts";
import { newRoute } from "../../../kernel/route/route.ts";
import { requireKernel } from "../../support/privilege.ts";
import { createLab, type Lab } from "../lab.ts";
import type { LabNamespace } from "../namespace.ts";
import { connect, routeTo } from "../topology.ts";
import { redirectCounters, routeExceptions } from "./counters.ts";
import { Prober } from "./prober.ts";

/**
 * Makes a sender whose router has to send its packets back out of the link they came in by: the only case in which
 * routers send redirects.
 */
function senderAndRouter(lab: Lab): { readonly sender: LabNamespace; readonly router: LabNamespace } {
  const sender = lab.namespace("sender");
  const router = lab.router();
  connect(
    {
      namespace: sender,
      link: "eth0",
      mac: parseMac("02:00:00:00:00:01"),
      addresses: [parseCidr("192.0.2.2/24"), parseCidr("2001:db8::2/64")],
    },
    {
      namespace: router,
      link: "eth0",
      mac: parseMac("02:00:00:00:00:02"),
      addresses: [parseCidr("192.0.2.1/24"), parseCidr("2001:db8::1/64")],
    },
  );
  const { index } = router.link("eth0");
  const linkLocal = router.route
    .dump(dumpAddresses({ family: 6, index }))
    .flatMap((message) => parseInterfaceAddress(message)?.address.address ?? [])
    .find((address) => typeof address === "bigint" && address >> 118n === 0x3fan);
  assert.ok(linkLocal !== undefined);
  const throughEth0 = (namespace: LabNamespace, destination: string | undefined, gateway: Address): void => {
    const route = routeTo(destination === undefined ? undefined : parseCidr(destination), gateway);
    namespace.route.request(newRoute({ ...route, outputInterface: namespace.link("eth0").index }));
  };
  throughEth0(sender, undefined, parseAddress("192.0.2.1"));
  throughEth0(sender, undefined, linkLocal);
  throughEth0(router, "198.51.100.0/24", parseAddress("192.0.2.3"));
  throughEth0(router, "2001:db8:1::/64", parseAddress("fe80::3"));
  // A sender follows a redirect only to a known neighbour.
  for (const text of ["192.0.2.3", "fe80::3"]) {
    sender.route.request(setNeighbour(sender.link("eth0").index, parseAddress(text), parseMac("02:00:00:00:00:03")));
  }
  sender.writeSysctl("net/ipv4/conf/eth0/secure_redirects", "0");
  sender.writeSysctl("net/ipv4/conf/all/secure_redirects", "0");
  return { sender, router };
}

/**
 * Sends UDP over IPv4, and TCP over IPv6. Over IPv6 a redirect applies only to UDP sockets that are bound to a device
 * (fib6_nh_redirect_match), and to a TCP connection only when it is not within a system call (tcp_v6_err), as when the
 * SYN is repeated after a second.
 */
async function sendThrough(lab: Lab, from: LabNamespace, address: Address): Promise<void> {
  using prober = new Prober(lab.calls);
  const isV4 = familyOf(address) === 4;
  const flow = { protocol: isV4 ? "udp" : "tcp", from, to: { address, port: 9 } } as const;
  await prober.run([flow], { timeoutMilliseconds: isV4 ? 300 : 1500 });
}

describe("redirect counters and route exceptions", () => {
  before(function () {
    requireKernel(this);
  });

  for (const text of ["198.51.100.7", "2001:db8:1::7"]) {
    const to = parseAddress(text);
    const family = familyOf(to);

    it(`show an IPv${family} redirect that is followed`, async () => {
      using lab = createLab("redirects");
      const { sender, router } = senderAndRouter(lab);
      assert.deepEqual(routeExceptions(sender), []);
      await sendThrough(lab, sender, to);
      assert.ok(redirectCounters(router).sent > 0);
      assert.ok(redirectCounters(sender).received > 0);
      assert.match(routeExceptions(sender).join("\n"), new RegExp(`^${text} via`, "m"));
    });
  }
});
