import {
  appendFileSync,
  copyFileSync,
  existsSync,
  globSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
} from "node:fs";
import path from "node:path";
import process from "node:process";
import { makePluginDirectory } from "../setup/build.mjs";
import { makeCli } from "../setup/build_cli.mjs";
import { makeDaemon } from "../setup/build_daemon.mjs";
import { makeImage } from "../setup/build_image.mjs";
import { OWN } from "../setup/bundle.mjs";
import { readArchive } from "../setup/image_archive.mjs";
import { imageFiles } from "../setup/image_files.mjs";
import { installedPackage } from "../setup/npm_package.mjs";
import { CpioArchive } from "./cpio.ts";
import type { Kernel } from "./kernels.ts";
import { run, unpacked } from "./packages.ts";

/** The guest's programs: those that tests start, and what the kernel starts to load a module. */
const PROGRAMS = (
  "bash coreutils iproute2 nftables kmod util-linux mount procps sed grep libstdc++6 netbase ethtool wireguard-tools " +
  "iputils-ping socat libseccomp2 dnsmasq-base libc-bin"
).split(" ");
const USR = ["bin", "sbin", "lib", "lib64"];
/** The npm packages that only the bootstrap needs. */
const NOT_IN_GUEST =
  /^(node-linux-.*|typescript|oxlint|oxfmt|esbuild|\.bin|\.cache|@(typescript|oxlint.*|oxfmt|esbuild|types))$/;
/** Drivers of real hardware are left out. */
const MODULES = [
  "modules.*",
  "kernel/{net,lib,crypto,arch}",
  "kernel/drivers/net/*.ko*",
  "kernel/drivers/net/{vxlan,geneve,wireguard,bonding,ipvlan,macvlan,team}",
];

/**
 * Writes the root file system of a guest, without modules: Debian's programs, Node, the tree with its tests, and what
 * the image for that processor has.
 */
export function writeRoot(project: string, architecture: Kernel["architecture"], file: string): void {
  const root = unpacked({ suite: "bookworm", architecture, packages: PROGRAMS, pattern: /./ });
  const archive = new CpioArchive(file);
  for (const name of USR) archive.link(name, `usr/${name}`);
  archive.link("usr/bin/sh", "bash");
  for (const name of ["etc", ...USR.map((one) => `usr/${one}`)]) copy(archive, path.join(root, name), name);
  for (const name of ["proc", "sys", "tmp", "root", "var/lib", "run"]) archive.directory(name);
  archive.file("etc/passwd", Buffer.from("root:x:0:0:root:/root:/bin/bash\n"));
  copy(archive, path.join(installedPackage(project, `node-linux-${architecture}`), "bin/node"), "usr/bin/node");
  copy(archive, path.join(project, "test/kernels/guest/init.sh"), "init");
  const sources = run("git", ["-C", project, "ls-files", "--cached", "--others", "--exclude-standard"]).split("\n");
  for (const source of sources) {
    if (source !== "" && existsSync(path.join(project, source)))
      copy(archive, path.join(project, source), `drawbridge/${source}`);
  }
  for (const name of readdirSync(path.join(project, "node_modules"))) {
    const place = `node_modules/${name}`;
    if (!NOT_IN_GUEST.test(name)) copy(archive, path.join(project, place), `drawbridge/${place}`);
  }
  const koffi = `@koromix/koffi-linux-${architecture}`;
  copy(archive, installedPackage(project, koffi), `drawbridge/node_modules/${koffi}`);
  const built = mkdtempSync(`${file}.`);
  try {
    const target = { ...OWN, architecture };
    makePluginDirectory(project, process.execPath, architecture, path.join(built, "cni"));
    makeDaemon(project, path.join(built, "policyd"), target);
    makeCli(project, path.join(built, "cli"), target);
    copy(archive, built, "drawbridge/dist");
    copy(archive, unpackedImage(project, architecture, built), "image");
  } finally {
    rmSync(built, { recursive: true });
  }
  archive.end();
}

/** Makes the image for a processor, and returns a directory with its files. @param built the programs for it */
function unpackedImage(project: string, architecture: string, built: string): string {
  const [archive, layout, root] = [`${built}/image.tar`, `${built}/layout`, `${built}/image`];
  const variants = [{ architecture, files: imageFiles(project, architecture, built) }];
  makeImage(project, { name: "localhost/drawbridge", variants, labels: {} }, archive);
  for (const directory of [layout, root]) mkdirSync(directory);
  run("tar", ["-xf", archive, "-C", layout]);
  for (const { digest } of readArchive(readFileSync(archive)).variants[0]?.layers ?? [])
    run("tar", ["-xzf", path.join(layout, "blobs", digest.replace(":", "/")), "-C", root]);
  return root;
}

/** Writes the modules of a kernel. @returns the path of the kernel and its release */
export function writeModules(kernel: Kernel, file: string): { readonly image: string; readonly release: string } {
  const { suite, architecture, debianPackage } = kernel;
  const root = unpacked({
    suite,
    architecture,
    packages: [debianPackage],
    pattern: /^linux-(image|modules|binary)-\d/,
  });
  const [release = ""] = readdirSync(path.join(root, "usr/lib/modules"));
  const [image] = globSync([`${root}/boot/vmlinuz-*`, `${root}/usr/lib/modules/*/vmlinuz`]);
  if (image === undefined) throw new Error(`${root} has no kernel`);
  run("depmod", ["-b", root, release]);
  const modules = path.join(root, "usr/lib/modules", release);
  const archive = new CpioArchive(file);
  for (const found of globSync(MODULES, { cwd: modules })) {
    copy(archive, path.join(modules, found), `usr/lib/modules/${release}/${found}`);
  }
  archive.end();
  return { image, release };
}

/** Writes archives one after another into one, as the kernel reads them. */
export function concatenate(target: string, ...files: readonly string[]): void {
  const [first = "", ...others] = files;
  copyFileSync(first, target);
  for (const file of others) appendFileSync(target, readFileSync(file));
}

function copy(archive: CpioArchive, source: string, target: string): void {
  const status = lstatSync(source);
  if (status.isSymbolicLink()) archive.link(target, readlinkSync(source));
  else if (status.isDirectory()) {
    archive.directory(target);
    for (const name of readdirSync(source)) copy(archive, path.join(source, name), `${target}/${name}`);
  } else if (status.isFile() && !/\.(map|d\.ts|d\.mts|d\.cts)$/.test(target)) {
    archive.file(target, readFileSync(source), status.mode & 0o777);
  }
}
