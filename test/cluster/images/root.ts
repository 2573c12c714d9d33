import { chmodSync, copyFileSync, existsSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { run } from "../run.ts";

/** Adds a file under a path of the image, with its mode. */
export function addFile(root: string, source: string, target: string): void {
  const file = path.join(root, target);
  mkdirSync(path.dirname(file), { recursive: true });
  if (!existsSync(file)) copyFileSync(realpathSync(source), file);
}

/** Adds a program of this machine, under its own path, with the libraries that it is linked to. */
export function addProgram(root: string, program: string, target = program): void {
  addFile(root, program, target);
  for (const [, library] of run("ldd", [program]).matchAll(/(?:=> |^\s+)(\/\S+) \(0x/gm)) {
    if (library !== undefined) addFile(root, library, library);
  }
}

/** Adds the tools of a small system, which are all busybox, and the usual users of images. */
export function addSystem(root: string): void {
  addFile(root, "/bin/busybox", "/bin/busybox");
  for (const applet of run("busybox", ["--list"]).split("\n")) {
    const link = path.join(root, "bin", applet);
    if (applet !== "" && !existsSync(link)) symlinkSync("busybox", link);
  }
  for (const directory of ["etc", "root", "tmp", "usr/bin", "usr/local/bin", "var/run"]) {
    mkdirSync(path.join(root, directory), { recursive: true });
  }
  chmodSync(path.join(root, "tmp"), 0o1777);
  writeFileSync(
    path.join(root, "etc/passwd"),
    "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
  );
  writeFileSync(path.join(root, "etc/nsswitch.conf"), "passwd: files\ngroup: files\nhosts: files dns\n");
  writeFileSync(path.join(root, "etc/group"), "root:x:0:\nnogroup:x:65534:\n");
}
