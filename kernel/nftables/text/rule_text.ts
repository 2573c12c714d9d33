import { formatAddress } from "../../ip/address.ts";
import { formatCidr, isHostCidr, networkAddress } from "../../ip/cidr.ts";
import { type DataType, dataTypes } from "../model/data_type.ts";
import { formatNftDuration, formatKey, formatVerdict } from "./element_text.ts";
import { type Expression, expressionTypes } from "../model/expression.ts";
import { checkComment, checkLogPrefix, checkName } from "../model/identifier.ts";
import { RuleCode } from "../encode/rule_code.ts";
import { simplified } from "../encode/match_code.ts";
import type { TableFamily } from "../model/object.ts";
import { rejectionOf } from "../encode/reject_code.ts";
import type { Rewrite } from "../encode/rewrite_code.ts";
import { lowerStatement } from "../encode/lowering.ts";
import type { Match, Operand, RateLimit, Rule, Statement } from "../model/statement.ts";

/** nft's default, which it omits from its listing. */
const DEFAULT_BURST = 5;

/**
 * Returns a rule on one line, as nft lists it.
 *
 * @throws DrawbridgeError ERR_NFTABLES_VALUE for an invalid name, comment or value
 */
export function formatRule(rule: Rule, family: TableFamily): string {
  const code = new RuleCode(family, () => 0);
  const words = rule.statements.map((statement) => {
    const word = formatStatement(statement, code);
    lowerStatement(code, statement);
    return word;
  });
  return [...words, ...(rule.comment === undefined ? [] : [`comment "${checkComment(rule.comment)}"`])].join(" ");
}

/** @param code the rule's preceding statements */
function formatStatement(statement: Statement, code: RuleCode): string {
  switch (statement.kind) {
    case "match":
      return formatMatch(statement);
    case "counter":
      return statement.kind;
    case "verdict":
      return formatVerdict(statement.verdict);
    case "vmap": {
      const { key, mask, map } = statement;
      const bits = mask === undefined ? "" : ` & ${expressionTypes(key)[0]?.text(mask)}`;
      return `${formatExpression(key)}${bits} vmap @${checkName("map", map)}`;
    }
    case "limit":
      return formatLimit(statement);
    case "log":
      return `log prefix "${checkLogPrefix(statement.prefix)}" group ${statement.group} snaplen ${statement.snapLength}`;
    case "queue":
      return `queue flags bypass to ${statement.number}`;
    case "reject":
      return rejectionOf(code, statement.reply).text;
    case "dynamic": {
      const timeout = statement.timeout === undefined ? "" : ` timeout ${formatNftDuration(statement.timeout)}`;
      const data = statement.data === undefined ? "" : ` : ${formatExpression(statement.data)}`;
      const limit = statement.limit === undefined ? "" : ` ${formatLimit(statement.limit)}`;
      const element = `${formatExpression(statement.key)}${timeout}${limit}${data}`;
      return `${statement.operation} @${checkName("set", statement.set)} { ${element} }`;
    }
    default:
      return formatRewrite(statement);
  }
}

function formatRewrite(statement: Rewrite): string {
  switch (statement.kind) {
    case "dnat":
      return `dnat ${statement.target.family} to ${formatExpression(statement.target.lookup)}`;
    case "masquerade":
      return `masquerade${formatPorts(statement.ports)} fully-random`;
    case "set mark":
      return formatSetMark(statement);
    case "set priority from":
      return `meta priority set ${formatExpression(statement.from)}`;
    case "mask priority":
      return `meta priority set meta priority & ${dataTypes.classid.text(statement.bits)}`;
    case "clear priority":
      return "meta priority set none";
    case "set label":
      return `ct label set ${statement.bit}`;
    case "set trace":
      return "meta nftrace set 1";
    case "set address": {
      const { field, value } = statement;
      return `${field} set ${typeof value === "string" ? value : formatAddress(value)}`;
    }
  }
}

function formatSetMark({ operation, bits }: Extract<Rewrite, { readonly kind: "set mark" }>): string {
  return `meta mark set meta mark ${operation === "or" ? "|" : "&"} ${dataTypes.mark.text(bits)}`;
}

function formatLimit({ rate, unit, burst, isOver }: RateLimit): string {
  const bound = burst === DEFAULT_BURST ? "" : ` burst ${burst} packets`;
  return `limit rate ${isOver ? "over " : ""}${rate}/${unit}${bound}`;
}

function formatPorts(ports: Extract<Rewrite, { readonly kind: "masquerade" }>["ports"]): string {
  if (ports === undefined) return "";
  return ` to :${ports.first === ports.last ? ports.first : `${ports.first}-${ports.last}`}`;
}

function formatMatch({ left, isNegated, right: given }: Match): string {
  const right = simplified(given);
  const types = expressionTypes(left);
  const selector = formatExpression(left);
  const [type] = types;
  if (right.kind === "masked") {
    const text = (value: number): string => type?.text(value) ?? "";
    return `${selector} & ${text(right.mask)} ${isNegated ? "!=" : "=="} ${text(right.value)}`;
  }
  return `${selector} ${operatorOf(right, type, isNegated)}${formatOperand(right, types)}`;
}

/**
 * Returns the operator. With names of bits, none means that one bit is set and "!" that none is; "==" and "!=" compare
 * all.
 */
function operatorOf(right: Operand, type: DataType | undefined, isNegated: boolean): string {
  if (right.kind === "flags" || type?.name === "ct_label") return isNegated ? "! " : "";
  if (right.kind === "value" && type?.isBitmask === true) return isNegated ? "!= " : "== ";
  return isNegated ? "!= " : "";
}

function formatOperand(operand: Exclude<Operand, { kind: "masked" }>, types: readonly DataType[]): string {
  const [type] = types;
  switch (operand.kind) {
    case "value":
      return formatKey(types, [operand.value]);
    case "range":
      return `${type?.text(operand.first)}-${type?.text(operand.last)}`;
    case "prefix": {
      const network = networkAddress(operand.cidr);
      return isHostCidr(operand.cidr)
        ? formatAddress(network)
        : formatCidr({ address: network, prefixLength: operand.cidr.prefixLength });
    }
    case "wildcard":
      return `"${operand.prefix}*"`;
    case "flags":
      return [...(type?.symbols.keys() ?? [])].filter((name) => operand.names.includes(name)).join(",");
    case "set":
      return `@${checkName("set", operand.name)}`;
    case "anonymous":
      return `{ ${operand.values.map((value) => formatKey(types, [value])).join(", ")} }`;
  }
}

function formatExpression(expression: Expression): string {
  if (typeof expression === "string") return expression;
  switch (expression.kind) {
    case "concatenation":
      return expression.parts.map((part) => formatExpression(part)).join(" . ");
    case "numgen":
      return `numgen random mod ${expression.modulus}`;
    case "jhash":
      return `jhash ${expression.of.join(" . ")} mod ${expression.modulus} seed 0x${expression.seed.toString(16)}`;
    case "lookup":
      return `${formatExpression(expression.key)} map @${checkName("map", expression.map)}`;
  }
}
