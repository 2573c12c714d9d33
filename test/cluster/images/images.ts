import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import path from "node:path";
import { run } from "../run.ts";
import { writeArchive } from "./archive.ts";
import { addFile, addProgram, addSystem } from "./root.ts";

/** Programs that upstream's tests call in agnhost's containers, besides agnhost, as its Dockerfile installs them. */
const AGNHOST_TOOLS = [
  "/bin/bash",
  "/usr/bin/curl",
  "/usr/bin/dig",
  "/usr/bin/getent",
  "/bin/nc.openbsd",
  "/bin/ip",
  "/usr/bin/iperf",
  "/usr/bin/socat",
  "/usr/bin/wget",
  "/usr/sbin/conntrack",
];

/** The images that agnhost's image replaces: these suites do not use anything of the others that it lacks. */
const STANDS_FOR = /\/(?:agnhost|pause|busybox|glibc-dns-testing|nginx|distroless-iptables):/;

/** A server that sends packets that once made kernels reset connections (Kubernetes' issue 74839). */
const REGRESSION = "regression-issue-74839";

/**
 * The versions of agnhost in the manifests of suites outside of Kubernetes: network-policy-api 0.3.0, cyclonus 0.5.6.
 */
const IN_OTHER_SUITES = ["2.45", "2.43"];

/** The image of the pods from which cyclonus probes; it contains cyclonus' worker. */
const CYCLONUS_WORKER = "docker.io/mfenwick100/cyclonus-worker:latest";

/** The places of the built programs, and of their sources. */
export interface ImageSources {
  /** Directory of Kubernetes' programs. */
  readonly kubernetes: string;
  /** Kubernetes' version. */
  readonly version: string;
  /** The root of Kubernetes' sources, which has the certificates of agnhost's porter. */
  readonly kubernetesSource: string;
  readonly coredns: string;
  /** The program that runs as agnhost with SCTP endpoints, and as cyclonus' worker. */
  readonly sctp: string;
}

/**
 * Writes the images that a cluster and upstream's tests need, except the add-on's own.
 *
 * @param directory the directory for the archives
 * @returns the archives, and the name of a sandbox's image
 */
export function writeImages(
  directory: string,
  sources: ImageSources,
): { readonly archives: readonly string[]; readonly pause: string } {
  // A killed run may have left an incomplete image.
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  const withRoot = <T>(use: (root: string) => T): T => {
    const root = mkdtempSync(path.join(directory, "root."));
    try {
      chmodSync(root, 0o755);
      return use(root);
    } finally {
      rmSync(root, { recursive: true, force: true });
    }
  };
  const tests = path.join(directory, "agnhost.tar");
  const dns = path.join(directory, "coredns.tar");
  const regression = path.join(directory, `${REGRESSION}.tar`);
  const names = withRoot((root) => listImages(sources, root));
  withRoot((root) => {
    for (const tool of AGNHOST_TOOLS) addProgram(root, tool);
    // As the shell, busybox would run its own nc and ip instead of these programs.
    symlinkSync("bash", path.join(root, "bin/sh"));
    addSystem(root);
    symlinkSync("/bin/nc.openbsd", path.join(root, "usr/bin/nc"));
    symlinkSync("/usr/bin/iperf", path.join(root, "usr/local/bin/iperf"));
    mkdirSync(path.join(root, "uploads"));
    for (const file of ["localhost.crt", "localhost.key"]) {
      addFile(root, path.join(sources.kubernetesSource, "test/images/agnhost/porter", file), file);
      // Sources of modules are read-only.
      chmodSync(path.join(root, file), 0o644);
    }
    addFile(root, path.join(sources.coredns, "coredns"), "coredns");
    copyFileSync(path.join(sources.kubernetes, "agnhost"), path.join(root, "agnhost-upstream"));
    copyFileSync(sources.sctp, path.join(root, "agnhost"));
    symlinkSync("agnhost", path.join(root, "agnhost-2"));
    symlinkSync("agnhost", path.join(root, "worker"));
    writeArchive(tests, root, names.tests, { entrypoint: ["/agnhost"], command: ["pause"] });
  });
  withRoot((root) => {
    addFile(root, path.join(sources.coredns, "coredns"), "coredns");
    writeArchive(dns, root, names.dns, { entrypoint: ["/coredns"] });
  });
  withRoot((root) => {
    addFile(root, path.join(sources.kubernetes, REGRESSION), REGRESSION);
    writeArchive(regression, root, names.regression, { entrypoint: [`/${REGRESSION}`] });
  });
  return { archives: [tests, dns, regression], pause: names.pause };
}

/**
 * Returns the names under which the programs of this version pull images.
 *
 * @param temporary a directory for temporary files
 */
function listImages(
  { kubernetes, version }: ImageSources,
  temporary: string,
): {
  readonly tests: readonly string[];
  readonly regression: readonly string[];
  readonly dns: readonly string[];
  readonly pause: string;
} {
  // Starting the tests leaves temporary files.
  const ofTests = run(path.join(kubernetes, "e2e.test"), ["--list-images"], { env: { TMPDIR: temporary } }).split("\n");
  const ofKubeadm = run(path.join(kubernetes, "kubeadm"), [
    "config",
    "images",
    "list",
    `--kubernetes-version=${version}`,
  ]).split("\n");
  const tests = ofTests.filter((name) => STANDS_FOR.test(name));
  const pause = ofKubeadm.find((name) => name.includes("/pause:")) ?? "";
  const ofOthers = tests
    .filter((name) => name.includes("/agnhost:"))
    .flatMap((name) => IN_OTHER_SUITES.map((tag) => name.replace(/:[^:]*$/, `:${tag}`)));
  return {
    tests: [...new Set([...tests, ...ofOthers, CYCLONUS_WORKER, pause])],
    regression: ofTests.filter((name) => name.includes(`/${REGRESSION}:`)),
    dns: ofKubeadm.filter((name) => name.includes("/coredns:")),
    pause,
  };
}
