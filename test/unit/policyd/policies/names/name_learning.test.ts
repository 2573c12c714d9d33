import assert from "node:assert/strict";
import { type Address, formatAddress, parseAddress } from "../../../../../kernel/ip/address.ts";
import type { Change } from "../../../../../kernel/nftables/encode/change.ts";
import { loggerOf } from "../../../../../policyd/log/logger.ts";
import { knownElement, nameSets } from "../../../../../policyd/policies/compile/name_rules.ts";
import { nameGroup } from "../../../../../policyd/policies/compile/peer_groups.ts";
import type { NamedPod } from "../../../../../policyd/policies/live/policy_view.ts";
import { NameLearning, type NameLearningParts } from "../../../../../policyd/policies/names/name_learning.ts";
import { FakeClock } from "../../../../support/fake_clock.ts";

const POD = parseAddress("10.244.1.7");
const REMOTE = parseAddress("203.0.113.7");
const GROUP = nameGroup(["*.example.com"]);
const OTHER = nameGroup(["*.example.org"]);
const CONTAINER = "0123456789abcdef0123";

function pod(container = CONTAINER): NamedPod {
  return { container, podKey: "x/a", addresses: [POD], groups: [GROUP] };
}

/** Returns changes of elements as `add elements 203.0.113.7`. */
function texts(changes: readonly Change[]): readonly string[] {
  return changes.flatMap((change) =>
    "elements" in change
      ? change.elements.map(({ key }) => `${change.kind} ${formatAddress(key[1] as Address)}`)
      : change.kind,
  );
}

describe("addresses of names over a restart of the daemon", () => {
  /** Starts a daemon that finds an address which a pod knows by a name. */
  async function started(pods: () => readonly NamedPod[]) {
    const commits: (readonly Change[])[] = [];
    const set = nameSets(GROUP)[4];
    const found = knownElement(POD, REMOTE, { container: CONTAINER, name: "api.example.com" }, 60_000);
    const kernel: Pick<NameLearningParts["kernel"], "elements"> = {
      elements: (_, { name }) => (name === set.name ? [found] : []),
    };
    const learning = new NameLearning({
      group: 108,
      namedPods: pods,
      isOfCluster: () => false,
      kernel: { ...kernel, sets: () => [{ name: "known4" }, { name: set.name }] as never },
      ruleset: { commitBeside: (changes) => void (changes.length > 0 && commits.push(changes)) },
      clock: new FakeClock(),
      logger: loggerOf("error", () => assert.fail("nothing fails")),
    });
    await learning.prepare();
    return { learning, commits };
  }

  it("NAME-11: a connection that a pod began by a name is allowed after a restart, and the kernel's own times stay", async () => {
    const { learning, commits } = await started(() => [pod()]);
    assert.equal(learning.isKnownBy(GROUP.names, POD, REMOTE), true);
    assert.equal(learning.isKnownBy(OTHER.names, POD, REMOTE), false);
    learning.rulesInForce();
    learning.verdictsChanged({ addresses: "all", withFlows: "all" });
    assert.deepEqual([commits, learning.isKnownBy(GROUP.names, POD, REMOTE)], [[], true]);
  });

  it("NAME-01: a pod that gets the address of a former pod knows nothing of it", async () => {
    const { learning, commits } = await started(() => [pod("fedcba9876543210")]);
    learning.rulesInForce();
    assert.deepEqual(commits.map(texts), [["add elements 203.0.113.7", "delete elements 203.0.113.7"]]);
    assert.equal(learning.isKnownBy(GROUP.names, POD, REMOTE), false);
  });

  it("NAME-01: what a pod knew goes with it, before another pod has its address", async () => {
    let pods: readonly NamedPod[] = [pod()];
    const { learning, commits } = await started(() => pods);
    learning.rulesInForce();
    pods = [{ ...pod("other"), addresses: [parseAddress("10.244.1.8")] }];
    learning.rulesInForce();
    assert.deepEqual(commits.map(texts), [["add elements 203.0.113.7", "delete elements 203.0.113.7"]]);
    assert.equal(learning.isKnownBy(GROUP.names, POD, REMOTE), false);
  });
});
