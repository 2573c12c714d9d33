import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync } from "node:fs";
import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import { listAttachments, readAttachment, type UnreadableAttachment } from "../../../attachment/attachment_reader.ts";
import { removeAttachment, writeAttachment } from "../../../attachment/attachment_writer.ts";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { parseMac } from "../../../kernel/ip/mac.ts";
import { RECORDED_HOST } from "../../support/cni/attachment_record.ts";
import {
  failingFileSystem,
  type FileCall,
  Killed,
  killedFileSystem,
  realFileSystem,
  recordingFileSystem,
  useTemporaryDirectory,
  writeForeign,
} from "../../support/ipam/address_store.ts";

const NETWORK = "podnet";

const RECORD: AttachmentRecord = {
  version: 1,
  bootId: "0b7a3c1e-8a52-4f0e-9a53-5f4f3c5d2f11",
  network: NETWORK,
  dataDir: "/var/lib/cni/networks",
  bridge: "cni0",
  containerId: "c0ffee",
  ifname: "eth0",
  netns: { path: "/run/netns/pod-a", inode: "18446744073709551615" },
  pod: { namespace: "default", name: "web-0", uid: "6a4a" },
  addresses: [parseCidr("10.1.2.2/32"), parseCidr("2001:db8:1::2/128")],
  mac: parseMac("0a:58:0a:01:02:02"),
  hostInterface: "dbv0123456789ab",
  hostMac: parseMac("ae:00:00:00:00:01"),
  portMappings: [
    { hostPort: 8080, containerPort: 80, protocol: "tcp" },
    { hostPort: 53, containerPort: 5353, protocol: "udp", hostIp: parseAddress("fd00::1") },
  ],
  ipMasq: true,
  macspoofchk: false,
  bandwidth: { ingressRate: 1_000_000, ingressBurst: 4_294_967_295, egressRate: 0, egressBurst: 0 },
  policyd: { serviceCidrs: [parseCidr("10.96.0.0/12")], nonMasqueradeCidrs: [parseCidr("fd00:244::/32")] },
  host: RECORDED_HOST,
};

