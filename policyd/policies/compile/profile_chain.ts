import { familyOf, formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import type { Chain } from "../../../kernel/nftables/model/object.ts";
import { concatenation } from "../../../kernel/nftables/model/expression.ts";
import { commentText } from "../../../kernel/nftables/model/identifier.ts";
import {
  counter,
  drop,
  equals,
  goTo,
  inSet,
  oneOf,
  returnToCaller,
  type Rule,
  rule,
  type Statement,
} from "../../../kernel/nftables/model/statement.ts";
import { atOnce, type Slices } from "../../lib/sliced_work.ts";
import { digest } from "./digest.ts";
import { flattenedRules } from "./flattened_rules.ts";
import { type LogOrigin, logPrefix } from "./log_prefix.ts";
import type { ProfileObjects } from "./sets/member_set.ts";
import { answerHooks, nameGroupsOf } from "./name_rules.ts";
import { DNS_PORT } from "../../../objects/domain_name.ts";
import { DEFAULT_POLICY_OPTIONS, type PolicyOptions } from "./options.ts";
import { type PlainRule, plainRules } from "./plain_rules.ts";
import { selfMatch } from "./policy_table.ts";
import type { Direction, Isolation, Profile, ProfileRule } from "./profile.ts";
import { SetCollector } from "./sets/set_collector.ts";
import { familyWords } from "../../../kernel/nftables/model/family_words.ts";

/**
 * Up to this number of nft rules for each family, NetworkPolicies are compiled rule by rule, with sets that profiles
 * share; more are flattened into a few large sets. Measured: a rule of each family takes 0.1 of the 15 µs of a flow's
 * first packet, and a flattened set holds all its peers for only one profile (docs/performance.md).
 */
export const FLATTEN_ABOVE = 32;

/** The rate at which one profile's chain logs packets. */
const LOG_LIMIT = { kind: "limit", rate: 10, unit: "second", burst: 50, isOver: false } as const;
/** Enough for the headers of both families with some extensions, and for the ports after them. */
const LOGGED_BYTES = 128;

/** Returns the chain that a profile's verdict elements lead to; the name contains options other than the defaults. */
export function profileChainName(direction: Direction, key: string, options: PolicyOptions): string {
  const [printed, byDefault] = [digestOf(options), digestOf(DEFAULT_POLICY_OPTIONS)];
  return printed === byDefault ? `${direction}_${key}` : `${direction}_${key}_${printed}`;
}

/** Returns the digest of the options that a profile's rules depend on: 8 digits, since only we choose the options. */
function digestOf({ policePodToOwnNode, nodeLocalDNS, dropLog, dropLogGroup }: PolicyOptions): string {
  return digest([policePodToOwnNode, nodeLocalDNS.map(formatAddress), dropLog, dropLogGroup]).slice(0, 8);
}

/**
 * Returns all kernel objects of a profile. In its chains `return` means "allowed in this direction": the verdict
 * element leads to the first chain, and a packet goes from one to the next, so it returns to the chain that evaluates
 * both ends.
 */
export function profileObjects(profile: Profile, options: PolicyOptions): ProfileObjects {
  return atOnce(profileObjectsInSlices(profile, options));
}

/** As {@link profileObjects}, in slices. */
export function* profileObjectsInSlices(profile: Profile, options: PolicyOptions): Slices<ProfileObjects> {
  const printer = new ProfilePrinter(profile, options);
  const chains = yield* printer.chains();
  const { sets } = printer;
  return { chains, memberSets: sets.memberSets(), fixedSets: sets.fixedSets() };
}

/** The state of printing one profile: the chains beside its first, and the sets that rules use. */
class ProfilePrinter {
  readonly sets = new SetCollector();
  readonly #profile: Profile;
  readonly #options: PolicyOptions;
  readonly #name: string;
  readonly #chains: Chain[] = [];
  #deny: Statement | undefined;

  constructor(profile: Profile, options: PolicyOptions) {
    this.#profile = profile;
    this.#options = options;
    this.#name = profileChainName(profile.direction, profile.key, options);
  }

  *chains(): Slices<readonly Chain[]> {
    const { admin } = this.#profile;
    const behind = yield* this.#behindAdmin();
    const hasPass = admin.some(({ action }) => action === "pass");
    const pass = behind.length === 0 || !hasPass ? returnToCaller : this.#chain("behind_admin", behind);
    const rest = hasPass && behind.length > 0 ? [rule(pass)] : behind;
    const rules = [...this.#tier(admin, pass), ...rest];
    const answers = nameGroupsOf(this.#profile).length > 0 ? answerHooks(this.#options) : [];
    // The chains that the rules lead to exist only now.
    return [...answers, ...this.#chains, { name: this.#name, rules }];
  }

  /** Returns the statement that drops, after logging if configured. */
  #drop(): Statement {
    this.#deny ??= this.#options.dropLog ? this.#chain("drop", [this.#log("drop"), rule(drop)]) : drop;
    return this.#deny;
  }

  /** Adds a chain of the profile beside its first. @returns the statement that leads there */
  #chain(word: string, rules: readonly Rule[]): Statement {
    const name = `${this.#name}_${word}`;
    this.#chains.push({ name, rules });
    return goTo(name);
  }

  *#behindAdmin(): Slices<readonly Rule[]> {
    const { isolation, shadow, baseline } = this.#profile;
    if (isolation !== undefined) {
      const end = {
        ...rule(counter, this.#drop()),
        comment: commentText(`isolated by ${isolation.policies.join(" ")}`),
      };
      return [...(yield* this.#isolation(isolation, returnToCaller)), end];
    }
    // A pass from the last tier allows: nothing comes after it.
    const baselineRules = this.#tier(baseline, returnToCaller);
    if (shadow === undefined) return baselineRules;
    const allowed = baselineRules.length === 0 ? returnToCaller : this.#chain("baseline", baselineRules);
    const counted = { ...rule(counter), comment: commentText(`would be isolated by ${shadow.policies.join(" ")}`) };
    return [...(yield* this.#isolation(shadow, allowed)), counted, this.#log("would drop"), rule(allowed)];
  }

  #tier(rules: readonly ProfileRule[], pass: Statement): readonly Rule[] {
    const verdictOf = ({ action }: ProfileRule): Statement =>
      action === "allow" ? returnToCaller : action === "deny" ? this.#drop() : pass;
    const denied = new SetCollector("denying");
    const made = rules.flatMap((one) => [
      ...plainRules(this.#profile.direction, one, verdictOf(one), one.action === "deny" ? denied : this.sets),
    ]);
    this.sets.addAll(denied);
    return made.map((plain) => plain.rule);
  }

  /** Returns the rules for traffic that NetworkPolicies allow, including what they always allow. */
  *#isolation({ rules }: Isolation, allowed: Statement): Slices<readonly Rule[]> {
    return [...this.#exemptions(allowed), ...(yield* this.#allowing(rules, allowed))];
  }

  #exemptions(allowed: Statement): readonly Rule[] {
    const { policePodToOwnNode, nodeLocalDNS } = this.#options;
    const itself = FAMILIES.map((family) => ({ ...rule(selfMatch(family), counter, allowed), comment: "itself" }));
    if (this.#profile.direction === "ingress") return itself;
    const ownNode = { ...rule(equals("fib daddr type", "local"), counter, allowed), comment: "own node" };
    const dns = FAMILIES.flatMap((family): readonly Rule[] => {
      const addresses = nodeLocalDNS.filter((address) => familyOf(address) === family);
      if (addresses.length === 0) return [];
      const isServer = oneOf(familyWords[family].destination, addresses);
      const ports = this.sets.ports([
        { protocol: "TCP", port: DNS_PORT },
        { protocol: "UDP", port: DNS_PORT },
      ]);
      const isDns = inSet(concatenation("meta l4proto", "th dport"), ports);
      return [{ ...rule(isServer, isDns, counter, allowed), comment: "node-local DNS" }];
    });
    return [...itself, ...(policePodToOwnNode ? [] : [ownNode]), ...dns];
  }

  *#allowing(rules: readonly ProfileRule[], allowed: Statement): Slices<readonly Rule[]> {
    const { direction } = this.#profile;
    const { flattenAbove = FLATTEN_ABOVE } = this.#options;
    const sets = new SetCollector("allowing");
    const made: PlainRule[] = [];
    const counts = { 4: 0, 6: 0 };
    for (const one of rules) {
      for (const plain of plainRules(direction, one, allowed, sets)) {
        made.push(plain);
        yield;
        if (plain.family !== 6) counts[4]++;
        if (plain.family !== 4) counts[6]++;
        if (Math.max(counts[4], counts[6]) > flattenAbove) {
          const flat = new SetCollector("allowing");
          const [byName, others] = partition(rules);
          const flattened = yield* flattenedRules(direction, others, allowed, flat);
          const plainly = byName.flatMap((named) =>
            [...plainRules(direction, named, allowed, flat)].map((each) => each.rule),
          );
          this.sets.addAll(flat);
          return [...plainly, ...flattened];
        }
      }
    }
    this.sets.addAll(sets);
    return made.map((plain) => plain.rule);
  }

  #log(outcome: LogOrigin["outcome"]): Rule {
    const { direction, key } = this.#profile;
    const prefix = logPrefix({ direction, key, outcome });
    const group = this.#options.dropLogGroup;
    return rule(LOG_LIMIT, { kind: "log", prefix, group, snapLength: LOGGED_BYTES });
  }
}

/** Returns the rules with only their peers that are names, and with only the others: sets of names are not joined. */
function partition(rules: readonly ProfileRule[]): readonly [readonly ProfileRule[], readonly ProfileRule[]] {
  const having = (isNamed: boolean): readonly ProfileRule[] =>
    rules.flatMap((one) => {
      if (one.peers === undefined) return isNamed ? [] : [one];
      const peers = one.peers.filter(({ type }) => (type === "names") === isNamed);
      return peers.length === 0 ? [] : [{ ...one, peers }];
    });
  return [having(true), having(false)];
}
