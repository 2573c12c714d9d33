import { existsSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import type Mocha from "mocha";
import { CACHE, goInstall, hasGo } from "./go.ts";
import { requireLongForm } from "../long_form.ts";
import { skip } from "../privilege.ts";

/** The Go programs of users that run the command line, or that the command line runs. */
const GO_PROGRAMS = {
  kustomize: { version: "5.8.2", package: "sigs.k8s.io/kustomize/kustomize/v5" },
  helm: { version: "4.3.1", package: "helm.sh/helm/v4/cmd/helm" },
} as const;

/**
 * Returns the directory with the program of that name. The long form of the tests builds it with Go into the user's
 * cache unless it is there already.
 *
 * The short form without a built program, and either form without Go, skips the tests of the hook's suite: a build
 * takes minutes.
 *
 * @throws Error when the build fails
 */
export function requireGoProgram(context: Mocha.Context, name: keyof typeof GO_PROGRAMS): string {
  const { version } = GO_PROGRAMS[name];
  if (!existsSync(path.join(directoryOf(name), name))) {
    requireLongForm(context, `building ${name} ${version} takes too long`);
    if (!hasGo()) skip(context, `this machine has no Go to build ${name} ${version}: install Go`);
  }
  return path.dirname(goProgram(name));
}

/** Returns the path of the program, and builds it with Go unless it is there. @throws Error when the build fails */
export function goProgram(name: keyof typeof GO_PROGRAMS): string {
  const directory = directoryOf(name);
  const program = path.join(directory, name);
  if (existsSync(program)) return program;
  const { version, package: source } = GO_PROGRAMS[name];
  process.stderr.write(`building ${name} ${version} into ${directory}\n`);
  const failure = goInstall(directory, [`${source}@v${version}`]);
  if (failure !== undefined) throw new Error(`${name} could not be built: ${failure}`);
  return program;
}

function directoryOf(name: keyof typeof GO_PROGRAMS): string {
  return path.join(CACHE, `${name}-${GO_PROGRAMS[name].version}`);
}
