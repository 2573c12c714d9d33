import assert from "node:assert/strict";
import { closeSync, mkdirSync, openSync, renameSync, writeFileSync } from "node:fs";
import { realClock } from "../../../../../policyd/lib/clock.ts";
import { readConfiguration } from "../../../../../policyd/configuration/configuration.ts";
import { apiCredentials, openSource } from "../../../../../policyd/sources/open.ts";
import type { FileReadCalls } from "../../../../../kernel/syscall/file_calls.ts";
import { nodeSyscalls } from "../../../../../kernel/syscall/koffi.ts";
import { useTemporaryDirectory } from "../../../../support/ipam/address_store.ts";
import { RecordingSink } from "../../../../support/daemon/recording_sink.ts";
import { until } from "../../../../support/until.ts";

const syscalls = nodeSyscalls();

describe("policyd/sources/api: the API server's address and credentials", () => {
  const base = useTemporaryDirectory();
  let directory = "";

  beforeEach(() => {
    directory = `${base()}/${Math.random()}`;
    for (const name of ["node", "account"]) mkdirSync(`${directory}/${name}`, { recursive: true });
    writeFileSync(`${directory}/account/token`, "t");
    writeFileSync(`${directory}/account/ca.crt`, "c");
  });

  const kubeconfig = (server: string): string =>
    JSON.stringify({ apiVersion: "v1", kind: "Config", clusters: [{ name: "k", cluster: { server } }] });
  /** Replaces the kubelet's kubeconfig in its directory by a rename. */
  const replace = (server: string): void => {
    writeFileSync(`${directory}/node/.new`, kubeconfig(server));
    renameSync(`${directory}/node/.new`, `${directory}/node/kubelet.conf`);
  };
  const configuration = (kubeletKubeconfig: string | null = `${directory}/node/kubelet.conf`) => {
    const given = kubeletKubeconfig === null ? {} : { kubeletKubeconfig };
    const fields = { ...given, serviceAccountDirectory: `${directory}/account`, nodeName: "node-1" };
    const head = { apiVersion: "drawbridge.dev/v1alpha1", kind: "PolicydConfiguration" };
    return readConfiguration({ path: "policyd.json", text: JSON.stringify({ ...head, ...fields }) }, {});
  };

  it("API-21: the address is reported once with its file, and again when it has changed", async () => {
    replace("https://127.0.0.1:1");
    const reports: string[] = [];
    const source = openSource(configuration(), syscalls, realClock, (message) => void reports.push(message));
    source.start(new RecordingSink());
    try {
      await until(() => source.problems().length > 0, "the server is away");
      assert.deepEqual(reports, [`https://127.0.0.1:1, read from ${directory}/node/kubelet.conf`]);
      replace("https://127.0.0.1:2");
      await until(() => reports.length > 1, "the new address");
      assert.deepEqual(reports.slice(1), [`https://127.0.0.1:2, read from ${directory}/node/kubelet.conf`]);
    } finally {
      source.stop();
    }
  });

  it("API-21: a mount of only the kubeconfig that was replaced since is reported, with the way out", async () => {
    replace("https://127.0.0.1:1");
    // An open file keeps showing its old content, like a mount of a file: in both cases the file has lost its name.
    const descriptor = openSync(`${directory}/node/kubelet.conf`, "r");
    const reports: string[] = [];
    const notice = (message: string): void => void reports.push(message);
    const source = openSource(configuration(`/proc/self/fd/${descriptor}`), syscalls, realClock, notice);
    try {
      source.start(new RecordingSink());
      await until(() => reports.length > 0, "the address");
      assert.doesNotMatch(reports[0] ?? "", /replaced/);
      replace("https://127.0.0.1:2");
      await until(() => reports.length > 1, "the lost name is reported");
      assert.match(
        reports[1] ?? "",
        /^https:\/\/127\.0\.0\.1:1, read from .*has been replaced on the node.*restart the pod$/,
      );
      assert.match(
        source.problems().join("\n"),
        /^.*fd.*: the API server's address.* replaced on the node.*restart the pod$/m,
      );
    } finally {
      source.stop();
      closeSync(descriptor);
    }
  });

  for (const [what, make] of [
    ["a file", (path: string) => writeFileSync(path, "KUBELET_ARGS=")],
    ["a directory", (path: string) => mkdirSync(`${path}/kubeconfig`, { recursive: true })],
  ] as const) {
    it(`API-21: ${what} at another distribution's place of the kubeconfig or its directory is skipped`, async () => {
      make(`${directory}/node/kubelet`);
      writeFileSync(`${directory}/node/k0s.conf`, kubeconfig("https://192.0.2.7:6443"));
      // Fedora's packages have their settings in the file /etc/kubernetes/kubelet, which is a directory on
      // Bottlerocket.
      const places: Readonly<Record<string, string>> = {
        "/etc/kubernetes/kubelet.conf": "missing",
        "/etc/kubernetes/kubelet/kubeconfig": "kubelet/kubeconfig",
        "/var/lib/k0s/kubelet.conf": "k0s.conf",
      };
      const files: FileReadCalls = {
        ...syscalls,
        open: (path, flags, mode) => syscalls.open(pathOf(path), flags, mode),
      };
      const pathOf = (path: string): string =>
        path.startsWith(directory) ? path : `${directory}/node/${places[path] ?? "missing"}`;
      const credentials = apiCredentials(configuration(null), files);
      assert.equal((await credentials()).server.href, "https://192.0.2.7:6443/");
    });
  }

  it("API-21: a directory that is configured as the kubelet's kubeconfig is refused", () => {
    assert.throws(() => apiCredentials(configuration(`${directory}/node`), syscalls), /is a directory/);
  });
});
