import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { CACHE, PROJECT } from "../place.ts";
import { LAYERS } from "../../support/lint/boundaries.ts";
import { run } from "../run.ts";

const SOURCES = [
  ...Object.keys(LAYERS),
  "manifests",
  "test/setup",
  "package.json",
  "package-lock.json",
  "tsconfig.json",
  "LICENSE",
];
const SCHEMA = "policyd/ruleset/schema.ts";
const SIGNATURE = 'export function withVersion(table: Omit<Table, "comment">): Table {';

/** The version of the other build. */
const OTHER_VERSION = "0.1.1";

/** A build beside this project's: the archive of its image, and the text of the manifest that installs that image. */
export interface OtherBuild {
  readonly archive: string;
  readonly manifest: string;
}

/**
 * Makes the image of the build to which the add-on is upgraded.
 *
 * @param revision a revision of this repository; without one, the build is this project with another schema
 */
export function makeOtherBuild(revision: string | undefined): OtherBuild {
  const directory = revision === undefined ? copySources() : checkOut(revision);
  const description = path.join(directory, "package.json");
  writeFileSync(
    description,
    JSON.stringify({ ...JSON.parse(readFileSync(description, "utf8")), version: OTHER_VERSION }),
  );
  run(process.execPath, ["test/setup/run.mjs", "image"], { cwd: directory });
  return {
    archive: path.join(directory, "dist/drawbridge-image.tar"),
    manifest: readFileSync(path.join(directory, "manifests/install.yaml"), "utf8").replace(
      /(image: localhost\/drawbridge:)\S+/,
      `$1${OTHER_VERSION}`,
    ),
  };
}

/**
 * Returns the source of the schema's versions with one more chain and, in each base chain, a rule that jumps to it: every
 * table of a build with it differs from that of this project in its rules, and so in its version.
 *
 * @throws Error when the source has changed so that this no longer fits
 */
function anotherSchema(source: string): string {
  if (!source.includes(SIGNATURE)) throw new Error(`${SCHEMA} has no line ${SIGNATURE}`);
  return source.replace(
    SIGNATURE,
    `export function withVersion(plain: Omit<Table, "comment">): Table {
  const jump = { statements: [{ kind: "verdict", verdict: { kind: "jump", chain: "another_build" } }] } as const;
  const table = {
    ...plain,
    chains: [
      { name: "another_build", rules: [] },
      ...plain.chains.map((chain) => (chain.base === undefined ? chain : { ...chain, rules: [jump, ...chain.rules] })),
    ],
  };`,
  );
}

function copySources(): string {
  const directory = path.join(CACHE, "other-schema");
  for (const name of SOURCES) {
    rmSync(path.join(directory, name), { recursive: true, force: true });
    mkdirSync(path.dirname(path.join(directory, name)), { recursive: true });
    cpSync(path.join(PROJECT, name), path.join(directory, name), { recursive: true });
  }
  rmSync(path.join(directory, "node_modules"), { recursive: true, force: true });
  symlinkSync(path.join(PROJECT, "node_modules"), path.join(directory, "node_modules"));
  const schema = path.join(directory, SCHEMA);
  writeFileSync(schema, anotherSchema(readFileSync(schema, "utf8")));
  return directory;
}

/** Checks out a revision, whose own set-up then installs its packages and builds, unless an earlier run did. */
function checkOut(revision: string): string {
  const directory = path.join(CACHE, "other-revision");
  const commit = run("git", ["-C", PROJECT, "rev-parse", `${revision}^{commit}`]).trim();
  mkdirSync(directory, { recursive: true });
  run("git", ["-C", directory, "init", "--quiet"]);
  run("git", ["-C", directory, "fetch", "--quiet", PROJECT, commit]);
  run("git", ["-C", directory, "checkout", "--quiet", "--force", "--detach", commit]);
  return directory;
}
