import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { parse, parseAllDocuments } from "yaml";
import { chartFiles } from "../../setup/release/chart.mjs";
import { INSTALL } from "../../support/daemon/manifest_grants.ts";
import { rendered, requireKubectl } from "../../support/programs/kustomize.ts";
import { requireGoProgram } from "../../support/programs/user_programs.ts";
import { VERSION } from "../../../policyd/version.ts";

/** Objects by kind, with what the two programs write differently in one form. */
type Objects = Readonly<Record<string, unknown>>;

const RELEASE = {
  version: VERSION,
  commit: "0123456789abcdef",
  date: new Date(0),
  repository: "localhost/drawbridge",
  digest: `sha256:${"0".repeat(64)}`,
  url: "https://releases.example",
};
const ADMISSION_POLICY = readFileSync("manifests/components/own-node-status/admission_policy.yaml", "utf8");
const OVERLAYS = readdirSync("manifests/overlays");

describe("the Helm chart of a release", function () {
  this.timeout(120_000);
  let helm = "";
  let directory = "";

  before(function () {
    helm = path.join(requireGoProgram(this, "helm"), "helm");
    requireKubectl(this);
    directory = mkdtempSync(path.join(os.tmpdir(), "drawbridge-chart-"));
    const overlays = OVERLAYS.map(
      (name) => [name, readFileSync(`manifests/overlays/${name}/policyd.yaml`, "utf8")] as const,
    );
    const files = chartFiles(RELEASE, readFileSync(INSTALL, "utf8"), ADMISSION_POLICY, new Map(overlays));
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(path.dirname(path.join(directory, name)), { recursive: true });
      writeFileSync(path.join(directory, name), text);
    }
  });
  after(() => rmSync(directory, { recursive: true, force: true }));

  function run(...args: readonly string[]): string {
    const { status, stdout, stderr } = spawnSync(helm, args, { encoding: "utf8" });
    assert.equal(status, 0, stdout + stderr);
    return stdout;
  }

  const template = (...args: readonly string[]): string =>
    run("template", "drawbridge", directory, "--namespace", "kube-system", ...args);

  it("RELEASE-03: a field of the configuration that the pod would have to repeat is refused", () => {
    for (const set of ["healthAddress=0.0.0.0:9999", "socketPath=/run/other/policyd.sock", "stateDirectory=/run/other"])
      assert.throws(() => template("--set", `configuration.${set}`), /the pod of this chart has the default/, set);
  });

  it("RELEASE-03: helm's lint finds nothing, and without values the chart renders to install.yaml with the image's digest", () => {
    assert.match(run("lint", "--strict", directory), /1 chart\(s\) linted, 0 chart\(s\) failed/);
    const chart = template();
    assert.match(chart, /^ +image: localhost\/drawbridge@sha256:0{64}$/m);
    assert.deepEqual(objectsOf(template("--set", `image.tag=${VERSION}`)), objectsOf(readFileSync(INSTALL, "utf8")));
  });

  for (const name of OVERLAYS) {
    it(`RELEASE-03: with examples/${name}.yaml the chart renders to the overlay ${name}`, () => {
      const chart = template("--set", `image.tag=${VERSION}`, "--values", `${directory}/examples/${name}.yaml`);
      assert.deepEqual(objectsOf(chart), objectsOf(rendered(`manifests/overlays/${name}`)));
    });
  }

  it("RELEASE-03: with a value for each component the chart renders what the component changes", () => {
    const ownNodeStatus = objectsOf(template("--set", "ownNodeStatus=true"));
    for (const [kind, object] of Object.entries(objectsOf(ADMISSION_POLICY))) {
      assert.deepEqual(ownNodeStatus[kind], object, kind);
    }
    const seccomp = "seccompProfile.type=Localhost,seccompProfile.localhostProfile=drawbridge.json";
    assert.match(
      template("--set", seccomp),
      /seccompProfile: \{"localhostProfile":"drawbridge.json","type":"Localhost"\}/,
    );
    const file = template("--set", "configuration.kubeletKubeconfig=/etc/kubernetes/kubelet.conf");
    assert.match(
      file,
      /mountPath: \/etc\/kubernetes\/kubelet\.conf\n[^]*path: \/etc\/kubernetes\/kubelet\.conf\n +type: File\n/,
    );
    assert.match(template("--set", "configuration.flowLedger=true"), /mountPath: \/var\/lib\/cni\/drawbridge-flows\n/);
    const elsewhere = template("--namespace", "network", "--set", "ownNodeStatus=true");
    assert.doesNotMatch(elsewhere, /kube-system/);
  });
});

function objectsOf(text: string): Objects {
  return Object.fromEntries(
    parseAllDocuments(text).map((document) => {
      const plain = JSON.stringify(document.toJS()).replaceAll(/"drawbridge-[0-9a-z]{10}"/g, '"drawbridge"');
      const object = JSON.parse(plain, (key, value: unknown) => {
        if (key === "policyd.yaml") return parse(String(value)) as unknown;
        return key === "annotations" ? undefined : value;
      }) as { kind: string };
      return [object.kind, object];
    }),
  );
}
