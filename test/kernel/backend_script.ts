import { parseCidr } from "../../kernel/ip/cidr.ts";
import { parseAddress } from "../../kernel/ip/address.ts";
import { parseMac } from "../../kernel/ip/mac.ts";
import { currentNamespace, insideNamespace, openNamespace } from "../../kernel/network_namespace.ts";
import { dumpAddresses, newAddress, parseInterfaceAddress } from "../../kernel/route/interface_address.ts";
import { changeLink, createBridge, createVeth, dumpLinks, parseLink } from "../../kernel/route/link.ts";
import { waitUntilUp } from "../../kernel/route/readiness.ts";
import { dumpRoutes, newRoute, parseRoute } from "../../kernel/route/route.ts";
import { findLink, openRouteSocket } from "../../kernel/route/socket.ts";
import { findOwnProgram } from "../../kernel/bpf/own_program.ts";
import { findPort, PORT_PROGRAM, putPort } from "../../kernel/bpf/port_table.ts";
import type { MachineCalls } from "../../kernel/syscall/machine_calls.ts";
import { requestAll } from "../lab/namespace.ts";

/** Wires a pod with a backend. @returns everything that it did and saw, with bigint addresses as texts for JSON */
export function wireAndDescribe(syscalls: MachineCalls, nodePath: string, podPath: string): string {
  const home = currentNamespace(syscalls);
  const [node, pod] = [openNamespace(syscalls, nodePath), openNamespace(syscalls, podPath)];
  const nodeSocket = insideNamespace(syscalls, home, node, () => openRouteSocket(syscalls));
  const podSocket = insideNamespace(syscalls, home, pod, () => openRouteSocket(syscalls));
  nodeSocket.request(createBridge({ name: "cni0", mac: parseMac("0a:58:0a:f4:01:01") }));
  nodeSocket.request(changeLink({ name: "cni0" }, { up: true }));
  const master = findLink(nodeSocket, { name: "cni0" })?.index ?? 0;
  const host = { name: "dbv0", mac: parseMac("ae:58:0a:f4:01:07") };
  const peer = { name: "eth0", mac: parseMac("0a:58:0a:f4:01:07"), netnsFd: pod.fd };
  nodeSocket.request(createVeth({ host, peer, mtu: 1400, master }));
  nodeSocket.request(changeLink({ name: "dbv0" }, { linkLocalAddress: false, bridgePort: { hairpin: true } }));
  nodeSocket.request(changeLink({ name: "dbv0" }, { up: true, alias: "default/web" }));
  podSocket.request(changeLink({ name: "eth0" }, { up: true }));
  for (const name of ["dbv0", "cni0"]) waitUntilUp(nodeSocket, { name });
  waitUntilUp(podSocket, { name: "eth0" });
  const eth0 = findLink(podSocket, { name: "eth0" })?.index ?? 0;
  requestAll(podSocket, [
    newAddress(eth0, parseCidr("10.244.1.7/24")),
    newAddress(eth0, parseCidr("fd00:244:1::7/64")),
  ]);
  const gateway = parseAddress("10.244.1.1");
  podSocket.request(newRoute({ family: 4, destination: undefined, gateway, outputInterface: eth0, onLink: true }));
  const refused = nodeSocket.batch([createBridge({ name: "cni0", mac: host.mac })]).map(({ error }) => error?.message);
  const dbv0 = findLink(nodeSocket, { name: "dbv0" })?.index ?? 0;
  const programs = { syscalls, socket: nodeSocket };
  const ports = [
    insideNamespace(syscalls, home, node, () => putPort(programs, master, peer.mac, dbv0)),
    findPort(programs, master, peer.mac),
    findOwnProgram(programs, PORT_PROGRAM, master)?.name,
  ];
  const seen = {
    refused,
    ports,
    missing: syscalls.open("/no/such/file", 0, 0),
    node: nodeSocket.dump(dumpLinks()).map(parseLink),
    pod: podSocket.dump(dumpLinks()).map(parseLink),
    addresses: podSocket.dump(dumpAddresses({ family: 4 })).map(parseInterfaceAddress),
    routes: podSocket.dump(dumpRoutes(4)).map(parseRoute),
    isHome: home.inode === currentNamespace(syscalls).inode,
  };
  for (const socket of [nodeSocket, podSocket]) socket.close();
  return JSON.stringify(seen, (_key, value: unknown) => (typeof value === "bigint" ? value.toString() : value), 1);
}
