import assert from "node:assert/strict";
import fc from "fast-check";
import { bytesOf, type JsonObject, type NetworkList, readList } from "../../../../policyd/installation/list_text.ts";
import { mergeList, type OwnPart, withoutOwnPart } from "../../../../policyd/installation/merged_list.ts";
import { freshText, listValues, ownPartNamed } from "../../../support/installation/own_part.ts";

const ISTIO = { type: "istio-cni", name: "istio-cni", log_level: "info" };
const PORTMAP = { type: "portmap", capabilities: { portMappings: true } };

function listOf(text: string): NetworkList {
  const list = readList(Buffer.from(text));
  assert.ok(!("unreadable" in list), JSON.stringify(list));
  return list;
}

function merged(text: string, own: OwnPart): ReturnType<typeof mergeList> & { readonly utf8: string } {
  const result = mergeList(listOf(text), own);
  return { ...result, utf8: Buffer.from(bytesOf(result.text)).toString("utf8") };
}

function typesOf(text: string): readonly string[] {
  return listOf(text).entries.map(({ type }) => type);
}

/** Appends an entry like a program that parses the whole list and writes it again. */
function appended(text: string, ...entries: readonly JsonObject[]): string {
  const value = listValues(text);
  return JSON.stringify({ ...value, plugins: [...value.plugins, ...entries] });
}

