import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { parse } from "yaml";
import { daemonSet, type PodTemplate } from "../../support/daemon/daemon_set.ts";
import { INSTALL, manifestObjects } from "../../support/daemon/manifest_grants.ts";
import { SECCOMP_PROFILE } from "../../support/programs/podman.ts";
import { SOURCE } from "../cni.ts";
import type { Confinement } from "../confined/confined.ts";

/** The directory of a service account's token, which the kubelet mounts without an entry in the manifest. */
const ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";
const SETTINGS = "/proc/sys/net";

type Container = PodTemplate["containers"][number];

/** The access of a daemon to its cluster. */
export interface ClusterAccess {
  readonly server: string;
  readonly token: string;
  readonly authority: string;
}

/**
 * A node's files as in the DaemonSet's mounts, below a directory that stands for the node's root.
 *
 * In the lab there is no image and no mount: instead, the daemon gets these paths by its configuration.
 */
export class DaemonFiles {
  readonly #root: string;
  readonly #pod: PodTemplate;
  readonly #configuration: Readonly<Record<string, unknown>>;

  constructor(root: string, manifest: string = readFileSync(INSTALL, "utf8")) {
    this.#root = root;
    this.#pod = daemonSet(manifest).pod;
    this.#configuration = configurationIn(manifest);
  }

  /** Returns the path of a place on the node. */
  at(place: string): string {
    return `${this.#root}${place}`;
  }

  get socket(): string {
    return this.at("/run/drawbridge/policyd.sock");
  }

  /** Returns the arguments of the container. */
  args(nodeName: string): readonly string[] {
    return this.#container.args.map((text) =>
      text.replace("$(NODE_NAME)", nodeName).replace("--config=", `--config=${this.#root}`),
    );
  }

  /** The container's permissions, and the directories of the machine that are its mounts. */
  get confinement(): Confinement {
    const { capabilities, readOnlyRootFilesystem } = this.#container.securityContext;
    if (!readOnlyRootFilesystem) throw new Error("the DaemonSet's root is not read-only");
    const mounts = (this.#container.volumeMounts ?? []).filter(({ readOnly }) => readOnly !== true);
    return {
      capabilities: capabilities.add,
      writable: mounts.map(({ name }) => {
        const { hostPath } = this.#pod.volumes.find((volume) => volume.name === name) ?? {};
        if (hostPath === undefined) throw new Error(`volume ${name}: no directory of the node`);
        return hostPath.path === SETTINGS ? SETTINGS : this.at(hostPath.path);
      }),
      seccompProfile: SECCOMP_PROFILE,
    };
  }

  /**
   * Writes the files that exist on a node before its daemon: the directories, the kubelet's kubeconfig, the account,
   * the ConfigMap.
   */
  write({ server, token, authority }: ClusterAccess): void {
    for (const place of this.confinement.writable) if (place !== SETTINGS) mkdirSync(place, { recursive: true });
    for (const place of ["/etc/drawbridge", "/etc/kubernetes", ACCOUNT]) mkdirSync(this.at(place), { recursive: true });
    const kubelet = { apiVersion: "v1", kind: "Config", clusters: [{ name: "k", cluster: { server } }] };
    writeFileSync(this.at("/etc/kubernetes/kubelet.conf"), JSON.stringify(kubelet));
    writeFileSync(this.at(`${ACCOUNT}/token`), token);
    writeFileSync(this.at(`${ACCOUNT}/ca.crt`), authority);
    const fields = {
      ...this.#configuration,
      cniSourceDirectory: SOURCE,
      cniBinDirectory: this.at("/opt/cni/bin"),
      cniConfDirectory: this.at("/etc/cni/net.d"),
      socketPath: this.socket,
      stateDirectory: this.at("/run/drawbridge"),
      kubeletKubeconfig: this.at("/etc/kubernetes/kubelet.conf"),
      serviceAccountDirectory: this.at(ACCOUNT),
    };
    writeFileSync(this.at("/etc/drawbridge/policyd.yaml"), JSON.stringify(fields));
  }

  get #container(): Container {
    const [container] = this.#pod.containers;
    if (container === undefined) throw new Error("the DaemonSet has no container");
    return container;
  }
}

/** Returns the contents of a manifest's ConfigMap. */
function configurationIn(manifest: string): Readonly<Record<string, unknown>> {
  const configMap = manifestObjects(manifest).find(({ kind }) => kind === "ConfigMap");
  const text = (configMap?.["data"] as Readonly<Record<string, string>> | undefined)?.["policyd.yaml"];
  if (text === undefined) throw new Error("the manifest has no ConfigMap with policyd.yaml");
  return parse(text) as Readonly<Record<string, unknown>>;
}
