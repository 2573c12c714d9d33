import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { VERSION } from "../../../policyd/version.ts";
import { chartFiles } from "../../setup/release/chart.mjs";
import { goProgram } from "../../support/programs/user_programs.ts";
import { INSTALL, installWith } from "../addon.ts";
import { ADMINISTRATOR, type Materials } from "../cluster.ts";
import { enter } from "../node/processes.ts";
import { STATE } from "../place.ts";
import type { RunningCluster } from "../state.ts";

/** Installs the add-on by the Helm chart of a release, with the image's tag, as docs/guides/release.md says. */
export function installByChart(cluster: RunningCluster, materials: Materials, say: (line: string) => void): void {
  const directory = path.join(STATE, "chart");
  rmSync(directory, { recursive: true, force: true });
  const release = {
    version: VERSION,
    commit: "unknown",
    date: new Date(0),
    repository: "localhost/drawbridge",
    digest: "",
    url: "https://releases.example",
  };
  const policy = readFileSync("manifests/components/own-node-status/admission_policy.yaml", "utf8");
  for (const [name, text] of Object.entries(chartFiles(release, readFileSync(INSTALL, "utf8"), policy, new Map()))) {
    const file = path.join(directory, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
  const place = ["--namespace", "kube-system", "--kubeconfig", ADMINISTRATOR];
  const install = [goProgram("helm"), "install", "drawbridge", directory, ...place, "--set", `image.tag=${VERSION}`];
  installWith(cluster, materials, say, () => void enter("machine", cluster.machine, install));
}
