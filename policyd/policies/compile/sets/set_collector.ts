import type { Family } from "../../../../kernel/ip/address.ts";
import type { AddressRange } from "../../../../kernel/ip/ranges.ts";
import { keyText } from "../../../../kernel/nftables/encode/element.ts";
import type { KeyField } from "../../../../kernel/nftables/model/expression.ts";
import type { Element, FieldType, SetDefinition } from "../../../../kernel/nftables/model/object.ts";
import type { Protocol } from "../../../../objects/model.ts";
import { digest } from "../digest.ts";
import { nameMatch, nameSets } from "../name_rules.ts";
import type { NameGroup } from "../profile.ts";
import type { Match } from "../../../../kernel/nftables/model/statement.ts";
import type { FixedSet, MemberSet, MemberSource } from "./member_set.ts";
import type { PortNumber, ProtocolPortRange } from "../numbered_ports.ts";
import { familyWords } from "../../../../kernel/nftables/model/family_words.ts";
import { protocolWord } from "../port_fields.ts";

const PORT_TYPES: readonly FieldType[] = ["inet_proto", "inet_service"];

/** A range of addresses at one port. */
export interface PlacedRange extends PortNumber {
  readonly range: AddressRange;
}

/** Collects the sets that rules use while they are made, each once; a set's name is a hash of its contents. */
export class SetCollector {
  readonly #isAllowing: boolean;
  readonly #isDenying: boolean;
  readonly #members = new Map<string, MemberSet>();
  readonly #fixed = new Map<string, FixedSet>();

  /** @param only whether the rules only allow for NetworkPolicies, or only deny */
  constructor(only?: "allowing" | "denying") {
    this.#isAllowing = only === "allowing";
    this.#isDenying = only === "denying";
  }

  memberSets(): readonly MemberSet[] {
    return [...this.#members.values()];
  }

  fixedSets(): readonly FixedSet[] {
    return [...this.#fixed.values()];
  }

  /** Adds everything that another collector has. */
  addAll(other: SetCollector): void {
    for (const set of other.memberSets()) {
      if (this.#members.get(set.name)?.isAllowing !== false) this.#members.set(set.name, set);
    }
    for (const set of other.fixedSets()) {
      const { name } = set.definition;
      if (this.#fixed.get(name)?.isAllowing !== false) this.#fixed.set(name, set);
    }
  }

  /**
   * Adds the set of sources: of addresses only, or all of them with ports.
   *
   * @param word begins the name
   * @returns the name without the family's digit
   */
  members(word: string, sources: readonly MemberSource[], hasCounters = false): string {
    const contents = [hasCounters, ...sources.map(sourceText)];
    const name = `${word}_${digest(this.#isDenying ? ["denied", ...contents] : contents)}_v`;
    const known = this.#members.get(name);
    if (known !== undefined && known.isAllowing === this.#isAllowing) return name;
    const hasPorts = sources.some(({ ports }) => ports.type !== "none");
    const definition = (family: Family): SetDefinition => ({
      name: `${name}${family}`,
      key: hasPorts ? [familyWords[family].type, ...PORT_TYPES] : [familyWords[family].type],
      ...(hasCounters ? { hasCounters } : {}),
    });
    this.#members.set(name, {
      name,
      definitions: { 4: definition(4), 6: definition(6) },
      sources,
      isAllowing: this.#isAllowing,
      isDenying: this.#isDenying,
    });
    return name;
  }

  /** Adds the sets of a group of names, both families'. @returns the match of a packet in one family */
  names(group: NameGroup, family: Family): Match {
    for (const set of Object.values(nameSets(group))) this.#addFixed(set, []);
    return nameMatch(group, family);
  }

  /** Adds the set of addresses in ranges of one family, which are sorted and do not touch. */
  ranges(family: Family, ranges: readonly AddressRange[]): string {
    const elements = ranges.map((range): Element => ({ key: [field(range.first, range.last)] }));
    return this.#addNamed("ranges", { key: [familyWords[family].type], isInterval: true }, elements, `_v${family}`);
  }

  /** Adds the set of ranges of addresses of a family at ports; those at one port are sorted and do not touch. */
  placedRanges(family: Family, placed: readonly PlacedRange[]): string {
    const elements = placed.map(({ range, protocol, port }): Element => ({
      key: [field(range.first, range.last), protocolWord(protocol), port],
    }));
    const definition = { key: [familyWords[family].type, ...PORT_TYPES], isInterval: true };
    return this.#addNamed("blocks", definition, elements, `_v${family}`);
  }

  /** Adds the set of ports with their protocols. */
  ports(ports: readonly PortNumber[]): string {
    const elements = ports.map(({ protocol, port }): Element => ({ key: [protocolWord(protocol), port] }));
    return this.#addNamed("ports", { key: PORT_TYPES }, elements);
  }

  /** Adds the set of port numbers in ranges of one protocol, which are sorted and do not touch. */
  portRanges(ranges: readonly ProtocolPortRange[]): string {
    const elements = ranges.map(({ first, last }): Element => ({ key: [field(first, last)] }));
    return this.#addNamed("portranges", { key: ["inet_service"], isInterval: true }, elements);
  }

  /** Adds a set that is named by its contents, after a word and before an ending. */
  #addNamed(word: string, definition: Omit<SetDefinition, "name">, elements: readonly Element[], ending = ""): string {
    const name = `${word}_${digest([definition, elements.map(({ key }) => keyText(key))])}${ending}`;
    this.#addFixed({ ...definition, name }, elements);
    return name;
  }

  #addFixed(definition: SetDefinition, elements: readonly Element[]): void {
    const { name } = definition;
    const isAllowing = this.#isAllowing;
    if (this.#fixed.get(name)?.isAllowing !== isAllowing) {
      this.#fixed.set(name, { definition, elements, isAllowing });
    }
  }
}

function sourceText({ group, ports }: MemberSource): string {
  const who = group?.key ?? "every pod";
  if (ports.type === "none") return who;
  if (ports.type === "name") return `${who} ${ports.protocol} ${ports.name}`;
  return `${who} ${ports.ports.map(({ protocol, port }) => `${protocol} ${port}`).join(" ")}`;
}

function field<T extends Exclude<KeyField, object>>(first: T, last: T): KeyField {
  return first === last ? first : { first, last };
}

/** Returns the source of a named port. */
export function namedSource(group: MemberSource["group"], protocol: Protocol | undefined, name: string): MemberSource {
  return { group, ports: { type: "name", protocol, name } };
}
