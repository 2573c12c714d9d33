import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, openSync, readFileSync } from "node:fs";
import path from "node:path";
import type { Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { writeKubeProxyFiles } from "../kube_proxy_files.ts";
import { POD_CIDR } from "../objects/services.ts";
import type { RunningProxy, ServiceProxy } from "./service_proxy.ts";

/**
 * Returns the real kube-proxy in nftables mode with the configuration that kubeadm writes, except for the limit of
 * conntrack's table, which a network namespace may not change.
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
      const configuration = writeKubeProxyFiles(directory, {
        nodeName,
        clusterCidr: POD_CIDR,
        cluster: { server: access.server, "certificate-authority": path.join(access.account, "ca.crt") },
        user: { token: access.token },
        fields: { conntrack: { maxPerCore: 0, min: 0 } },
      });
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
