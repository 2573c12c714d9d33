import assert from "node:assert/strict";
import { networkFile, parseNetwork, pluginRequest } from "./network_list.ts";

const LIST = { cniVersion: "1.0.0", name: "net", plugins: [{ type: "a" }] };

describe("network configurations as a runtime reads them", () => {
  it("the first file by name counts, and only files of configurations do", () => {
    assert.equal(networkFile([]), undefined);
    assert.equal(
      networkFile(["20-b.conflist", ".10-a.conflist.tmp", "10-a.conflist", "00-readme.txt"]),
      "10-a.conflist",
    );
    assert.equal(parseNetwork(JSON.stringify(LIST)).name, "net");
    assert.throws(() => parseNetwork("{}"), /cniVersion/);
  });

  it("a plugin gets its part with the list's name and version, what came before it and what it can do", () => {
    const plugin = { type: "a", mtu: 1400, capabilities: { portMappings: true, bandwidth: false } };
    const request = pluginRequest(LIST, plugin, { ips: [] }, { portMappings: [], bandwidth: {}, mac: "x" });
    assert.deepEqual(request, {
      type: "a",
      mtu: 1400,
      cniVersion: "1.0.0",
      name: "net",
      prevResult: { ips: [] },
      runtimeConfig: { portMappings: [] },
    });
    assert.deepEqual(pluginRequest(LIST, { type: "a" }, undefined, {}), {
      type: "a",
      cniVersion: "1.0.0",
      name: "net",
    });
  });
});
