import assert from "node:assert/strict";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import * as fc from "fast-check";
import { judge } from "../../../../../objects/gate/gate.ts";
import type { NetworkPolicy } from "../../../../../objects/model.ts";
import { recordingLogger } from "../../../../support/recording_logger.ts";
import { policyManifest } from "../../../../../policyd/policies/retained/policy_manifest.ts";
import { retainedFiles } from "../../../../../policyd/policies/retained/retained_files.ts";
import { realFileSystem } from "../../../../support/ipam/address_store.ts";
import { networkPolicies } from "../../../../support/policy/arbitrary_network_policy.ts";
import { objectOf } from "../../../../support/policy/live/objects.ts";
import { manifestsOf } from "../../../../support/policy/raw_cluster.ts";
import { roundsFor } from "../../../../support/long_form.ts";

function again(one: NetworkPolicy): unknown {
  const verdict = judge(JSON.parse(JSON.stringify(policyManifest(one))));
  return verdict.type === "accepted" ? verdict.object : verdict;
}

function policy(name: string, spec: object = {}, namespace = "n"): NetworkPolicy {
  return objectOf("NetworkPolicy", {
    metadata: { name, namespace },
    spec: { podSelector: {}, policyTypes: ["Ingress"], ...spec },
  });
}

describe("policyd/policies/retained", () => {
  it("NAME-13: a policy with names in its annotation is read again as it was", () => {
    const annotations = { "drawbridge.dev/egress-domain-names": "api.example.com:443" };
    const spec = { podSelector: {}, policyTypes: ["Egress"], egress: [{ to: [{ podSelector: {} }] }] };
    const one = objectOf("NetworkPolicy", { metadata: { name: "a", namespace: "n", annotations }, spec });
    assert.equal(one.egress.length, 2);
    assert.deepEqual(again(one), one);
  });

  let directory: string;
  let logger: ReturnType<typeof recordingLogger>;
  const store = (files = realFileSystem) =>
    retainedFiles({ stateDirectory: directory, files, logger, attachments: () => new Set() });

  beforeEach(() => {
    directory = mkdtempSync(`${tmpdir()}/retained-`);
    logger = recordingLogger();
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  it("POL-58: a policy that is written and read is unchanged", () => {
    fc.assert(
      fc.property(networkPolicies, (raw) => {
        const cluster = { namespaces: [], nodes: [], pods: [], networkPolicies: raw, clusterNetworkPolicies: [] };
        for (const manifest of manifestsOf(cluster)) {
          const verdict = judge(manifest);
          if (verdict.type !== "accepted" || verdict.object.kind !== "NetworkPolicy") continue;
          assert.deepEqual(again(verdict.object), verdict.object);
        }
      }),
      { numRuns: roundsFor("random cases", 100, 1000) },
    );
  });

  it("POL-58: a policy with invalid elements is unchanged, too, so that a rule for nobody does not become one for everybody", () => {
    const bad = { ipBlock: { cidr: "10.0.0.0/8", except: ["192.168.0.0/16"] } };
    const spec = {
      policyTypes: ["Egress", "Ingress"],
      ingress: [
        { from: [bad] },
        { from: [bad, { podSelector: { matchLabels: { a: "b" } } }], ports: [{ port: 0 }] },
        null,
        { from: [{ ipBlock: { cidr: "fd00::/8", except: ["fd00:1::/32"] } }], ports: [{ port: 80, endPort: 90 }] },
      ],
      egress: [null, {}, { ports: [{ port: "web", protocol: "UDP" }] }],
    };
    const read = policy("p", spec);
    assert.deepEqual(read.ingress[0]?.peers, []);
    assert.deepEqual(read.ingress[1]?.ports, []);
    assert.deepEqual(again(read), read);
  });

  it("POL-58: a saved record is read by the next daemon, in its last form, until it is removed", () => {
    store().save(3, { namespace: "n", attachments: ["net/a/eth0"], policies: [policy("old")] });
    store().save(3, {
      namespace: "n",
      attachments: ["net/a/eth0", "net/b/eth0"],
      policies: [policy("p"), policy("q")],
    });
    const record = { namespace: "n", attachments: ["net/a/eth0", "net/b/eth0"], policies: [policy("p"), policy("q")] };
    assert.deepEqual(store().load(), { records: new Map([[3, record]]), isWhole: true, lastNumber: 3 });
    assert.deepEqual(readdirSync(`${directory}/retained`), ["3.json"]);
    store().remove(3);
    assert.deepEqual(store().load(), { records: new Map(), isWhole: true, lastNumber: 0 });
    assert.deepEqual(logger.lines, []);
  });

  it("POL-58: records that are torn, too long, not files or not ours are reported once each and not used", () => {
    const path = (number: number): string => `${directory}/retained/${number}.json`;
    const save = (number: number): void =>
      store().save(number, { namespace: "n", attachments: [], policies: [policy("p")] });
    for (let number = 1; number <= 8; number++) save(number);
    truncateSync(path(1), readFileSync(path(1)).length / 2);
    writeFileSync(path(2), "");
    writeFileSync(path(3), JSON.stringify({ version: 2, namespace: "n", attachments: [], policies: [] }));
    writeFileSync(path(4), readFileSync(path(4), "utf8").replace('"n"', '"other"'));
    writeFileSync(path(5), readFileSync(path(5), "utf8").replace(/"matchLabels":\{[^}]*\}/, '"matchLabels":7'));
    writeFileSync(path(6), " ".repeat(5 * 1024 * 1024));
    rmSync(path(7));
    symlinkSync(path(8), path(7));
    mkdirSync(`${directory}/retained/9.json`);
    for (const name of ["0.json", "x.json", ".8.json", "8.json.bak"])
      writeFileSync(`${directory}/retained/${name}`, "{}");
    const { records, isWhole, lastNumber } = store().load();
    assert.deepEqual([[...records.keys()], isWhole, lastNumber], [[8], false, 9]);
    assert.equal(logger.lines.length, 8, JSON.stringify(logger.lines));
  });

  it("POL-58: files beyond the limit are reported, and the records are not complete", () => {
    store().save(1, { namespace: "n", attachments: [], policies: [policy("p")] });
    const text = readFileSync(`${directory}/retained/1.json`, "utf8");
    // A buffer of the largest size for each of the files would take too much memory.
    const small = store({ ...realFileSystem, readSmallFile: (path) => realFileSystem.readSmallFile(path, 4096) });
    for (let number = 2; number <= 1024; number++) writeFileSync(`${directory}/retained/${number}.json`, text);
    assert.equal(small.load().isWhole, true);
    assert.deepEqual(logger.lines, []);
    for (const number of [1025, 1026]) writeFileSync(`${directory}/retained/${number}.json`, text);
    const { records, isWhole, lastNumber } = small.load();
    assert.deepEqual([records.size, isWhole, lastNumber], [1024, false, 1026]);
    assert.equal(logger.lines.length, 1);
    assert.match(JSON.stringify(logger.lines), /2 files more than 1024/);
  });

  it("POL-58: a directory that cannot be listed is reported, and the records are not complete", () => {
    writeFileSync(`${directory}/retained`, "");
    assert.equal(store().load().isWhole, false);
    assert.equal(logger.lines.length, 1);
  });

  it("POL-58: if a record cannot be saved, its older form is not read later, and the records are not complete", () => {
    store().save(1, { namespace: "n", attachments: [], policies: [policy("old")] });
    const blocks = Array.from({ length: 60_000 }, (_, i) => ({ ipBlock: { cidr: `10.${i >> 8}.${i & 255}.0/24` } }));
    const large = policy("large", { ingress: [{ from: blocks }] });
    store().save(1, { namespace: "n", attachments: [], policies: [large, large] });
    assert.equal(logger.lines.length, 1);
    assert.deepEqual(store().load(), { records: new Map(), isWhole: false, lastNumber: 1 });
    assert.equal(logger.lines.length, 2);
    store().remove(1);
    assert.equal(store().load().isWhole, true);
  });
});
