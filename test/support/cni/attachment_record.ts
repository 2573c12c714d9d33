import type { AttachmentRecord, RecordedHost } from "../../../attachment/attachment.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { parseMac } from "../../../kernel/ip/mac.ts";

/** The node's side of {@link attachmentRecord}. */
export const RECORDED_HOST: RecordedHost = {
  bridgeMac: parseMac("ce:00:00:00:00:01"),
  mtu: 1500,
  bridgeAddresses: [parseCidr("10.244.1.1/24"), parseCidr("fd00:244:1::1/64")],
  routes: [],
  hairpin: false,
  bypass: true,
  isMacRequested: false,
};

/** Returns a record as an ADD writes it. */
export function attachmentRecord(changes: Partial<AttachmentRecord> = {}): AttachmentRecord {
  return {
    version: 1,
    bootId: "0b7a3c1e-8a52-4f0e-9a53-5f4f3c5d2f11",
    network: "drawbridge",
    dataDir: "/var/lib/cni/networks",
    bridge: "drawbridge0",
    containerId: "c0ffee",
    ifname: "eth0",
    netns: { path: "/run/netns/pod-a", inode: "4026532000" },
    pod: { namespace: "default", name: "web-0", uid: "6a4a" },
    addresses: [parseCidr("10.244.1.2/32"), parseCidr("fd00:244:1::2/128")],
    mac: parseMac("0a:58:0a:f4:01:02"),
    hostInterface: "dbv0123456789ab",
    hostMac: parseMac("ae:00:00:00:00:01"),
    portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
    host: RECORDED_HOST,
    ...changes,
  };
}
