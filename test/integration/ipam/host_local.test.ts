import assert from "node:assert/strict";
import { readFileSync, readdirSync, statSync } from "node:fs";
import type { RangeInput } from "../../../ipam/range.ts";
import { useTemporaryDirectory } from "../../support/ipam/address_store.ts";
import { HostLocal, heldAddresses, NETWORK, ourAdd, ours, pod, SMALL } from "../../support/ipam/host_local.ts";
import { requirePeer } from "../../support/cni/peer.ts";

/** Returns the mode and content of every file in the network's directory. */
function tree(directory: string): Readonly<Record<string, string>> {
  const base = `${directory}/${NETWORK}`;
  const show = (path: string) => `${(statSync(path).mode & 0o777).toString(8)} ${readFileSync(path, "utf8")}`;
  const files = readdirSync(base).sort();
  const own = (statSync(base).mode & 0o777).toString(8);
  return { ".": own, ...Object.fromEntries(files.map((name) => [name, show(`${base}/${name}`)])) };
}

describe("the store beside Go's host-local", () => {
  const base = useTemporaryDirectory();
  let executable = "";

  before(function () {
    executable = `${requirePeer(this)}/host-local`;
  });

  const go = (directory = base()) => new HostLocal(executable, directory);

  it("I1: the store leaves the same files, contents and modes as Go's host-local, including the lock", async () => {
    const [theirs, mine] = [`${base()}/go`, `${base()}/drawbridge`];
    const peer = go(theirs);
    const store = ours(mine);
    for (const n of [1, 2, 3]) {
      assert.deepEqual(await peer.call("ADD", SMALL, pod(n)), ourAdd(store, SMALL, pod(n)));
    }
    await peer.call("DEL", SMALL, pod(2));
    store.release(pod(2));
    assert.deepEqual(tree(mine), tree(theirs));
    assert.match(tree(mine)["lock"] ?? "", /^750 $/);
  });

  it("I1: the store names IPv6 files as Go's host-local does", async () => {
    const sets = [[{ subnet: "2001:db8::/32", rangeStart: "2001:db8::1" }]];
    const [theirs, mine] = [`${base()}/go`, `${base()}/drawbridge`];
    const awkward = [
      "2001:db8:0:1:0:0:1:0",
      "2001:db8:0:1:1:1:1:1",
      "2001:db8:0:0:1:0:0:1",
      "2001:db8:a:0:0:1::",
      "2001:db8:0:0:0:0:a00:1",
      "2001:db8:1:2:3:4:5:6",
      "2001:db8:0:1:0:1:0:1",
    ];
    for (const [n, address] of awkward.entries()) {
      const outcome = await go(theirs).call("ADD", sets, pod(n), [address]);
      assert.deepEqual(outcome, ourAdd(ours(mine), sets, pod(n), [address]));
    }
    assert.deepEqual(heldAddresses(mine), heldAddresses(theirs));
    assert.equal(heldAddresses(mine).length, awkward.length);
  });

  it("I2: the store and Go's host-local find and release what the other has reserved", async () => {
    const store = ours(base());
    const four = ourAdd(store, SMALL, pod(1));
    assert.ok("ips" in four && four.ips.length === 2);
    assert.deepEqual(await go().call("CHECK", SMALL, pod(1)), { ips: [] });
    assert.deepEqual(await go().call("DEL", SMALL, pod(1)), { ips: [] });
    assert.deepEqual(heldAddresses(base()), []);
    const given = await go().call("ADD", SMALL, pod(2));
    assert.ok("ips" in given);
    assert.deepEqual(given.ips, ["10.1.2.3/28", "fd00:1::3/124"], "each continues where the other stopped");
    assert.equal(store.release(pod(2)).length, 2);
    assert.deepEqual(heldAddresses(base()), []);
    const refused = await go().call("CHECK", SMALL, pod(2));
    assert.ok("refused" in refused);
  });

  const refusals: readonly (readonly [string, readonly (readonly RangeInput[])[], number, readonly string[]])[] = [
    ["I4: the same owner twice", SMALL, 1, []],
    ["I6: a taken address", SMALL, 5, ["10.1.2.2"]],
    ["I6: a taken address of the second set", SMALL, 5, ["fd00:1::2"]],
    ["I6: a gateway", SMALL, 5, ["10.1.2.1"]],
    ["I6: an address outside", SMALL, 5, ["10.1.3.1"]],
    ["I6: two addresses of one set", SMALL, 5, ["10.1.2.4", "10.1.2.5"]],
    ["I5: a full range set of two ranges", [[{ subnet: "10.3.0.0/30" }, { subnet: "10.3.1.0/30" }]], 5, []],
  ];
  for (const [name, sets, n, requested] of refusals) {
    it(`${name} is refused with the message of Go's host-local`, async () => {
      const store = ours(base());
      ourAdd(store, SMALL, pod(1));
      if (sets !== SMALL) for (const other of [11, 12]) ourAdd(store, sets, pod(other));
      const theirs = await go().call("ADD", sets, pod(n), requested);
      const mine = ourAdd(store, sets, pod(n), requested);
      assert.ok("refused" in theirs && "refused" in mine);
      // Go's map yields several requested addresses in any order, so its message names any of the others.
      const anyOf = (text: string): string =>
        requested.length < 2 ? text : requested.reduce((rest, address) => rest.replaceAll(address, "ANY"), text);
      assert.ok(anyOf(mine.refused).startsWith(anyOf(theirs.refused)), `${mine.refused}\n${theirs.refused}`);
    });
  }
});
