import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { chartFiles } from "../../setup/release/chart.mjs";
import {
  billOfMaterials,
  buildOf,
  krewManifest,
  labelsOf,
  notesOf,
  npmManifest,
  npmPart,
  withImage,
} from "../../setup/release/files.mjs";
import { entries } from "../../../policyd/configuration/schema.ts";
import packageJson from "../../../package.json" with { type: "json" };

const RELEASE = {
  version: packageJson.version,
  commit: "0123456789abcdef0123456789abcdef01234567",
  date: new Date("2026-11-28T20:00:00Z"),
  repository: "images.example/drawbridge",
  digest: `sha256:${"a".repeat(64)}`,
  url: "https://git.example/o/drawbridge/releases/download/v1",
};

describe("setup: a release", () => {
  it("RELEASE-04: the build is the commit and its date, and says when the tree was changed", () => {
    assert.equal(buildOf(RELEASE), "0123456789ab.20261128");
    assert.equal(buildOf({ ...RELEASE, commit: `${RELEASE.commit}-dirty` }), "0123456789ab-dirty.20261128");
    assert.deepEqual(labelsOf(RELEASE), {
      "org.opencontainers.image.version": RELEASE.version,
      "org.opencontainers.image.revision": RELEASE.commit,
      "org.opencontainers.image.created": "2026-11-28T20:00:00.000Z",
    });
  });

  it("RELEASE-03: the chart has the objects and the configuration of install.yaml, no mark is left, and an incomplete manifest is refused", () => {
    const install = readFileSync("manifests/install.yaml", "utf8");
    const files = chartFiles(RELEASE, install, "kind: Policy\n", new Map([["vxlan", "encapsulation: always\n"]]));
    const kinds = install.match(/^kind: .*$/gm)?.map((line) => line.slice("kind: ".length).toLowerCase()) ?? [];
    for (const kind of kinds) assert.ok(`templates/${kind}.yaml` in files, kind);
    assert.equal(kinds.length, 5);
    for (const [name, text] of Object.entries(files)) assert.doesNotMatch(text, /HELM/, name);
    assert.deepEqual(parse(files["values.yaml"] ?? ""), {
      image: { repository: RELEASE.repository, digest: RELEASE.digest, tag: "", pullPolicy: "IfNotPresent" },
      ownNodeStatus: false,
      seccompProfile: { type: "RuntimeDefault" },
      configuration: { logFormat: "json", installCni: true },
    });
    assert.equal(files["examples/vxlan.yaml"], "configuration:\n  encapsulation: always\n");
    assert.match(files["templates/daemonset.yaml"] ?? "", /^\{\{- if \.Values\.configuration\.flowLedger \}\}$/m);
    const refused = /^\{\{- range list (.*) \}\}$/m.exec(files["templates/configmap.yaml"] ?? "")?.[1] ?? "";
    assert.deepEqual(
      refused.split(" ").filter((field) => !(JSON.parse(field) in entries)),
      [],
    );
    const lacking = install.replaceAll("kubelet-kubeconfig", "other");
    assert.throws(() => chartFiles(RELEASE, lacking, "", new Map()), /has no kubelet-kubeconfig at spec\.template/);
  });

  it("RELEASE-04: install.yaml and the kustomizations name the image by its digest, and a manifest without the image is refused", () => {
    const install = withImage(RELEASE, readFileSync("manifests/install.yaml", "utf8"));
    assert.match(install, /^ +image: images\.example\/drawbridge@sha256:a{64}$/m);
    for (const name of ["base", "cleanup"]) {
      const text = withImage(RELEASE, readFileSync(`manifests/${name}/kustomization.yaml`, "utf8"));
      const { images } = parse(text) as { images: unknown };
      assert.deepEqual(images, [{ name: "drawbridge", newName: RELEASE.repository, digest: RELEASE.digest }]);
    }
    assert.throws(() => withImage(RELEASE, "image: other"), /does not name localhost\/drawbridge/);
    assert.throws(() => withImage({ ...RELEASE, version: "9.9.9" }, install), /in version 9\.9\.9/);
  });

  it("RELEASE-06: the notes are the version's section of the changelog, whose absence is an error", () => {
    const changelog = "# Changelog\n\n## [2.0.0] - today\n\nSecond.\n\n### Added\n\n- a\n\n## [1.0.0]\n\nFirst.\n";
    assert.equal(notesOf(changelog, "2.0.0"), "Second.\n\n### Added\n\n- a\n\n");
    assert.equal(notesOf(changelog, "1.0.0"), "First.\n");
    assert.throws(() => notesOf(changelog, "1.0"), /CHANGELOG\.md has no section \[1\.0\]/);
    assert.match(notesOf(readFileSync("CHANGELOG.md", "utf8"), packageJson.version), /CNI plugin/);
  });

  it("RELEASE-06: krew, npm and the list of contents name the files of both processors", () => {
    const archives = ["amd64", "arm64"].map((architecture) => ({
      architecture,
      file: `${architecture}.tar.gz`,
      sha256: "00",
    }));
    const { spec } = parse(krewManifest(RELEASE, archives)) as {
      spec: { homepage: string; platforms: { uri: string }[] };
    };
    assert.equal(spec.homepage, "https://git.example/o/drawbridge");
    assert.deepEqual(
      spec.platforms.map(({ uri }) => uri),
      ["amd64", "arm64"].map((name) => `${RELEASE.url}/${name}.tar.gz`),
    );
    const { engines, bin, optionalDependencies } = npmManifest(RELEASE, { ...packageJson, koffi: "3.0.0" });
    assert.deepEqual([engines, Object.keys(bin)], [packageJson.engines, Object.keys(packageJson.bin)]);
    assert.deepEqual(Object.keys(optionalDependencies), ["@koromix/koffi-linux-x64", "@koromix/koffi-linux-arm64"]);
    const part = npmPart({ name: "@a/b", version: "1.0.0", integrity: "sha512-AAE=", license: "MIT" });
    const { components, metadata } = billOfMaterials(RELEASE, [part]);
    assert.equal(metadata.timestamp, "2026-11-28T20:00:00.000Z");
    assert.deepEqual(components, [
      {
        type: "library",
        "bom-ref": "pkg:npm/%40a/b@1.0.0",
        name: "@a/b",
        version: "1.0.0",
        purl: "pkg:npm/%40a/b@1.0.0",
        licenses: [{ expression: "MIT" }],
        hashes: [{ alg: "SHA-512", content: "0001" }],
      },
    ]);
  });
});
