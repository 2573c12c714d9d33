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
  /** Gets each line of the console. */
  readonly onLine: (line: string) => void;
}

const RESULT = "KERNELS-RESULT ";
const LIMIT_MILLISECONDS = 3600_000;
const MACHINES = {
  // A processor without x86-64-v2, which nothing needs. Later ones copy memory by an instruction for each byte.
  x64: { program: "qemu-system-x86_64", options: ["-machine", "q35", "-cpu", "qemu64"], console: "ttyS0" },
  // 16 KB pages need a later core than the Cortex-A72.
  arm64: { program: "qemu-system-aarch64", options: ["-machine", "virt", "-cpu", "cortex-a76"], console: "ttyAMA0" },
} as const;

/**
 * Boots a kernel, which runs its files, and returns their results when it has ended. It ends with this process, however
 * that ends.
 */
export async function boot(guest: Guest): Promise<readonly GuestResult[]> {
  const command = guest.kernel.without === undefined ? emulator(guest) : userMode(guest);
  const child = spawn("setpriv", ["--pdeathsig", "KILL", "nice", "-n", "5", ...command], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const limit = setTimeout(() => child.kill("SIGKILL"), LIMIT_MILLISECONDS);
  try {
    const results: GuestResult[] = [];
    for await (const line of createInterface({ input: child.stdout })) {
      guest.onLine(line);
      const at = line.indexOf(RESULT);
      if (at >= 0) results.push(JSON.parse(line.slice(at + RESULT.length)) as GuestResult);
    }
    return results;
  } finally {
    clearTimeout(limit);
    child.kill("SIGKILL");
  }
}

/**
 * Returns the command line of QEMU, which emulates the processor and counts the guest's time by instructions, so a slow
 * machine delays nothing in there; while the guest waits, its time jumps.
 */
function emulator({ kernel, image, initrd }: Guest): readonly string[] {
  const { program, options, console } = MACHINES[kernel.architecture];
  const append = `console=${console} quiet panic=-1 net.ifnames=0 mitigations=off nowatchdog ${words(kernel).join(" ")}`;
  const clock = ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"];
  const devices = "-m 3072 -display none -monitor none -nodefaults -no-reboot -serial stdio".split(" ");
  return [program, ...clock, ...options, ...devices, "-kernel", image, "-initrd", initrd, "-append", append];
}

/** Returns the command line of User Mode Linux, whose programs this machine's processor runs. */
function userMode({ kernel, image, initrd }: Guest): readonly string[] {
  const console = ["con0=null,fd:1", "con=null", "ssl=null", "quiet", "panic=-1", "noreboot"];
  return [image, "mem=3072M", `initrd=${initrd}`, ...console, ...words(kernel)];
}

/** Returns the words by which the guest knows what it is to do. */
function words({ files, without = [], parameter }: Kernel): readonly string[] {
  return [
    `drawbridge.files=${files.join(",")}`,
    ...without.map((option) => `drawbridge.without=${option}`),
    ...(parameter === undefined ? [] : [parameter]),
  ];
}
