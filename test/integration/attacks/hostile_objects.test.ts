import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdirSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir, totalmem } from "node:os";
import path from "node:path";
import * as v from "valibot";
import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import { attachmentToJson } from "../../../attachment/attachment_writer.ts";
import { frame, FrameReader } from "../../../attachment/message_frame.ts";
import { askPolicyd } from "../../../attachment/policyd_client.ts";
import { parseReply, type PolicydReply, requestToJson } from "../../../attachment/policyd_messages.ts";
import { familyOf, formatAddress } from "../../../kernel/ip/address.ts";
import { linkLocalAddress } from "../../../kernel/ip/mac.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";
import { attachmentKey } from "../../../policyd/attachments/registry.ts";
import { affordableFragmentMemory } from "../../../policyd/node/conntrack_settings.ts";
import { GUARD_SETS } from "../../../policyd/node/tables/guard.ts";
import { nodeTables } from "../../../policyd/node/tables/tables.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../policyd/policies/compile/options.ts";
import { withVersion } from "../../../policyd/ruleset/schema.ts";
import type { Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { type DaemonProcess, startDaemon } from "../../support/daemon/policyd.ts";
import { NODE_CONFIGURATION } from "../../support/guard/guarded_node.ts";
import { hostileAttachment, plainAttachment } from "../../support/hostile/attachments.ts";
import { jsonFile, type ObjectText, pastedFile, yamlFile } from "../../support/hostile/objects.ts";
import { hostileStrings } from "../../support/hostile/strings.ts";
import { normalListing } from "../../support/nftables/listing.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { roundsFor } from "../../support/long_form.ts";
import { randomFrom } from "../../support/random.ts";
import { SERVICE_RULES } from "../../support/services/scenario.ts";

const TEXTS = roundsFor("hostile texts", 2000, 10_000);
/** How many of the texts go to each place. */
const SHARES = {
  json: TEXTS * 0.58,
  yaml: TEXTS * 0.04,
  pasted: TEXTS * 0.08,
  fileNames: TEXTS * 0.1,
  attachments: TEXTS * 0.2,
} as const;
const OBJECTS_PER_FILE = 20;
/** The most bytes that a file name can have. */
const LONGEST_NAME = 255;

const named = v.object({ family: v.string(), table: v.string(), name: v.string() });
const elementSchema = v.object({
  elem: v.object({ val: v.object({ concat: v.array(v.string()) }), comment: v.string() }),
});
/** One object of `nft -j list ruleset`. It is strict, so that an object of another kind is an error. */
const objectSchema = v.union([
  v.strictObject({ metainfo: v.unknown() }),
  v.strictObject({ table: v.object({ family: v.string(), name: v.string() }) }),
  v.strictObject({ chain: named }),
  v.strictObject({ rule: v.object({ family: v.string(), table: v.string(), chain: v.string(), expr: v.unknown() }) }),
  v.strictObject({ set: v.object({ ...named.entries, elem: v.optional(v.array(v.unknown()), []) }) }),
  v.strictObject({ map: v.object({ ...named.entries, elem: v.optional(v.array(v.unknown())) }) }),
]);
const guardedElements = v.array(elementSchema);
/** The sets that assign ports to pods: each of their elements belongs to an attachment. */
const GUARDED: ReadonlySet<string> = new Set(Object.values(GUARD_SETS).map(({ name }) => name));
const listingSchema = v.object({ nftables: v.array(objectSchema) });

describe("hostile texts in objects, file names and attachments", function () {
  this.timeout(300_000);
  const seed = Date.now() >>> 0;
  const mark = `drawbridge-owned-${process.pid}-${seed}`;
  let lab: Lab | undefined;
  let node: LabNamespace;
  let copy: LabNamespace;
  let base: string;
  let daemon: DaemonProcess;
  let startedAt: number;

  before(async function () {
    lab = suiteLab(this, "hostile");
    node = lab.namespace("node");
    copy = lab.namespace("copy");
    base = path.join(lab.scratch, "base");
    for (const name of ["objects", "staging", "state"]) mkdirSync(path.join(base, name), { recursive: true });
    startedAt = performance.now();
    daemon = startDaemon(socketPath(), [
      "--node-name=node-1",
      `--objects=${base}/objects`,
      `--state-directory=${base}/state`,
      `--network-namespace=${node.path}`,
    ]);
    const { child } = daemon;
    lab.atEnd(() => void child.kill("SIGKILL"));
    await daemon.statusWhen(({ isSynced }) => isSynced, "synced");
  });

  const socketPath = (): string => `${base}/run/policyd.sock`;

  it(`HOSTILE-01: ${TEXTS} hostile texts make no object in the kernel except those of valid attachments`, async () => {
    const random = randomFrom(seed);
    console.log(`      seed ${seed}`);
    const texts = hostileStrings(TEXTS, mark, random);
    const sharesOf = shares(texts);
    const first = plainAttachment(60_000);
    register(first);
    const { rules: rulesBefore } = listed(node);
    assert.ok(rulesBefore.length > 0);
    const names: string[] = [];
    const put = (name: string, text: string): void => {
      writeFileSync(`${base}/staging/new`, text);
      renameSync(`${base}/staging/new`, `${base}/objects/${name}`);
      names.push(name);
    };

    put("0-first.json", nodeObject("hostile"));
    // Attachments come before policies, because ADD waits for the Pod object of a pod that policies may select.
    const replies = await registerAll(sharesOf.attachments.map(hostileAttachment), socketPath());
    for (const [i, { extension, text }] of objectFiles(sharesOf).entries()) put(`objects-${i}.${extension}`, text);
    const visible = namedFiles(sharesOf.fileNames, put);
    put("zz-pod.json", podObject(first));
    put("zz-last.json", nodeObject("control"));
    const status = await daemon.statusWhen(({ objects }) => objects["Node"] === 2, "all files are read");

    const accepted = acceptedOf(replies);
    const refused = replies.filter(({ reply }) => reply.type === "refused");
    const temporary = refused.filter(({ reply }) => reply.type === "refused" && reply.isTemporary);
    assertSame(temporary.map(textOf), [], "refusals of an attachment that another attachment causes");
    assert.ok(
      accepted.length > TEXTS / 40 && refused.length > TEXTS / 40,
      `${accepted.length} accepted, ${refused.length} refused`,
    );
    assert.equal(status.attachments, accepted.length + 1);
    assert.ok(status.problemCount > TEXTS / 4, String(status.problemCount));
    assert.equal(status.problems.length, 20);
    for (const problem of status.problems) assertPrintable(problem);
    assert.ok((status.objects["Namespace"] ?? 0) >= visible, "files with strange names are read");

    const last = plainAttachment(60_001);
    register(last);
    assert.equal(daemon.child.exitCode, null);

    const { tables, rules, elements } = listed(node);
    const schema = nodeTables({
      ...NODE_CONFIGURATION,
      bridge: DEFAULT_POLICY_OPTIONS.bridge,
      services: SERVICE_RULES,
      masquerade: true,
      encapsulation: "auto",
      policyOptions: DEFAULT_POLICY_OPTIONS,
      fragmentMemory: affordableFragmentMemory(512, totalmem()),
      askedPorts: [9873, 10_256],
    }).map(withVersion);
    assert.deepEqual(
      tables,
      new Map(
        schema.map(({ family, name, chains, sets }) => [
          `${family} ${name}`,
          [...chains.map((chain) => `chain ${chain.name}`), ...sets.map((set) => `set ${set.name}`)].sort(),
        ]),
      ),
    );
    assertSame(rules, rulesBefore, "rules");
    assertSame(elements, expectedElements([first, ...accepted, last]), "elements");

    const listing = node.ruleset();
    copy.exec("nft", ["-f", "-"], listing);
    const again = copy.ruleset();
    assertSame(normalListing(again).split("\n"), normalListing(listing).split("\n"), "the listing loaded again");

    assertNoFile(names);
    assertLog(daemon.log(), accepted.length, (performance.now() - startedAt) / 1000);
  });

  /** Registers an attachment as the plugin does. */
  function register(attachment: AttachmentRecord): void {
    const request = { type: "register", attachment } as const;
    assert.equal(askPolicyd(nodeSyscalls(), socketPath(), request, 20_000).type, "done", "a pod is attached");
  }

  /** Asserts that the daemon made no file in its directories or where a path among the texts leads. */
  function assertNoFile(names: readonly string[]): void {
    assert.deepEqual(readdirSync(base).sort(), ["objects", "run", "staging", "state"]);
    assertSame(readdirSync(`${base}/objects`).sort(), [...new Set(names)].sort(), "files of objects");
    assert.deepEqual(readdirSync(`${base}/run`).sort(), ["policyd.sock", "policyd.sock.lock"]);
    const made = ["state", "staging"].flatMap((name) =>
      readdirSync(`${base}/${name}`, { recursive: true, encoding: "utf8" }),
    );
    // The daemon may keep the values that settings had before it changed them, and a mark that policies are enforced.
    const settings = /^(settings(\/net%2F[A-Za-z0-9_%]+\.json)?|policies-enforced)$/;
    assert.deepEqual(
      made.filter((name) => !settings.test(name)),
      [],
    );
    const above = ["/", "/tmp", "/run", "/var", "/var/lib", "/etc", tmpdir(), process.cwd(), path.dirname(base)];
    for (const directory of above) {
      const found = readdirSync(directory).filter((name) => name.includes("drawbridge-owned-") || name === "owned");
      assert.deepEqual(found, [], directory);
    }
  }
});

type Shares = Readonly<Record<keyof typeof SHARES, readonly string[]>>;

function shares(texts: readonly string[]): Shares {
  let start = 0;
  const take = (count: number): readonly string[] => texts.slice(start, (start += count));
  const { json, yaml, pasted, fileNames, attachments } = SHARES;
  return {
    json: take(json),
    yaml: take(yaml),
    pasted: take(pasted),
    fileNames: take(fileNames),
    attachments: take(attachments),
  };
}

function objectFiles({ json, yaml, pasted }: Shares): readonly ObjectText[] {
  const inGroups = (
    texts: readonly string[],
    make: (group: readonly string[], first: number) => ObjectText,
  ): readonly ObjectText[] =>
    Array.from({ length: texts.length / OBJECTS_PER_FILE }, (_, i) =>
      make(texts.slice(i * OBJECTS_PER_FILE, (i + 1) * OBJECTS_PER_FILE), i * OBJECTS_PER_FILE),
    );
  return [...inGroups(json, jsonFile), ...inGroups(yaml, yamlFile), ...pasted.map(pastedFile)];
}

/**
 * Makes files with the texts as their names, each with one valid namespace.
 *
 * @returns the number of files with names that the daemon reads objects from
 */
function namedFiles(texts: readonly string[], put: (name: string, text: string) => void): number {
  const names = new Set<string>();
  for (const [i, text] of texts.entries()) {
    const suffix = i % 10 === 0 ? "" : `${i}.json`;
    const room = LONGEST_NAME - suffix.length;
    const name = `${Buffer.from(text.replaceAll(/[/\0]/g, "_")).subarray(0, room).toString().replace(/�+$/, "")}${suffix}`;
    if (name === "" || name === "." || name === ".." || Buffer.byteLength(name) > LONGEST_NAME || names.has(name))
      continue;
    names.add(name);
    put(name, JSON.stringify({ apiVersion: "v1", kind: "Namespace", metadata: { name: `file-${i}` } }));
  }
  return [...names].filter(
    (name) => !name.startsWith(".") && name.endsWith(".json") && !/[\n\r\u2028\u2029]/.test(name),
  ).length;
}

/** The names of what policies add for pods: they are hashes and contain no text of strangers. */
const OF_POLICIES =
  /^(chain (egress|ingress)_[0-9a-f]{16,}(_[a-z_]+)?|set [a-z]+_[0-9a-f]{16,}(_v[46])?)$|^chain ports_\d+_\d+(_[0-9a-f]{16,})?$/;

function podObject({ pod }: AttachmentRecord): string {
  assert.ok(pod !== undefined);
  const { namespace, name } = pod;
  return JSON.stringify({ apiVersion: "v1", kind: "Pod", metadata: { namespace, name }, status: { phase: "Running" } });
}

function nodeObject(name: string): string {
  return JSON.stringify({ apiVersion: "v1", kind: "Node", metadata: { name } });
}

interface Registration {
  readonly record: AttachmentRecord;
  readonly reply: PolicydReply;
}

/** Registers attachments over one connection, as the plugin does over many. The daemon answers requests in order. */
async function registerAll(records: readonly AttachmentRecord[], socket: string): Promise<readonly Registration[]> {
  const client = connect(socket);
  const reader = new FrameReader();
  const replies: PolicydReply[] = [];
  client.on("data", (piece: Uint8Array) => {
    for (const text of reader.push(piece)) replies.push(parseReply(text));
    if (replies.length === records.length) client.end();
  });
  for (const attachment of records) client.write(frame(requestToJson({ type: "register", attachment })));
  await once(client, "close");
  assert.equal(replies.length, records.length, "every request has its reply");
  return records.flatMap((record, i) => {
    const reply = replies[i];
    return reply === undefined ? [] : [{ record, reply }];
  });
}

/** Returns the attachments that the daemon has accepted, and only the last of those with one name. */
function acceptedOf(registrations: readonly Registration[]): readonly AttachmentRecord[] {
  const byName = new Map<string, AttachmentRecord>();
  for (const { record, reply } of registrations) if (reply.type === "done") byName.set(attachmentKey(record), record);
  return [...byName.values()];
}

/** Returns the tables, rules and guarded elements of a namespace's ruleset, as nft lists them. */
function listed(namespace: LabNamespace) {
  const { nftables } = v.parse(listingSchema, JSON.parse(namespace.ruleset("-j")));
  const tables = new Map<string, string[]>();
  const rules: string[] = [];
  const elements: string[] = [];
  for (const object of nftables) {
    if ("table" in object) tables.set(`${object.table.family} ${object.table.name}`, []);
    if ("chain" in object)
      tables.get(`${object.chain.family} ${object.chain.table}`)?.push(`chain ${object.chain.name}`);
    if ("map" in object) tables.get(`${object.map.family} ${object.map.table}`)?.push(`set ${object.map.name}`);
    if ("rule" in object && !OF_POLICIES.test(`chain ${object.rule.chain}`))
      rules.push(JSON.stringify(object.rule).replaceAll(/"(packets|bytes)":\d+/g, ""));
    if ("set" in object) {
      const { family, table, name, elem } = object.set;
      tables.get(`${family} ${table}`)?.push(`set ${name}`);
      if (!GUARDED.has(name)) continue;
      elements.push(
        ...v
          .parse(guardedElements, elem)
          .map(({ elem: { val, comment } }) => `${name}: ${val.concat.join(" . ")} "${comment ?? ""}"`),
      );
    }
  }
  for (const [table, names] of tables) tables.set(table, names.filter((name) => !OF_POLICIES.test(name)).sort());
  return { tables, rules, elements: elements.sort() };
}

/** Returns the elements that attachments should have in {@link listed}, with `?` for every unsafe character. */
function expectedElements(attachments: readonly AttachmentRecord[]): readonly string[] {
  return attachments
    .flatMap(({ hostInterface, mac, addresses, pod, containerId }) => {
      const owner = pod === undefined ? containerId : `${pod.namespace}/${pod.name}`;
      const comment = owner.slice(0, 127).replaceAll(/[^A-Za-z0-9 ._:/=-]/g, "?");
      assert.match(hostInterface, /^dbv[A-Za-z0-9._:@-]{0,12}$/);
      const own = [...addresses.map(({ address }) => address), linkLocalAddress(mac)];
      return [
        `podmac: ${hostInterface} . ${mac} "${comment}"`,
        ...own.map(
          (address) => `pod${familyOf(address)}: ${hostInterface} . ${mac} . ${formatAddress(address)} "${comment}"`,
        ),
      ];
    })
    .sort();
}

const textOf = ({ record, reply }: Registration): string =>
  `${reply.type === "refused" ? reply.message : reply.type}: ${JSON.stringify(attachmentToJson(record))}`;

/** Compares long lists. The comparison that deepEqual makes for people would cost the square of their length. */
function assertSame(actual: readonly string[], expected: readonly string[], what: string): void {
  const only = (a: readonly string[], b: readonly string[]): readonly string[] => {
    const others = new Set(b);
    return a.filter((item) => !others.has(item)).map((item) => item.slice(0, 600));
  };
  const [unexpected, missing] = [only(actual, expected), only(expected, actual)];
  assert.ok(
    actual.length === expected.length && actual.every((item, i) => item === expected[i]),
    `${what}: ${unexpected.length} unexpected, ${missing.length} missing, such as ` +
      JSON.stringify([...unexpected.slice(0, 3), ...missing.slice(0, 3)], undefined, 1),
  );
}

function assertPrintable(line: string): void {
  assert.doesNotMatch(line, /[\p{C}\p{Zl}\p{Zp}]/u);
}

/** Refused requests, objects that are not used, and parts of Services that are not served: each a line a second at most. */
const KINDS_OF_WARNINGS = 3;

/**
 * Asserts that the log has one line for each attachment, a limited number of others and no control characters. Repeated
 * messages are spread over time, so a slow machine logs more of them; they keep their original time, so the lines do not
 * tell how long it took.
 *
 * @param seconds the time since the daemon was started
 */
function assertLog(log: string, attachments: number, seconds: number): void {
  const lines = log.trimEnd().split("\n");
  for (const line of lines) {
    assertPrintable(line);
    assert.match(line, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (info |warn |error) /);
  }
  const others = lines.filter((line) => !line.includes(" attachment registered "));
  assert.ok(lines.length - others.length <= attachments + SHARES.attachments, String(lines.length));
  const most = 80 + KINDS_OF_WARNINGS * seconds;
  assert.ok(others.length <= most, `${others.length} lines, such as ${others.slice(0, 10).join("\n")}`);
}
