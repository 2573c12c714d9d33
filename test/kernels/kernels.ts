/** A kernel to boot: the newest one that a Debian suite has for a processor. */
export interface Kernel {
  /** How the command line and the table call it. */
  readonly name: string;
  /** As `process.arch`. */
  readonly architecture: "x64" | "arm64";
  readonly suite: string;
  /** The package that depends on the newest kernel's. */
  readonly debianPackage: string;
  /** Whether only the modules that docs/kernels.md names are there, loaded at boot. */
  readonly isModprobeForbidden?: true;
}

const NEWEST = "linux-image-cloud-amd64";

export const KERNELS: readonly Kernel[] = [
  { name: "5.10", architecture: "x64", suite: "bullseye", debianPackage: NEWEST },
  { name: "6.1", architecture: "x64", suite: "bookworm", debianPackage: NEWEST },
  { name: "6.1-no-modprobe", architecture: "x64", suite: "bookworm", debianPackage: NEWEST, isModprobeForbidden: true },
  { name: "6.12", architecture: "x64", suite: "trixie", debianPackage: NEWEST },
  { name: "sid", architecture: "x64", suite: "sid", debianPackage: NEWEST },
  { name: "6.1-arm64", architecture: "arm64", suite: "bookworm", debianPackage: "linux-image-cloud-arm64" },
  { name: "6.12-arm64-16k", architecture: "arm64", suite: "trixie", debianPackage: "linux-image-arm64-16k" },
];

/**
 * The test files that each kernel runs, in this order. The titles of those of guest/ begin with their subject; each other
 * file is a subject.
 */
export const FILES: readonly string[] = [
  "test/kernels/guest/smoke.ts",
  "test/kernels/guest/wireguard.ts",
  "test/kernels/guest/demo.ts",
  "test/kernel/bridge_bypass.test.ts",
  "test/integration/attacks/offloaded_checksum.test.ts",
];
