import type { DataType, Scalar } from "../model/data_type.ts";
import { type ElementCode, isCatchAll } from "../encode/element.ts";
import type { Interval, KeyField } from "../model/expression.ts";
import { checkComment, checkName } from "../model/identifier.ts";
import type { Element } from "../model/object.ts";
import type { Verdict } from "../model/statement.ts";

/** Returns an element in nft's syntax: `10.0.0.1 . tcp . 80 timeout 90s comment "x" : drop`. */
export function formatElement(code: Pick<ElementCode, "key" | "data">, element: Element): string {
  const key = isCatchAll(element) ? "*" : formatKey(code.key, element.key);
  const timeout = element.timeout === undefined ? "" : ` timeout ${formatNftDuration(element.timeout)}`;
  const comment = element.comment === undefined ? "" : ` comment "${checkComment(element.comment)}"`;
  const data = element.data === undefined ? "" : ` : ${formatData(code, element.data)}`;
  return `${key}${timeout}${comment}${data}`;
}

function formatData(code: Pick<ElementCode, "data">, data: readonly Scalar[] | Verdict): string {
  if ("kind" in data) return formatVerdict(data);
  return formatKey(code.data === "verdict" ? [] : (code.data ?? []), data);
}

/** Returns the fields of a key, joined by " . ". */
export function formatKey(types: readonly DataType[], key: readonly KeyField[]): string {
  return key
    .map((field, index) => {
      const type = types[index];
      if (type === undefined) return "";
      return typeof field === "object" ? formatInterval(type, field) : type.text(field);
    })
    .join(" . ");
}

export function formatVerdict(verdict: Verdict): string {
  return "chain" in verdict ? `${verdict.kind} ${checkName("chain", verdict.chain)}` : verdict.kind;
}

function formatInterval(type: DataType, { first, last }: Interval): string {
  if (first === last) return type.text(first);
  const length = prefixLength(type, first, last);
  return length === undefined ? `${type.text(first)}-${type.text(last)}` : `${type.text(first)}/${length}`;
}

/** Returns the length of the prefix that consists of exactly these addresses; undefined when there is none. */
function prefixLength(type: DataType, first: Scalar, last: Scalar): number | undefined {
  if ((type.name !== "ipv4_addr" && type.name !== "ipv6_addr") || typeof first === "string") return undefined;
  const from = BigInt(first);
  const size = BigInt(last) - from + 1n;
  if (size <= 0n || (size & (size - 1n)) !== 0n || from % size !== 0n) return undefined;
  return 8 * type.size - (size.toString(2).length - 1);
}

const units = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
  ["ms", 1],
] as const;

/** Returns milliseconds in nft's syntax: "1m30s". */
export function formatNftDuration(milliseconds: number): string {
  let rest = milliseconds;
  let text = "";
  for (const [unit, size] of units) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) text += `${count}${unit}`;
  }
  return text === "" ? "0s" : text;
}