describe("policyd/installation: the merged list", () => {
  const own = ownPartNamed("drawbridge", { mtu: 1450 });

  it("CHAIN-01: a list to which another program has appended its entry is in place, however it is formatted", () => {
    const fresh = freshText(own);
    assert.equal(merged(fresh, own).isInPlace, true);
    const theirs = appended(fresh, ISTIO);
    const result = merged(theirs, own);
    assert.equal(result.isInPlace, true);
    assert.deepEqual(typesOf(result.utf8), ["drawbridge", "istio-cni"]);
    // JSON takes each of these for white space, whatever YAML makes of it.
    for (const blank of ["\r", "\r\n", "\n", "\t", "\n\t\r "]) {
      const text = theirs.replaceAll(/(?<=[[{,:])|(?=[\]},:])/g, blank);
      assert.deepEqual(typesOf(text), ["drawbridge", "istio-cni"], JSON.stringify(text));
    }
  });

  it("CHAIN-01: when our entry changes, foreign entries and unknown members keep their bytes and their order", () => {
    const first = '{ "type" : "first", "n": 12345678901234567890, "n": 1.0, "deep": [[{"x":"\\u00e9 ü ]}"}]] }';
    const last = '{"type":"last","e":1E400,"s":"\\"}, {"}';
    const text =
      `{ "disableCheck" : true,\n"x-big": 9007199254740993, "plugins": [${first}, {"type":"drawbridge","mtu":1}, ${last}],` +
      ' "name": "other", "x-\\u0079": {"a":1,"a":2}, "cniVersion": "0.3.1" }';
    const result = merged(text, own);
    assert.equal(result.isInPlace, false);
    for (const kept of [
      first,
      last,
      '"disableCheck" : true',
      '"x-big": 9007199254740993',
      '"x-\\u0079": {"a":1,"a":2}',
    ]) {
      assert.ok(result.utf8.includes(kept), `${kept} is not in ${result.utf8}`);
    }
    assert.deepEqual(typesOf(result.utf8), ["first", "drawbridge", "last"]);
    const list = listOf(result.utf8);
    assert.deepEqual([list.name, list.cniVersion, list.cniVersions], ["drawbridge", "1.0.0", ["1.0.0", "1.1.0"]]);
    assert.equal(merged(result.utf8, own).isInPlace, true);
  });

  it("CHAIN-01: bytes of foreign entries that are not UTF-8 stay unchanged", () => {
    const data = Buffer.from('{"plugins":[{"type":"x","s":"\xff\xe9"}]}', "latin1");
    const list = readList(data);
    assert.ok(!("unreadable" in list));
    const { text } = mergeList(list, own);
    assert.ok(Buffer.from(bytesOf(text)).includes(Buffer.from('{"type":"x","s":"\xff\xe9"}', "latin1")));
  });

  it("CHAIN-01: of a duplicate member the last value counts, as in runtimes, and only one is written", () => {
    const text = `{"name":"a","name":"drawbridge","plugins":[{"type":"lost"}],"plugins":[{"type":"kept"}]}`;
    const result = merged(text, own);
    assert.deepEqual(typesOf(result.utf8), ["drawbridge", "kept"]);
    assert.equal(result.utf8.match(/"plugins"/g)?.length, 1);
    assert.equal(result.utf8.match(/"name"/g)?.length, 1);
  });

  it("CHAIN-01: our entry is put first if it is missing, and a second one is removed", () => {
    assert.deepEqual(typesOf(merged('{"plugins":[{"type":"a"},{"type":"b"}]}', own).utf8), ["drawbridge", "a", "b"]);
    const twice = '{"plugins":[{"type":"a"},{"type":"drawbridge"},{"type":"b"},{"type":"drawbridge"}]}';
    assert.deepEqual(typesOf(merged(twice, own).utf8), ["a", "drawbridge", "b"]);
  });

  it("CHAIN-01: a text that no runtime accepts is not a list", () => {
    for (const text of [
      "",
      " ",
      "{",
      "[]",
      "1",
      "null",
      '"x"',
      '{"plugins":{}}',
      '{"plugins":null}',
      "\ufeff{}",
      "{}x",
    ]) {
      assert.ok("unreadable" in readList(Buffer.from(text)), text);
    }
    const many = JSON.stringify({ plugins: Array.from({ length: 65 }, () => ({ type: "x" })) });
    assert.ok("unreadable" in readList(Buffer.from(many)));
    const list = listOf('{"plugins":[1,null,[],{"kind":"x"},{"type":""},{"type":"x"}]}');
    assert.deepEqual([list.entries.length, list.unusable], [1, 5]);
    assert.deepEqual(typesOf(mergeList(list, own).text), ["drawbridge", "x"]);
  });

  it("CHAIN-04: entries of cniChain follow ours directly, and go when the configuration no longer has them", () => {
    const chained = { ...own, chain: [PORTMAP, { type: "tuning", sysctl: { "net.core.somaxconn": "500" } }] };
    const before = appended(freshText(own), ISTIO);
    const added = merged(before, chained);
    assert.deepEqual(typesOf(added.utf8), ["drawbridge", "portmap", "tuning", "istio-cni"]);
    assert.equal(merged(added.utf8, chained).isInPlace, true);
    const fewer = merged(added.utf8, { ...own, chain: [PORTMAP] });
    assert.deepEqual(typesOf(fewer.utf8), ["drawbridge", "portmap", "istio-cni"]);
    assert.deepEqual(typesOf(merged(fewer.utf8, own).utf8), ["drawbridge", "istio-cni"]);
  });

  it("CHAIN-04: another program's entry stays, and the entry of cniChain with the same type is omitted", () => {
    const chained = { ...own, chain: [PORTMAP] };
    const theirs = { type: "portmap", snat: false };
    for (const before of [appended(freshText(own), theirs), appended(freshText(chained), theirs)]) {
      const result = merged(before, chained);
      assert.deepEqual(result.taken, ["portmap"]);
      assert.deepEqual(typesOf(result.utf8), ["drawbridge", "portmap"]);
      assert.ok(result.utf8.includes('"snat":false'));
      assert.deepEqual(typesOf(merged(result.utf8, own).utf8), ["drawbridge", "portmap"]);
    }
  });

  it("CHAIN-05: our entry leaves host ports and bandwidth to an entry that declares them, until that entry is gone", () => {
    const capabilities = (text: string): unknown =>
      listOf(text).entries.find(({ type }) => type === "drawbridge")?.value;
    for (const chain of [[PORTMAP], []]) {
      const before = chain.length > 0 ? freshText(own) : appended(freshText(own), PORTMAP);
      const result = merged(before, { ...own, chain });
      assert.deepEqual(result.yielded, ["portMappings"]);
      assert.deepEqual(capabilities(result.utf8), {
        ...own.entry,
        capabilities: { bandwidth: true, ips: true, mac: true },
      });
    }
    const both = merged(appended(freshText(own), { type: "bandwidth", capabilities: { bandwidth: true } }), own);
    assert.deepEqual(capabilities(both.utf8), {
      ...own.entry,
      capabilities: { ips: true, mac: true, portMappings: true },
      bypassBridge: false,
    });
    const gone = JSON.stringify({ ...JSON.parse(both.utf8), plugins: [capabilities(both.utf8)] });
    assert.deepEqual(capabilities(merged(gone, own).utf8), own.entry);
  });

  it("UNINSTALL-01: without our part a list remains only if another plugin stands before ours", () => {
    assert.equal(withoutOwnPart(listOf(freshText({ ...own, chain: [PORTMAP] }))), undefined);
    assert.equal(withoutOwnPart(listOf(appended(freshText(own), ISTIO))), undefined);
    const text = '{"name":"x","y":1,"plugins":[{"type":"bridge"},{"type":"drawbridge"},{"type":"istio-cni"}]}';
    const rest = withoutOwnPart(listOf(text)) ?? "";
    assert.deepEqual(JSON.parse(rest), { name: "x", y: 1, plugins: [{ type: "bridge" }, { type: "istio-cni" }] });
  });

  it("CHAIN-03: for any order of our edits and other programs' edits, all converge and no entry is lost", () => {
    const step = fc.record({ who: fc.nat(3), what: fc.constantFrom("read", "write", "leave", "harm") });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.boolean(), (steps, hasChain) => {
        const world = new World(hasChain ? { ...own, chain: [{ type: "tuning" }] } : own);
        for (const { who, what } of steps) world.step(who, what);
        const turns = world.settle();
        assert.ok(turns < 10, `no end after ${turns} turns: ${world.text}`);
        const list = listOf(world.text);
        assert.equal(mergeList(list, world.own).isInPlace, true);
        for (const program of world.programs) {
          const found = list.entries.filter(({ type }) => type === program.entry.type).map(({ value }) => value);
          assert.deepEqual(found, program.isHere ? [program.entry] : []);
        }
      }),
      { numRuns: 200 },
    );
  });
});

