import assert from "node:assert/strict";
import { effectiveCapabilities, kernelRefusal } from "../../support/privilege.ts";

const NET_ADMIN = 1n << 12n;
const SYS_ADMIN = 1n << 21n;

describe("test support: privilege", () => {
  it("kernel tests run with the capabilities for namespaces and links, as root or not", () => {
    assert.equal(kernelRefusal({ uid: 0, capabilities: NET_ADMIN | SYS_ADMIN }), undefined);
    assert.equal(kernelRefusal({ uid: 1000, capabilities: NET_ADMIN | SYS_ADMIN }), undefined);
  });

  it("the refusal names the missing capabilities", () => {
    assert.match(kernelRefusal({ uid: 1000, capabilities: 0n }) ?? "", /^not root .*CAP_NET_ADMIN.*CAP_SYS_ADMIN/);
    assert.match(kernelRefusal({ uid: 0, capabilities: NET_ADMIN }) ?? "", /^root, but no CAP_SYS_ADMIN: /);
  });

  it("effective capabilities are read from /proc/PID/status", () => {
    const status = "Name:\tnode\nCapPrm:\t000001ffffffffff\nCapEff:\t0000000000201000\nCapBnd:\t000001ffffffffff\n";
    assert.equal(effectiveCapabilities(status), NET_ADMIN | SYS_ADMIN);
    assert.equal(effectiveCapabilities("Name:\tnode\n"), 0n);
  });
});
