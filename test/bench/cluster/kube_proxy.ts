import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { POD_CIDR } from "../objects/services.ts";
import type { Access } from "./control_plane.ts";
import type { RunningProxy, ServiceProxy } from "./service_proxy.ts";

/**
 * Returns the real kube-proxy in nftables mode, in a namespace of a lab.
 *
 * @param executable kube-proxy
 * @param nodeName its Node
 */
export function kubeProxy(lab: Lab, node: LabNamespace, nodeName: string, executable: string): ServiceProxy {
  return {
    name: "kube-proxy",
    node,
    frontends: ["map", "ip", "kube-proxy", "service-ips"],
    start(access): RunningProxy {
      const directory = path.join(lab.scratch, "kube-proxy");
      mkdirSync(directory, { recursive: true });
      const log = path.join(directory, "log");
      const output = openSync(log, "w");
      const configuration = writeConfiguration(directory, nodeName, access);
      const child = node.inside(() =>
        spawn(executable, [`--config=${configuration}`], { stdio: ["ignore", output, output] }),
      );
      const { pid } = child;
      if (pid === undefined) throw new Error(`${executable} cannot be started`);
      const ended = once(child, "exit");
      lab.atEnd(() => child.kill("SIGKILL"));
      return {
        pid,
        log: () => readFileSync(log, "utf8"),
        end: async () => {
          child.kill("SIGKILL");
          await ended;
        },
      };
    },
  };
}

/**
 * Writes the configuration that kubeadm writes, except for the limit of conntrack's table, which a network namespace may
 * not change. @returns its path
 */
function writeConfiguration(directory: string, nodeName: string, { server, account, token }: Access): string {
  const kubeconfig = path.join(directory, "kubeconfig.json");
  const configuration = path.join(directory, "kube-proxy.json");
  const access = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "bench", cluster: { server, "certificate-authority": path.join(account, "ca.crt") } }],
    contexts: [{ name: "bench", context: { cluster: "bench", user: "bench" } }],
    users: [{ name: "bench", user: { token } }],
    "current-context": "bench",
  };
  writeFileSync(kubeconfig, JSON.stringify(access));
  const object = {
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    mode: "nftables",
    hostnameOverride: nodeName,
    clusterCIDR: POD_CIDR,
    bindAddress: "0.0.0.0",
    clientConnection: { kubeconfig },
    conntrack: { maxPerCore: 0, min: 0 },
  };
  writeFileSync(configuration, JSON.stringify(object));
  return configuration;
}
