import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Kernel } from "./kernels.ts";

/** The outcome of one test file in a guest. */
export interface GuestResult {
  readonly file: string;
  /** By the guest's clock. */
  readonly seconds: number;
  readonly passed: readonly string[];
  readonly skipped: readonly string[];
  readonly failed: readonly { readonly title: string; readonly error: string }[];
}

export interface Guest {
  readonly kernel: Kernel;
  /** The path of the kernel. */
  readonly image: string;
  /** The path of its root file system. */
  readonly initrd: string;
  readonly files: readonly string[];
  /** Gets each line of the console. */
  readonly onLine: (line: string) => void;
}

const RESULT = "KERNELS-RESULT ";
const LIMIT_MILLISECONDS = 3600_000;
const MACHINES = {
  x64: { program: "qemu-system-x86_64", options: ["-machine", "q35", "-cpu", "max"], console: "ttyS0" },
  // 16 KB pages need a later core than the Cortex-A72.
  arm64: { program: "qemu-system-aarch64", options: ["-machine", "virt", "-cpu", "cortex-a76"], console: "ttyAMA0" },
} as const;

/**
 * Boots a kernel, which runs the files, and returns their results when it has ended. QEMU emulates the processor and
 * counts the guest's time by instructions, so a slow machine delays nothing in there; while the guest waits, its time
 * jumps. QEMU ends with this process, however that ends.
 */
export async function boot({ kernel, image, initrd, files, onLine }: Guest): Promise<readonly GuestResult[]> {
  const { program, options, console } = MACHINES[kernel.architecture];
  const own = `drawbridge.files=${files.join(",")}${kernel.isModprobeForbidden === true ? " drawbridge.modprobe=forbidden" : ""}`;
  const append = `console=${console} quiet panic=-1 net.ifnames=0 mitigations=off nowatchdog ${own}`;
  const clock = ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"];
  const devices = [
    "-m",
    "3072",
    "-display",
    "none",
    "-monitor",
    "none",
    "-nodefaults",
    "-no-reboot",
    "-serial",
    "stdio",
  ];
  const system = ["-kernel", image, "-initrd", initrd, "-append", append];
  const child = spawn(
    "setpriv",
    ["--pdeathsig", "KILL", "nice", "-n", "5", program, ...clock, ...options, ...devices, ...system],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  const limit = setTimeout(() => child.kill("SIGKILL"), LIMIT_MILLISECONDS);
  try {
    const results: GuestResult[] = [];
    for await (const line of createInterface({ input: child.stdout })) {
      onLine(line);
      const at = line.indexOf(RESULT);
      if (at >= 0) results.push(JSON.parse(line.slice(at + RESULT.length)) as GuestResult);
    }
    return results;
  } finally {
    clearTimeout(limit);
    child.kill("SIGKILL");
  }
}
