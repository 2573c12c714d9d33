import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { run } from "../run.ts";

/** The command of an image's containers. */
export interface ImageConfiguration {
  readonly entrypoint: readonly string[];
  readonly command?: readonly string[];
}

/**
 * Writes an image of one layer as an archive for `ctr images import` (Docker's format: manifest.json names the
 * configuration, the tags and the layers).
 *
 * @param root the directory that becomes the root of its containers
 * @param names every full name, with its tag, under which the image is imported
 */
export function writeArchive(
  file: string,
  root: string,
  names: readonly string[],
  { entrypoint, command = [] }: ImageConfiguration,
): void {
  mkdirSync(path.dirname(file), { recursive: true });
  const directory = mkdtempSync(`${file}.`);
  try {
    run("tar", [
      "--create",
      "--file",
      path.join(directory, "layer.tar"),
      "--numeric-owner",
      "--owner=0",
      "--group=0",
      "--directory",
      root,
      ".",
    ]);
    const digest = createHash("sha256")
      .update(readFileSync(path.join(directory, "layer.tar")))
      .digest("hex");
    const configuration = JSON.stringify({
      architecture: process.arch === "x64" ? "amd64" : process.arch,
      os: "linux",
      config: {
        Entrypoint: entrypoint,
        Cmd: command,
        Env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
      },
      rootfs: { type: "layers", diff_ids: [`sha256:${digest}`] },
    });
    const name = `${createHash("sha256").update(configuration).digest("hex")}.json`;
    writeFileSync(path.join(directory, name), configuration);
    writeFileSync(
      path.join(directory, "manifest.json"),
      JSON.stringify([{ Config: name, RepoTags: names, Layers: ["layer.tar"] }]),
    );
    run("tar", ["--create", "--file", `${file}.new`, "--directory", directory, "manifest.json", name, "layer.tar"]);
    renameSync(`${file}.new`, file);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
