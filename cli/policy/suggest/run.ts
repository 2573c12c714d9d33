import * as v from "valibot";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { printable } from "../../../objects/printable.ts";
import { standInAddresses } from "../../cluster/placeholder_addresses.ts";
import { ExitCode, type Io } from "../../io.ts";
import { daemonEntries } from "../../input/input_schema.ts";
import { foldLine } from "../../output/fold.ts";
import { readTables } from "../live/read_tables.ts";
import { clusterOf } from "../../cluster/cluster.ts";
import { serviceObjects } from "../../cluster/service_objects.ts";
import { policyInputEntries, readPolicyInput } from "../policy_input.ts";
import { doubtsOf, waysInto } from "../../ways_in/ways_in.ts";
import { askedConnections } from "./asked.ts";
import { suggest, type Suggestion } from "./suggest.ts";
import { DIRECTIONS } from "../../../objects/semantics/policies/flow.ts";
import { Document, isNode } from "yaml";

const optionsSchema = v.object({
  ...policyInputEntries,
  ...daemonEntries,
  live: v.boolean(),
  conntrack: v.optional(v.array(v.string()), []),
  ledger: v.optional(v.array(v.string()), []),
});

/** Prints policies. @throws DrawbridgeError ERR_INPUT as loadManifests and readTables */
export async function runSuggest(io: Io, options: unknown): Promise<ExitCode | string> {
  const { live, conntrack, ledger, ...input } = v.parse(optionsSchema, options);
  if (!live && conntrack.length === 0 && ledger.length === 0) {
    return "no connections to go by: give --live, or files with --conntrack or --ledger";
  }
  const { manifests, wayObjects, given, options: policyOptions, namespace } = await readPolicyInput(io, input);
  const addressed = standInAddresses();
  const placed = manifests.map((one) => ({ ...one, object: addressed(one.object) }));
  const cluster = clusterOf(placed, policyOptions);
  const { index } = cluster;
  const places = { isLive: live, files: conntrack, ledgers: ledger, access: input };
  const { connections, lost, remarks: period, isPartial } = await readTables(io, places, index);
  const services = serviceObjects(cluster);
  const ways = waysInto(wayObjects, cluster, services, given);
  const { asked, unknown: unknownWays } = askedConnections(cluster, services, ways, namespace);
  const suggestion = suggest(index, namespace, connections, asked, cluster.store.services);
  const { remarks, isNothingKnown } = suggestion;
  const texts = lost.filter((flow) => flow.namespace === namespace && !isNothingKnown).map(({ text }) => text);
  const omitted = [...suggestion.omitted, ...unknownWays, ...new Set(texts)];
  if (!isNothingKnown) io.out.write(policiesText(suggestion));
  const moment = `${period.join("; ")}: what happens at other times is not allowed`;
  const say = (text: string): void => io.err.write(foldLine(printable(text), io.err.columns, 0, 2));
  for (const text of isNothingKnown ? [moment] : [moment, ...remarks]) say(`note: ${text}`);
  const unknown = ways.unevaluated.filter(({ isFromOutside, backends }) => {
    return !isFromOutside && backends.some((backend) => backend.namespace === namespace);
  });
  for (const doubt of doubtsOf(unknown)) say(`note: ${doubt}; what was not seen of it is not allowed`);
  for (const text of omitted) say(`not allowed: ${text}`);
  if (isNothingKnown) {
    throw new DrawbridgeError(
      "ERR_INPUT",
      `no flow of namespace ${namespace} was seen and no object asks for one: no policy is suggested`,
    );
  }
  return omitted.length === 0 && !isPartial ? ExitCode.YES : ExitCode.NO;
}

const PEERS = { ingress: "from", egress: "to" } as const;

/** Returns the policies as YAML, with a comment at each peer that an object asks for. */
function policiesText({ policies, comments }: Pick<Suggestion, "policies" | "comments">): string {
  const documents = policies.map((policy) => {
    const document = new Document(policy, { aliasDuplicateObjects: false });
    for (const direction of DIRECTIONS) {
      for (const [i, rule] of (policy.spec[direction] ?? []).entries()) {
        for (const [j, peer] of (rule[PEERS[direction]] ?? []).entries()) {
          const node = document.getIn(["spec", direction, i, PEERS[direction], j], true);
          const lines = comments.get(peer);
          if (isNode(node) && lines !== undefined)
            node.commentBefore = lines.map((line) => ` asked for by ${printable(line)}`).join("\n");
        }
      }
    }
    return document.toString();
  });
  return documents.join("---\n");
}
