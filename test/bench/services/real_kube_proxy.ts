import { spawn } from "node:child_process";
import path from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { startNotificationThread } from "../../../kernel/notifications/thread.ts";
import { parseNotification } from "../../../kernel/nftables/decode/notification.ts";
import type { Lab } from "../../lab/lab.ts";
import { UNHINDERED, writeKubeProxyFiles } from "../kube_proxy_files.ts";
import { FakeApiServer } from "./api_server.ts";
import {
  benchServices,
  type ClusterSize,
  POD_CIDR,
  serviceManifest,
  sizeText,
  sliceManifest,
  withFirstReplaced,
} from "./cluster.ts";
import { measured, type ServicesRow } from "./row.ts";

const PORT = 6443;
const NODE = "node1";
const NODE_ADDRESS = "192.0.2.2";
const LOAD_LIMIT_MILLISECONDS = 300_000;
const CHANGE_LIMIT_MILLISECONDS = 60_000;
/** A pause before the end of the first sync, which is empty when the objects come later. */
const QUIET_MILLISECONDS = 3000;

/**
 * Measures the real kube-proxy with a fake API server: from its start until the last commit of all Services, and from a
 * watch event until the commit. Its period between syncs is 1 ms; 0 would be the default.
 *
 * @param executable kube-proxy
 */
export async function realKubeProxy(
  lab: Lab,
  executable: string,
  size: ClusterSize,
  changes: number,
): Promise<readonly ServicesRow[]> {
  const node = lab.namespace("kube-proxy");
  node.exec("ip", ["addr", "add", `${NODE_ADDRESS}/32`, "dev", "lo"]);
  const services = benchServices(size);
  const configuration = writeKubeProxyFiles(path.join(lab.scratch, "kube-proxy"), {
    nodeName: NODE,
    clusterCidr: POD_CIDR,
    cluster: { server: `http://127.0.0.1:${PORT}` },
    user: {},
    ...UNHINDERED,
  });
  await using api = await FakeApiServer.start(node, PORT, {
    services: services.map(serviceManifest),
    endpointslices: services.map(sliceManifest),
    nodes: [nodeManifest()],
    servicecidrs: [],
  });
  const commits: number[] = [];
  const events = startNotificationThread({ calls: lab.calls, namespacePath: node.path });
  const note = (): unknown => commits.push(performance.now());
  await events.subscribe(
    { kind: "nftables", receiveBufferBytes: 256 * 1024 * 1024 },
    {
      onMessages: (messages) => {
        for (const message of messages) if (parseNotification(message)?.kind === "generation") note();
      },
      // The notifications of a large batch overflow the buffer; only their arrival counts.
      onOverrun: note,
      onFailure: note,
    },
  );
  const start = performance.now();
  const child = node.inside(() =>
    spawn(executable, ["--config", configuration], { stdio: ["ignore", "ignore", "inherit"] }),
  );
  try {
    await until(() => countOfServices(node) === size.services, LOAD_LIMIT_MILLISECONDS, QUIET_MILLISECONDS);
    const loaded = (commits.at(-1) ?? Number.NaN) - start;
    const latencies: number[] = [];
    for (let number = 0; number < changes; number++) {
      const service = services[(number * 7919) % services.length];
      if (service === undefined) break;
      const [before, sent] = [commits.length, performance.now()];
      api.modified("endpointslices", sliceManifest(withFirstReplaced(service, number)));
      await until(() => commits.length > before, CHANGE_LIMIT_MILLISECONDS, 1);
      latencies.push((commits[before] ?? Number.NaN) - sent);
    }
    const title = `kube-proxy itself, ${sizeText(size)}`;
    return [
      measured(`${title}: from its start to the last commit`, "ms", [loaded]),
      measured(`${title}: replace an endpoint, from the watch to the commit`, "ms", latencies),
    ];
  } finally {
    child.kill("SIGKILL");
    await events.stop();
    lab.remove(node);
  }
}

function countOfServices(node: ReturnType<Lab["namespace"]>): number {
  try {
    return node.exec("nft", ["list", "map", "ip", "kube-proxy", "service-ips"]).split(" : goto ").length - 1;
  } catch {
    // The table does not exist yet.
    return 0;
  }
}

async function until(isSo: () => boolean, limit: number, pause: number): Promise<void> {
  const deadline = performance.now() + limit;
  while (!isSo()) {
    if (performance.now() > deadline) throw new Error(`kube-proxy was not ready within ${limit} ms`);
    await wait(pause);
  }
}

function nodeManifest(): object {
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: NODE },
    spec: { podCIDR: "10.244.1.0/24", podCIDRs: ["10.244.1.0/24"] },
    status: { addresses: [{ type: "InternalIP", address: NODE_ADDRESS }] },
  };
}
