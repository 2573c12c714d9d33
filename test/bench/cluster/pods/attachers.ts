import { copyFileSync, linkSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { LOOPBACK_PLUGIN, PLUGIN } from "../../../../cni/executables.ts";
import { DRAWBRIDGE } from "../../../lab/cni.ts";
import type { Lab } from "../../../lab/lab.ts";
import { BUNDLE } from "../../../support/daemon/policyd.ts";
import { imageStart } from "../../daemon/image_start.ts";
import { waitUntilSynced } from "../../with_policyd.ts";
import type { ContainerdNode } from "./containerd_node.ts";

const NODE = "bench";
/** Go's plugins that containerd's usual list needs. */
export const PEER_PLUGINS = ["bridge", "host-local", "portmap", "loopback"];

/** Plugins that attach the pods of a node. */
export interface Attacher {
  readonly title: string;
  /** The name of its node in the lab. */
  readonly name: string;
  /** Installs the plugins on its node, which can run pods then. */
  install(lab: Lab, node: ContainerdNode, pods: readonly object[]): void;
}

/** Our plugin without the daemon. */
export const PLUGIN_ONLY: Attacher = {
  title: "plugin",
  name: "plugin",
  install(_lab, node) {
    installPlugin(node);
    node.configure("drawbridge", ourList(node, {}));
  },
};

/** Our plugin with policyd, which has every pod's policies in force before its ADD returns. */
export const PLUGIN_WITH_POLICYD: Attacher = {
  title: "plugin with policyd",
  name: "policyd",
  install(lab, node, pods) {
    installPlugin(node);
    const directory = path.join(lab.scratch, node.node.name, "daemon");
    mkdirSync(path.join(directory, "objects"), { recursive: true });
    writeFileSync(
      path.join(directory, "objects/all.json"),
      JSON.stringify({ apiVersion: "v1", kind: "List", items: pods }),
    );
    const socket = path.join(directory, "policyd.sock");
    const { nodeOptions, environment } = imageStart();
    const args = [`--node-name=${NODE}`, `--objects=${directory}/objects`, `--socket=${socket}`, "--log-level=error"];
    const command = [process.execPath, ...nodeOptions, BUNDLE, ...args, `--state-directory=${node.node.runDir}`];
    node.start(command, environment, path.join(directory, "log"));
    waitUntilSynced(lab, socket);
    node.configure("drawbridge", ourList(node, { policyd: { socket } }));
  },
};

/** Returns Go's bridge, host-local and portmap, the list that most nodes with the bridge plugin have. */
export function goPlugins(directory: string): Attacher {
  return {
    title: "bridge, host-local and portmap",
    name: "bridge",
    install(_lab, node) {
      for (const name of PEER_PLUGINS) copyFileSync(path.join(directory, name), path.join(node.plugins, name));
      const portmap = { type: "portmap", capabilities: { portMappings: true } };
      node.configure("bridge", listOf("bridge", [{ type: "bridge", ...bridgeOf(node) }, portmap]));
    },
  };
}

/** Returns the Pod objects of the pods that are started, as the daemon has them before the runtime starts the pods. */
export function podObjects(names: readonly string[]): readonly object[] {
  return [
    { apiVersion: "v1", kind: "Namespace", metadata: { name: "default" } },
    ...names.map((name) => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace: "default", uid: `uid-${name}` },
      spec: { nodeName: NODE, containers: [{ name: "c" }] },
    })),
  ];
}

function installPlugin(node: ContainerdNode): void {
  copyFileSync(DRAWBRIDGE, path.join(node.plugins, PLUGIN));
  linkSync(path.join(node.plugins, PLUGIN), path.join(node.plugins, LOOPBACK_PLUGIN));
}

function ourList(node: ContainerdNode, further: object): object {
  const capabilities = { portMappings: true };
  return listOf("drawbridge", [
    { type: "drawbridge", ...bridgeOf(node), capabilities, runDir: node.node.runDir, ...further },
  ]);
}

function listOf(name: string, plugins: readonly object[]): object {
  return { cniVersion: "1.0.0", name, plugins };
}

/** Returns the part of the configuration that is the same for both plugins. */
function bridgeOf({ node }: ContainerdNode): object {
  return {
    bridge: "drawbridge0",
    isGateway: true,
    hairpinMode: true,
    ipam: {
      type: "host-local",
      dataDir: node.dataDir,
      ranges: [[{ subnet: "10.244.1.0/24" }], [{ subnet: "fd00:244:1::/64" }]],
      routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
    },
  };
}