type Program = {
  readonly entry: JsonObject & { readonly type: string };
  /** Whether the program writes after every foreign change, or only when its entry is missing. */
  readonly isEager: boolean;
  isHere: boolean;
  read: string;
  last: string;
};

/**
 * A file, our daemon, and programs that append their entry like istio-cni and linkerd-cni.
 * None of the programs reads the file again before it writes.
 */
class World {
  readonly own: OwnPart;
  readonly programs: Program[] = [
    { entry: ISTIO, isEager: false, isHere: true, read: "", last: "" },
    { entry: { type: "linkerd-cni", log_level: "info" }, isEager: true, isHere: true, read: "", last: "" },
    { entry: { type: "sbr" }, isEager: false, isHere: false, read: "", last: "" },
  ];
  text: string;
  #read = "";

  constructor(own: OwnPart) {
    this.own = own;
    this.text = freshText(own);
  }

  step(who: number, what: "read" | "write" | "leave" | "harm"): void {
    const program = this.programs[who];
    if (what === "harm") this.text = HARMS[this.text.length % HARMS.length]?.(this.text) ?? this.text;
    else if (program === undefined) this.#daemon(what);
    else if (what === "read") program.read = this.text;
    else if (what === "leave") this.#leave(program);
    else if (program.isHere && program.read !== "") this.#append(program, program.read);
  }

  /** Lets every program run until none writes. @returns the number of turns */
  settle(): number {
    for (let turn = 0; turn < 20; turn++) {
      const before = this.text;
      this.#daemon("read");
      this.#daemon("write");
      for (const program of this.programs) {
        if (!program.isHere) continue;
        const isMissing = !typesOf(this.text).includes(program.entry.type);
        if (program.isEager ? this.text !== program.last : isMissing) this.#append(program, this.text);
      }
      if (this.text === before) return turn;
    }
    return 20;
  }

  /** Reads, or writes if the file is unchanged since it was read. */
  #daemon(what: string): void {
    if (what === "read") this.#read = this.text;
    else if (this.#read === this.text) {
      const result = mergeList(listOf(this.text), this.own);
      if (!result.isInPlace) this.text = result.text;
    }
  }

  #append(program: Program, text: string): void {
    const value = listValues(text);
    const others = value.plugins.filter(({ type }) => type !== program.entry.type);
    const sorted = Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
    this.text = JSON.stringify({ ...sorted, plugins: [...others, program.entry] }, undefined, 2);
    program.last = this.text;
  }

  #leave(program: Program): void {
    program.isHere = false;
    const value = listValues(this.text);
    const plugins = value.plugins.filter(({ type }) => type !== program.entry.type);
    // A stale read must not restore the entry, since the process has ended.
    program.read = "";
    for (const other of this.programs) other.read = "";
    this.text = JSON.stringify({ ...value, plugins });
  }
}

const HARMS: readonly ((text: string) => string)[] = [
  (text) => text.replace('"drawbridge"', '"k8s-pod-network"'),
  (text) => text.replace('"1.0.0"', '"0.3.1"'),
  (text) => text.replace("1450", "1500"),
  (text) => JSON.stringify({ ...JSON.parse(text), unknown: { a: 1 } }),
];
