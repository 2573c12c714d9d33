import assert from "node:assert/strict";
import { readdirSync, writeFileSync } from "node:fs";
import { systemFileSystem } from "../../../ipam/file_system.ts";
import { listOriginals, type OriginalSettingsPlace, rememberingSysctl } from "../../../attachment/original_settings.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";
import type { Sysctl } from "../../../kernel/sysctl.ts";
import { fakeSysctl } from "../../support/fake_sysctl.ts";
import { useTemporaryDirectory } from "../../support/ipam/address_store.ts";

const KEY = "net/ipv4/conf/eth0.7/send_redirects";

describe("ipam: original values of kernel settings", () => {
  const base = useTemporaryDirectory();
  let place: OriginalSettingsPlace;
  let kernel: Map<string, string>;
  let sysctl: Sysctl;

  beforeEach(() => {
    place = { runDirectory: base(), files: systemFileSystem(nodeSyscalls()), bootId: () => "boot-1" };
    kernel = new Map([[KEY, "60"]]);
    sysctl = rememberingSysctl(fakeSysctl(kernel), place);
  });

  const remembered = (): readonly unknown[] => listOriginals(place).map(({ setting }) => setting);
  const directory = (): string => `${place.runDirectory}/settings`;

  it("SYSCTL-02: the value before our first change is kept over our further changes", () => {
    for (const value of ["3600", "7200", "3600"]) assert.ok(sysctl.write(KEY, value));
    assert.equal(kernel.get(KEY), "3600");
    assert.deepEqual(remembered(), [{ key: KEY, original: "60", ours: ["3600"] }]);
  });

  it("SYSCTL-02: a value that another program sets later becomes the original one", () => {
    sysctl.write(KEY, "3600");
    kernel.set(KEY, "120");
    sysctl.write(KEY, "3600");
    assert.deepEqual(remembered(), [{ key: KEY, original: "120", ours: ["3600"] }]);
  });

  it("SYSCTL-02: an unchanged value, and a setting that the kernel lacks, leave no record", () => {
    assert.ok(sysctl.write(KEY, "60"));
    assert.ok(!sysctl.write("net/ipv4/conf/gone/send_redirects", "0"));
    assert.deepEqual(remembered(), []);
  });

  it("SYSCTL-02: a process that dies before or after the write of a setting loses no original value", () => {
    sysctl.write(KEY, "3600");
    const dying = (isWritten: boolean): Sysctl => ({
      read: (key) => kernel.get(key),
      write: (key, value) => {
        if (isWritten) kernel.set(key, value);
        throw new Error("killed");
      },
    });
    for (const isWritten of [false, true]) {
      assert.throws(() => rememberingSysctl(dying(isWritten), place).write(KEY, "7200"), /killed/);
      assert.deepEqual(remembered(), [{ key: KEY, original: "60", ours: ["3600", "7200"] }]);
    }
    sysctl.write(KEY, "9000");
    assert.deepEqual(remembered(), [{ key: KEY, original: "60", ours: ["9000"] }]);
  });

  it("SYSCTL-02: a record of another boot is ignored", () => {
    sysctl.write(KEY, "3600");
    const later = { ...place, bootId: () => "boot-2" };
    assert.deepEqual(listOriginals(later), []);
    kernel.set(KEY, "60");
    rememberingSysctl(fakeSysctl(kernel), later).write(KEY, "3600");
    assert.equal(listOriginals(later).length, 1);
  });

  it("SYSCTL-02: only network settings are accepted from a record", () => {
    sysctl.write(KEY, "3600");
    const [name] = readdirSync(directory());
    for (const key of [
      "kernel/core_pattern",
      "net/../kernel/core_pattern",
      "net/ipv4/./x",
      "net/",
      "net/a b",
      "/net/x",
    ]) {
      const record = { version: 1, bootId: "boot-1", key, original: "|/bin/x", ours: ["core"] };
      writeFileSync(`${directory()}/${name}`, JSON.stringify(record));
      assert.deepEqual(remembered(), [undefined], key);
    }
    for (const text of ["", "{", "[]", '{"version":1}', "x".repeat(9000)]) {
      writeFileSync(`${directory()}/${name}`, text);
      assert.deepEqual(remembered(), [undefined], text.slice(0, 20));
    }
  });
});
