import assert from "node:assert/strict";
import type { AttachmentRecord } from "../../../../attachment/attachment.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { recordingNotices } from "../../../../policyd/events/notice.ts";
import { recordingLogger } from "../../../../policyd/log/recording_logger.ts";
import { HostPortRefusals } from "../../../../policyd/protection/host_port_refusals.ts";
import { attachmentRecord } from "../../../support/cni/attachment_record.ts";

const PORTS = [
  { protocol: "TCP", port: 10_250, owner: "the kubelet" },
  { protocol: "UDP", port: 4789, owner: "the tunnel between nodes" },
] as const;

describe("policyd/protection: host ports that no pod gets", () => {
  const policyd = { serviceCidrs: [], nonMasqueradeCidrs: [] };
  const mapped = (...ports: readonly [number, "tcp" | "udp", string?][]): AttachmentRecord => ({
    ...attachmentRecord({ pod: { namespace: "team", name: "web", uid: "u1" } }),
    policyd,
    portMappings: ports.map(([hostPort, protocol, hostIp]) => ({
      hostPort,
      protocol,
      containerPort: 8080,
      ...(hostIp === undefined ? {} : { hostIp: parseAddress(hostIp) }),
    })),
  });

  it("CLAIM-03 a pod gets all its host ports but those of the node's own programs, with and without a hostIP", () => {
    const events = recordingNotices();
    const refusals = new HostPortRefusals(PORTS, recordingLogger(), events);
    const one = mapped([80, "tcp"], [10_250, "tcp"], [10_250, "tcp", "192.0.2.11"], [10_250, "udp"], [4789, "udp"]);
    const served = refusals.served(one).portMappings.map(({ hostPort, protocol }) => `${hostPort}/${protocol}`);
    assert.deepEqual(served, ["80/tcp", "10250/udp"]);
    refusals.attached(one);
    refusals.attached(one);
    assert.deepEqual(
      events.notices.map(({ regarding, reason, note }) => [regarding.kind, regarding.key, regarding.uid, reason, note]),
      [
        ["10250/tcp", "the kubelet"],
        ["10250/tcp of 192.0.2.11", "the kubelet"],
        ["4789/udp", "the tunnel between nodes"],
      ].map(([port, owner]) => [
        "Pod",
        "team/web",
        "u1",
        "HostPortNotServed",
        `Pod team/web: host port ${port} is protected for ${owner}: the pod is not reached there; all its other ports are published`,
      ]),
    );
    assert.equal(refusals.count, 3);
    refusals.detached(one);
    assert.equal(refusals.count, 0);
  });

  it("CLAIM-03 an attachment without a protected port or with rules of the plugin is returned unchanged", () => {
    const refusals = new HostPortRefusals(PORTS, recordingLogger(), recordingNotices());
    const plain = mapped([80, "tcp"]);
    assert.equal(refusals.served(plain), plain);
    const { policyd: _, ...own } = mapped([10_250, "tcp"]);
    assert.equal(refusals.served(own), own);
  });
});
