import assert from "node:assert/strict";
import { KERNEL_TOOLS, SERVERS, decideTools, installedPackages } from "../../setup/debian.mjs";

type Decision = ReturnType<typeof decideTools>;

function decide(present: readonly string[], isRoot: boolean): Decision {
  return decideTools(KERNEL_TOOLS, { has: (command) => present.includes(command), isRoot });
}

describe("setup: tools of the machine", () => {
  it("are complete when all are installed", () => {
    assert.deepEqual(decide(["ip", "bridge", "nft"], true), { kind: "complete" });
    assert.deepEqual(decide(["ip", "bridge", "nft"], false), { kind: "complete" });
  });

  it("are installed as root when missing, each package once", () => {
    const decision = decide(["apt-get"], true);
    assert.equal(decision.kind, "install");
    assert.deepEqual(decision.packages, ["iproute2", "nftables"]);
    assert.deepEqual(
      decision.tools.map((tool) => tool.command),
      ["ip", "bridge", "nft"],
    );
  });

  it("do not stop the setup when missing without root, and the message names them", () => {
    const decision = decide(["apt-get", "ip", "bridge"], false);
    assert.equal(decision.kind, "go-on");
    assert.match(decision.reason, /^not root, and nft missing \(Debian: nftables\)/);
  });

  it("stop the setup as root without apt-get, and the message names the way out", () => {
    const decision = decide(["nft"], true);
    assert.equal(decision.kind, "fail");
    assert.match(decision.reason, /ip, bridge.*no apt-get.*iproute2/);
  });

  it("do not include a server that would start with the machine, but only what it is linked to", () => {
    assert.deepEqual(installedPackages(SERVERS), ["dnsmasq-base", "libssl3"]);
  });
});
