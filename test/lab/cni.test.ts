import assert from "node:assert/strict";
import { chmodSync, writeFileSync } from "node:fs";
import path from "node:path";
import { requireKernel } from "../support/privilege.ts";
import { type CallOptions, callPlugin, configurationOf, podCall, startPlugin } from "./cni.ts";
import { createLab, type Lab } from "./lab.ts";
import { twoNodes, type WiredNode } from "./topology.ts";

/** Prints where it runs and its input, in the form of a plugin's result. */
const TELLTALE = `#!/bin/sh
printf '{"links":"%s","command":"%s","netns":"%s","path":"%s","args":"%s","conf":%s}' \
  "$(ls /proc/self/net/dev_snmp6 | tr '\\n' ' ')" "$CNI_COMMAND" "$CNI_NETNS" "$CNI_PATH" "$CNI_ARGS" "$(cat)"
`;

describe("calling a plugin as a runtime does", () => {
  let lab: Lab;
  let wired: WiredNode;

  before(function () {
    requireKernel(this);
    lab = createLab("cni");
    wired = twoNodes(lab).node1;
  });

  after(() => lab?.destroy());

  const plugin = (name: string, text: string): string => {
    const file = path.join(lab.scratch, name);
    writeFileSync(file, text);
    chmodSync(file, 0o755);
    return file;
  };

  it("runs it in the node's namespace with the environment and configuration of the specification", () => {
    const pod = lab.pod("pod-sync");
    const executable = plugin("telltale", TELLTALE);
    const { result, exitCode, milliseconds } = callPlugin(wired.node, podCall("ADD", wired, pod, {}, { executable }));
    assert.equal(exitCode, 0);
    assert.ok(milliseconds > 0);
    assert.match(String(result?.["links"]), /uplink/);
    assert.equal(result?.["command"], "ADD");
    assert.equal(result?.["netns"], pod.path);
    assert.equal(result?.["path"], lab.scratch);
    assert.match(String(result?.["args"]), /K8S_POD_NAME=pod-sync/);
    assert.deepEqual(result?.["conf"], configurationOf(wired));
  });

  it("starts many at once, each in the node's namespace", async () => {
    const executable = plugin("telltale-async", TELLTALE);
    const calls = Array.from({ length: 8 }, (_, i) => podCall("DEL", wired, lab.pod(`pod-${i}`), {}, { executable }));
    const outcomes = await Promise.all(calls.map((call) => startPlugin(wired.node, call).outcome));
    for (const { result } of outcomes) assert.match(String(result?.["links"]), /uplink/);
  });

  it("reports the error object of a plugin that fails", () => {
    const executable = plugin("failing", '#!/bin/sh\necho \'{"code":11,"msg":"later","details":"x"}\'\nexit 1\n');
    const outcome = callPlugin(wired.node, podCall("ADD", wired, lab.pod("pod-error"), {}, { executable }));
    assert.deepEqual(outcome.error, { code: 11, msg: "later", details: "x" });
    assert.equal(outcome.result, undefined);
  });

  it("can hide a kernel feature from it", () => {
    const executable = plugin(
      "filtered",
      "#!/bin/sh\nread -r _; printf '{\"filters\":%s}' \"$(sed -n 's/Seccomp:\\s*//p' /proc/self/status)\"\n",
    );
    const pod = lab.pod("pod-mask");
    const call = (options: CallOptions): unknown =>
      callPlugin(wired.node, podCall("ADD", wired, pod, {}, { executable, ...options })).result?.["filters"];
    assert.equal(call({}), 0);
    assert.equal(call({ without: ["nftables"] }), 2);
  });

  it("can kill a call", async () => {
    const executable = plugin("sleeping", "#!/bin/sh\nexec sleep 60\n");
    const running = startPlugin(wired.node, podCall("ADD", wired, lab.pod("pod-kill"), {}, { executable }));
    running.kill("SIGKILL");
    const outcome = await running.outcome;
    assert.equal(outcome.signal, "SIGKILL");
    assert.equal(outcome.exitCode, null);
  });
});
