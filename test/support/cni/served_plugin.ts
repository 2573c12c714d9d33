import { readdirSync, renameSync, symlinkSync } from "node:fs";
import type { Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { PluginServer } from "./plugin_server.ts";
import { pluginSource } from "./shim.ts";

/** A plugin with its shim, as it is installed on a node, and a plugin server of its own that ends with the lab. */
export class ServedPlugin {
  readonly directory: string;
  /** The shim, which a runtime executes. */
  readonly executable: string;
  readonly server: PluginServer;
  /** The namespace where the server is started and waits. */
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

  /** Makes a server listen. @returns its process ID; throws when none listens in time */
  warm(): number {
    this.server.start(this.executable, this.home);
    const { pid } = this.server;
    if (pid === undefined) throw new Error("the plugin server ended as soon as it listened");
    return pid;
  }

  /**
   * Removes the executable that a shim runs without a server: from now on a call that no server does fails with error
   * 5.
   */
  forbidCold(): void {
    renameSync(`${this.directory}/drawbridge-plugin`, `${this.directory}/away`);
  }

  allowCold(): void {
    renameSync(`${this.directory}/away`, `${this.directory}/drawbridge-plugin`);
  }

  /** Returns the number of descriptors that the server has open. */
  get descriptors(): number {
    return readdirSync(`/proc/${this.server.pid}/fd`).length;
  }
}
