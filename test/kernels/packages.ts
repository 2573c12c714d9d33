import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { outputOf } from "../setup/child.mjs";
import { CACHE, foreignOptions } from "../setup/debian.mjs";
import { makeWhole } from "../setup/whole_directory.mjs";

/** Packages of a Debian suite, with everything that they depend on. */
export interface Wanted {
  readonly suite: string;
  /** As `process.arch`. */
  readonly architecture: "x64" | "arm64";
  readonly packages: readonly string[];
  /** Which of the downloaded packages are unpacked. */
  readonly pattern: RegExp;
}

/** Names of the root file system's directories, as Debian's packages expect them. */
const MERGED = ["bin", "sbin", "lib", "lib64"];
/** `dpkg-deb --extract` would replace the links of these directories. */
const EXTRACT =
  'set -o pipefail; dpkg-deb --fsys-tarfile "$1" | tar --extract --keep-directory-symlink --directory "$2"';

/**
 * Returns a directory with unpacked packages, from the cache of the user where an earlier run has left it. The lists are
 * apt's in a state of their own, from the mirrors that this machine uses, so the machine learns of no other suite.
 *
 * @throws Error when a package is not to be had
 */
export function unpacked({ suite, architecture, packages, pattern }: Wanted): string {
  const hash = createHash("sha256").update(packages.join(" ")).digest("hex").slice(0, 12);
  const directory = path.join(CACHE, "kernels", `${suite}-${architecture}-${hash}`);
  if (existsSync(directory)) return directory;
  makeWhole(directory, (unfinished) => {
    const apt = path.join(unfinished, "apt");
    const options = aptOptions(apt, suite, architecture === "x64" ? "amd64" : architecture);
    run("apt-get", [...options, "update"]);
    const listed = run("apt-get", [
      ...options,
      "install",
      "-qq",
      "--print-uris",
      "--no-install-recommends",
      ...packages,
    ]);
    const files = [...listed.matchAll(/^'[^']+' (\S+\.deb) /gm)].map(([, file = ""]) => file);
    // A suite that ends may lack the package that only names the newest kernel's, which is not fetched.
    const names = files.filter((file) => pattern.test(file)).map((file) => file.slice(0, file.indexOf("_")));
    if (names.length === 0) throw new Error(`${suite} has none of ${packages.join(", ")} for ${architecture}`);
    const archives = path.join(apt, "archives");
    mkdirSync(archives);
    run("apt-get", [...options, "download", ...names], archives);
    for (const name of MERGED) {
      mkdirSync(path.join(unfinished, "usr", name), { recursive: true });
      run("ln", ["-s", `usr/${name}`, path.join(unfinished, name)]);
    }
    for (const file of readdirSync(archives)) {
      run("bash", ["-c", EXTRACT, "bash", path.join(archives, file), unfinished]);
    }
    rmSync(apt, { recursive: true });
  });
  return directory;
}

function aptOptions(apt: string, suite: string, architecture: string): readonly string[] {
  const options = foreignOptions(apt, architecture);
  writeFileSync(path.join(apt, "sources.list"), sources(suite).join("\n"));
  const places = { "Dir::Etc::sourcelist": `${apt}/sources.list`, "Dir::Etc::sourceparts": "/dev/null" };
  const further = Object.entries({ ...places, "Acquire::Languages": "none" });
  return [...options, ...further.flatMap(([key, value]) => ["-o", `${key}=${value}`])];
}

/** Returns the lines of sources.list for a suite: Debian's mirrors of this machine, of which sid has no updates. */
function sources(suite: string): readonly string[] {
  const text = run("apt-get", ["indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"]);
  const mirror = (label: string): string | undefined => new RegExp(`^${label} (\\S+)$`, "m").exec(text)?.[1];
  const [main, security] = [mirror("Debian"), mirror("Debian-Security")];
  if (main === undefined) throw new Error("apt-get knows no mirror of Debian: kernels come from there");
  const isReleased = suite !== "sid" && security !== undefined;
  return [`deb ${main} ${suite} main`, ...(isReleased ? [`deb ${security} ${suite}-security main`] : []), ""];
}

/** Runs a program and returns its output. @throws SetupFailure with its last words */
export function run(program: string, args: readonly string[], cwd = process.cwd()): string {
  return outputOf(program, args, `${program} ${args.slice(-3).join(" ")}`, { cwd, lines: 4 });
}
