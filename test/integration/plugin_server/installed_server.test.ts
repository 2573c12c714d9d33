import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { hostFiles } from "../../../policyd/installation/host_files.ts";
import { Installer } from "../../../policyd/installation/installer.ts";
import { PluginServer } from "../../support/cni/plugin_server.ts";
import { requireKernel } from "../../support/privilege.ts";
import { pluginSource } from "../../support/cni/shim.ts";

const CALLS = 50;

describe("the installed shim and its plugin server", function () {
  this.timeout(60_000);
  let root = "";
  let server: PluginServer;

  beforeEach(function () {
    requireKernel(this);
    root = mkdtempSync(`${tmpdir()}/drawbridge-installed-`);
    server = new PluginServer(`${root}/run`);
    mkdirSync(`${root}/bin`);
    pluginSource(`${root}/source`, `${root}/run`);
  });
  afterEach(() => {
    server?.end();
    rmSync(root, { recursive: true, force: true });
  });

  async function install(): Promise<readonly string[]> {
    const places = { source: `${root}/source`, binaries: `${root}/bin`, configurations: `${root}/conf` };
    return await new Installer(hostFiles, places).installExecutables();
  }

  /** Makes a VERSION call, which needs no network. */
  function call(): void {
    const env = { CNI_COMMAND: "VERSION" };
    const { status, stdout, stderr } = spawnSync(`${root}/bin/drawbridge`, {
      env,
      input: '{"cniVersion":"1.1.0"}',
      encoding: "utf8",
    });
    assert.equal(status, 0, `${stdout}${stderr}`);
    assert.match(stdout, /"supportedVersions":\[/);
  }

  it("D4 D6: each call is answered while the plugin is replaced; the old plugin's server ends, and the new plugin gets its own", async () => {
    await install();
    call();
    server.waitUntilListening();
    const before = server.pid;
    call();
    assert.equal(server.pid, before, "one server does both calls");
    rmSync(`${root}/bin/drawbridge-plugin`);
    assert.deepEqual(await install(), ["drawbridge-plugin"]);
    for (let calls = 0; server.pid === before || !server.isListening; calls++) {
      assert.ok(calls < CALLS, "the new plugin has a server");
      call();
    }
    assert.notEqual(server.pid, undefined);
  });
});