describe("ipam/attachment", () => {
  const base = useTemporaryDirectory();
  const directory = () => `${base()}/attachments/${NETWORK}`;
  const path = () => `${directory()}/c0ffee:eth0.json`;

  /** Reads the record. @returns it, and what is reported about an unreadable one */
  function read(): {
    readonly record: AttachmentRecord | undefined;
    readonly reported: readonly UnreadableAttachment[];
  } {
    const reported: UnreadableAttachment[] = [];
    const record = readAttachment(base(), NETWORK, RECORD, realFileSystem, (unreadable) => reported.push(unreadable));
    return { record, reported };
  }

  function readText(text: string): ReturnType<typeof read> {
    mkdirSync(directory(), { recursive: true });
    writeForeign(path(), text);
    return read();
  }

  it("a record is read as it was written, has its modes, and no other file is left", () => {
    writeAttachment(base(), RECORD, realFileSystem);
    assert.deepEqual(read(), { record: RECORD, reported: [] });
    assert.deepEqual(readdirSync(directory()), ["c0ffee:eth0.json"]);
    assert.equal(statSync(path()).mode & 0o777, 0o600);
    for (const made of [directory(), `${base()}/attachments`]) assert.equal(statSync(made).mode & 0o777, 0o700);
  });

  it("a record torn at any byte is undefined with a reason", () => {
    writeAttachment(base(), RECORD, realFileSystem);
    const text = readFileSync(path(), "utf8");
    for (let length = 0; length < text.length; length++) {
      const { record, reported } = readText(text.slice(0, length));
      assert.equal(record, undefined, `${length} bytes`);
      assert.match(reported[0]?.reason ?? "", /^no JSON in \d+ characters$/);
    }
    assert.deepEqual(readText(text).record, RECORD);
  });

  const encoded = () => {
    writeAttachment(base(), RECORD, realFileSystem);
    return readFileSync(path(), "utf8");
  };

  const hostile: readonly (readonly [string, string, string])[] = [
    ["another version", '"version":1', '"version":2'],
    ["an invalid network", "10.96.0.0/12", "10.96.0.0"],
    ["networks that are not a list", '["10.96.0.0/12"]', '"10.96.0.0/12"'],
    ["too many networks", '["fd00:244::/32"]', JSON.stringify(Array.from({ length: 257 }, () => "fd00::/32"))],
    ["an invalid address", "10.1.2.2/32", "10.1.2.2"],
    ["a group MAC address", "0a:58:0a:01:02:02", "01:58:0a:01:02:02"],
    ["a port out of range", "8080", "65536"],
    ["a port with a fraction", "8080", "80.5"],
    ["an unknown protocol", '"tcp"', '"icmp"'],
    ["a rate below zero", '"ingressRate":1000000', '"ingressRate":-1'],
    ["a host interface that is a path", "dbv0123456789ab", "../cni/eth0"],
    ["a host interface with a foreign name", "dbv0123456789ab", "eth0"],
    ["a host interface that no rule could hold", "dbv0123456789ab", 'dbvweb-0\\";flush'],
    ["a bridge that is a path", '"bridge":"cni0"', '"bridge":"../cni/cni0"'],
    ["a relative directory", '"dataDir":"/var/', '"dataDir":"var/'],
    ["a directory that leads elsewhere", '"dataDir":"/var/lib', '"dataDir":"/var/../etc'],
    ["another container", '"containerId":"c0ffee"', '"containerId":"decaf"'],
    ["another network", '"network":"podnet"', '"network":"other"'],
    ["another interface", '"ifname":"eth0"', '"ifname":"eth1"'],
    ["a missing field", '"mac":', '"cam":'],
    ["a list where an object should be", '"pod":{"namespace":"default","name":"web-0","uid":"6a4a"}', '"pod":[]'],
    ["null where an object should be", '"netns":{', '"netns":null,"x":{'],
    ["deep nesting in a field", '"version":1', `"version":${"[".repeat(20_000)}${"]".repeat(20_000)}`],
  ];
  for (const [name, from, to] of hostile) {
    it(`a record with ${name} is refused with a reason and without an exception`, () => {
      const text = encoded();
      assert.ok(text.includes(from));
      const { record, reported } = readText(text.replace(from, to));
      assert.equal(record, undefined);
      assert.equal(reported[0]?.path, path());
      assert.ok(
        (reported[0]?.reason ?? "").length > 0 && (reported[0]?.reason ?? "").length < 400,
        reported[0]?.reason,
      );
    });
  }

  it("keys that name prototypes change nothing and are dropped", () => {
    const evil = '"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},';
    const { record } = readText(encoded().replace("{", `{${evil}`).replace('"netns":{', `"netns":{${evil}`));
    assert.deepEqual(record, RECORD);
    assert.ok(record !== undefined && !("polluted" in record) && !("polluted" in {}));
    assert.equal(readText('{"__proto__":' + encoded() + "}").record, undefined, "fields are not inherited");
  });

  it("a record that is not a small regular file is not read", () => {
    assert.match(readText(`${encoded()}${" ".repeat(64 * 1024)}`).reported[0]?.reason ?? "", /at most 65536 bytes/);
    removeAttachment(base(), NETWORK, RECORD, realFileSystem);
    symlinkSync("/dev/zero", path());
    assert.match(read().reported[0]?.reason ?? "", /not a regular file/);
    removeAttachment(base(), NETWORK, RECORD, realFileSystem);
    mkdirSync(path());
    assert.match(read().reported[0]?.reason ?? "", /not a regular file/);
  });

  it("a record too large to be read again is not written", () => {
    const mapping = { hostPort: 60_000, containerPort: 60_000, protocol: "sctp" } as const;
    const portMappings = Array.from({ length: 2000 }, () => mapping);
    assert.throws(() => writeAttachment(base(), { ...RECORD, portMappings }, realFileSystem), {
      code: "ERR_CONFIGURATION",
    });
    assert.deepEqual(readdirSync(base()), []);
    writeAttachment(base(), { ...RECORD, portMappings: portMappings.slice(0, 500) }, realFileSystem);
    assert.equal(read().record?.portMappings.length, 500);
  });

  it("names that leave the directory or are ambiguous are refused, and the longest name fits", () => {
    for (const names of [
      { containerId: "a/b" },
      { containerId: ".." },
      { containerId: "a:b" },
      { containerId: "a".repeat(201) },
      { ifname: "a:b" },
      { ifname: ".." },
      { network: "../cni/x" },
      { network: "" },
    ]) {
      assert.throws(() => writeAttachment(base(), { ...RECORD, ...names }, realFileSystem), {
        code: "ERR_CONFIGURATION",
      });
      const { network, ...owner } = { network: NETWORK, containerId: "a", ifname: "b", ...names };
      assert.throws(() => readAttachment(base(), network, owner, realFileSystem), { code: "ERR_CONFIGURATION" });
      assert.throws(() => removeAttachment(base(), network, owner, realFileSystem), { code: "ERR_CONFIGURATION" });
    }
    assert.deepEqual(readdirSync(base()), []);
    const longest = { containerId: "a".repeat(200), ifname: "e".repeat(15) };
    writeAttachment(base(), { ...RECORD, ...longest }, realFileSystem);
    assert.deepEqual(readAttachment(base(), NETWORK, longest, realFileSystem), { ...RECORD, ...longest });
  });

  it("a list has the records and the unreadable files, without unfinished writes", () => {
    const second = { ...RECORD, containerId: "decaf" };
    writeAttachment(base(), second, realFileSystem);
    writeAttachment(base(), RECORD, realFileSystem);
    writeAttachment(base(), { ...RECORD, network: "other" }, realFileSystem);
    writeForeign(`${directory()}/.c0ffee:eth0.json`, "{");
    writeForeign(`${directory()}/stray`, readFileSync(path(), "utf8"));
    writeForeign(`${directory()}/torn:eth0.json`, "");
    const { records, unreadable } = listAttachments(base(), NETWORK, realFileSystem);
    assert.deepEqual(records, [RECORD, second]);
    assert.deepEqual(
      unreadable.map(({ path: file }) => file),
      [`${directory()}/stray`, `${directory()}/torn:eth0.json`],
    );
  });

  describe("failures", () => {
    const NEW = { ...RECORD, bootId: "new" };
    const callsOfWrite = () => {
      const calls: FileCall[] = [];
      writeAttachment(base(), RECORD, recordingFileSystem(calls));
      return calls.length;
    };

    it("after SIGKILL before any call the old record stays, and a removal leaves nothing", () => {
      const count = callsOfWrite();
      for (let index = 0; index < count; index++) {
        writeAttachment(base(), RECORD, realFileSystem);
        assert.throws(() => writeAttachment(base(), NEW, killedFileSystem(index)), Killed);
        assert.deepEqual(read(), { record: RECORD, reported: [] }, `call ${index}`);
        assert.equal(removeAttachment(base(), NETWORK, RECORD, realFileSystem), true);
        assert.deepEqual(readdirSync(directory()), []);
      }
    });

    it("a second write after SIGKILL leaves a whole record", () => {
      assert.throws(() => writeAttachment(base(), RECORD, killedFileSystem(1)), Killed);
      assert.equal(readdirSync(directory()).length, 1);
      writeAttachment(base(), NEW, realFileSystem);
      assert.deepEqual(read().record, NEW);
      assert.deepEqual(readdirSync(directory()), ["c0ffee:eth0.json"]);
    });

    it("a write with one failing call fails with path and errno, and the old record stays", () => {
      const count = callsOfWrite();
      for (const code of ["ENOSPC", "EIO"] as const) {
        for (let index = 0; index < count; index++) {
          assert.throws(() => writeAttachment(base(), NEW, failingFileSystem(index, "once", code)), {
            code: "ERR_STORE",
            message: new RegExp(`${base()}.*${code}`),
          });
          assert.deepEqual(read().record, RECORD);
          assert.deepEqual(readdirSync(directory()), ["c0ffee:eth0.json"]);
        }
      }
    });
  });
});
