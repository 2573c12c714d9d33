import { readdirSync, renameSync, symlinkSync } from "node:fs";
import type { Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { PluginServer } from "./plugin_server.ts";
import { pluginSource } from "./shim.ts";

/** A plugin as it is installed on a node, shim and all, with a plugin server of its own that ends with the lab. */
export class ServedPlugin {
  readonly directory: string;
  /** The shim, which a runtime executes. */
  readonly executable: string;
  readonly server: PluginServer;
  /** Where the server is started, and rests. */
  readonly home: LabNamespace;

  /** @param name of its directory among the lab's files */
  constructor(lab: Lab, name = "plugin") {
    const runDirectory = `${lab.scratch}/${name}-run`;
    this.directory = pluginSource(`${lab.scratch}/${name}`, runDirectory);
    this.executable = `${this.directory}/drawbridge`;
    for (const face of ["drawbridge-ipam", "loopback"]) symlinkSync("drawbridge", `${this.directory}/${face}`);
    this.server = new PluginServer(runDirectory);
    this.home = lab.pod(`${name}-home`);
    lab.atEnd(() => this.server.end());
  }

  /** Has a server listen. @returns its process ID; throws when there is none in time */
  warm(): number {
    this.server.start(this.executable, this.home);
    const { pid } = this.server;
    if (pid === undefined) throw new Error("the plugin server ended as soon as it listened");
    return pid;
  }

  /** Takes away what a shim executes without a server: from now on a call that no server does fails with error 5. */
  forbidCold(): void {
    renameSync(`${this.directory}/drawbridge-plugin`, `${this.directory}/away`);
  }

  allowCold(): void {
    renameSync(`${this.directory}/away`, `${this.directory}/drawbridge-plugin`);
  }

  /** How many descriptors the server has open. */
  get descriptors(): number {
    return readdirSync(`/proc/${this.server.pid}/fd`).length;
  }
}
