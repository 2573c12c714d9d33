import assert from "node:assert/strict";
import { chmodSync, writeFileSync } from "node:fs";
import path from "node:path";
import { askVersion } from "../../../../cli/node/machine/plugin_version.ts";
import { useTemporaryDirectory } from "../../../support/ipam/address_store.ts";

describe("cli/node: a plugin's answer to VERSION", () => {
  const directory = useTemporaryDirectory();

  function ask(script: string): ReturnType<typeof askVersion> {
    const plugin = path.join(directory(), "plugin");
    writeFileSync(plugin, `#!/bin/sh\n${script}\n`);
    chmodSync(plugin, 0o755);
    return askVersion(plugin);
  }

  const ANSWER = `echo '{"cniVersion":"1.0.0","supportedVersions":["1.0.0","1.1.0"]}'`;

  it("DOCTOR-01: the answer of a plugin that never reads its input counts", () => {
    // Closing the pipe races with writing to it: one of 60 tries is enough to meet the race.
    for (let i = 0; i < 60; i++) assert.deepEqual(ask(`exec <&-; ${ANSWER}`), { answer: "1.0.0, 1.1.0" });
  });

  it("DOCTOR-01: a plugin that fails or gives another answer is reported with what it did", () => {
    assert.deepEqual(ask("exit 3"), { failure: "it ended with code 3" });
    assert.deepEqual(ask("kill -9 $$"), { failure: "it ended with SIGKILL" });
    assert.deepEqual(ask("echo hello"), { failure: 'its answer is "hello\\n"' });
    assert.match(JSON.stringify(askVersion(path.join(directory(), "none"))), /ENOENT/);
  });
});
