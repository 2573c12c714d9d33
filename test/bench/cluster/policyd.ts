import { mkdirSync } from "node:fs";
import path from "node:path";
import type { Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { MeasuredDaemon, writeConfiguration } from "../daemon/measured_daemon.ts";
import type { RunningProxy, ServiceProxy } from "./service_proxy.ts";

/** Returns policyd with its default configuration, started as the image starts it. Its Node has the name `node1`. */
export function policyd(lab: Lab, node: LabNamespace): ServiceProxy {
  return {
    name: "policyd",
    node,
    frontends: ["set", "inet", "drawbridge", "service4"],
    start({ server, account }): RunningProxy {
      const directory = path.join(lab.scratch, "policyd");
      mkdirSync(directory, { recursive: true });
      writeConfiguration(directory, server, account);
      const { daemon } = new MeasuredDaemon(node, directory);
      const { pid } = daemon.child;
      if (pid === undefined) throw new Error("policyd cannot be started");
      lab.atEnd(() => daemon.child.kill("SIGKILL"));
      return { pid, log: () => daemon.log(), end: async () => void (await daemon.kill("SIGKILL")) };
    },
  };
}
