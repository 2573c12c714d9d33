import assert from "node:assert/strict";
import type { AttachmentRecord } from "../../../../attachment/attachment.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { RuleHolders, supersededBy } from "../../../../policyd/attachments/rule_holders.ts";
import { attachmentRecord } from "../../../support/cni/attachment_record.ts";

const RULES = { serviceCidrs: [], nonMasqueradeCidrs: [parseCidr("10.244.0.0/16")] };

/** A pod whose container ID and addresses are made from a number. */
function pod(number: number, changes: Partial<AttachmentRecord> = {}): AttachmentRecord {
  return attachmentRecord({
    containerId: `c${number}`,
    pod: { namespace: "default", name: `web-${number}`, uid: "u" },
    addresses: [`10.244.1.${number}/32`, `fd00:244:1::${number}/128`].map((text) => parseCidr(text)),
    portMappings: [],
    policyd: RULES,
    ...changes,
  });
}

function port(hostPort: number, hostIp?: string): Pick<AttachmentRecord, "portMappings"> {
  const address = hostIp === undefined ? {} : { hostIp: parseAddress(hostIp) };
  return { portMappings: [{ hostPort, containerPort: 80, protocol: "tcp", ...address }] };
}

describe("policyd/attachments rule holders", () => {
  it("R6: a host port belongs to one attachment until it is released, whether the plugin or the daemon keeps its rules", () => {
    const holders = new RuleHolders();
    const { policyd: _policyd, ...alone } = pod(1, port(80));
    const second = pod(2, port(80, "192.0.2.1"));
    assert.equal(holders.take(alone), undefined);
    const conflict = holders.take(second);
    assert.equal(conflict?.holder, alone);
    assert.equal(conflict?.error.code, "ERR_HOST_PORT_TAKEN");
    assert.match(
      conflict?.error.message ?? "",
      /portMappings: host port 80\/tcp of 192\.0\.2\.1 is held by default\/web-1 c1;/,
    );
    assert.deepEqual([holders.has(alone), holders.has(second)], [true, false]);
    assert.equal(holders.take(pod(3, port(80, "fd00::1")))?.holder, alone);
    holders.release(alone);
    assert.equal(holders.take(second), undefined);
  });

  it("an attachment that comes again with other ports replaces its own ports", () => {
    const holders = new RuleHolders();
    holders.take(pod(1, port(80)));
    const again = pod(1, port(81));
    assert.equal(holders.take(again), undefined);
    assert.equal(holders.take(pod(2, port(80))), undefined);
    assert.equal(holders.take(pod(3, port(81)))?.holder, again);
  });

  it("an attachment that comes again with a port of another keeps its own ports", () => {
    const holders = new RuleHolders();
    const [first, other] = [pod(1, port(80)), pod(2, port(81))];
    holders.take(first);
    holders.take(other);
    assert.equal(holders.take(pod(1, port(81)))?.holder, other);
    assert.equal(holders.has(first), true);
    assert.equal(holders.take(pod(3, port(80)))?.holder, first);
  });

  it("R6: the work for an attachment's host ports does not grow with the number of those that have some", () => {
    const readsBeside = (others: number): number => {
      const holders = new RuleHolders();
      for (let number = 2; number < 2 + others; number++) holders.take(pod(number, port(number)));
      let reads = 0;
      const mapping = { containerPort: 80, protocol: "tcp" as const, hostPort: 1 };
      const counted = Object.defineProperty(mapping, "hostPort", { get: () => (reads++, 1) });
      assert.equal(holders.take(pod(1, { portMappings: [counted] })), undefined);
      return reads;
    };
    assert.equal(readsBeside(200), readsBeside(1));
  });

  it("B11: an address is masqueraded for only one attachment, since the kernel takes no overlapping ranges", () => {
    const holders = new RuleHolders();
    const first = pod(1, { ipMasq: true });
    const other = pod(2, { ipMasq: true, network: "other", addresses: first.addresses });
    const { policyd: _policyd, ...alone } = other;
    assert.equal(holders.take(first), undefined);
    assert.equal(holders.take(other)?.error.code, "ERR_CONFIGURATION");
    assert.match(
      holders.take(other)?.error.message ?? "",
      /10\.244\.1\.1 is also that of default\/web-1 c1 in network/,
    );
    assert.equal(holders.take({ ...other, ipMasq: false }), undefined);
    assert.equal(holders.take(alone), undefined, "its rules are in another table");
  });

  it("the message about a taken host port shows no characters that a log or a terminal would act on", () => {
    const holders = new RuleHolders();
    holders.take(pod(1, { ...port(80), pod: { namespace: "a\n\u001b[2J", name: "b", uid: "u" } }));
    assert.match(holders.take(pod(2, port(80)))?.error.message ?? "", /held by a\?\?\?2J\/b c1;/);
  });

  it("R7: a new attachment supersedes the earlier one with the same address in the same network", () => {
    const next = pod(3, { addresses: pod(1).addresses });
    const elsewhere = pod(4, { network: "other", addresses: next.addresses });
    const gone = supersededBy(next, [pod(1), pod(2), next, elsewhere]);
    assert.deepEqual(
      gone.map(({ containerId }) => containerId),
      ["c1"],
    );
  });
});
