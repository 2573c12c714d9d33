import { FAMILIES } from "../../../../kernel/ip/address.ts";
import { pairs, together } from "../lab/pairs.ts";
import { inBoth, type Question } from "../lab/question.ts";
import { egressOfA, fromA, ingressOfA, named, never, toA } from "./words.ts";
import { blocks, into, prefixesOf, type Row } from "./row.ts";

const ofFamily = (family: number, questions: readonly Question[]): readonly Question[] =>
  questions.filter((question) => question.family === family);

/** Peers by address. */
export const BLOCK_ROWS: readonly Row[] = [
  {
    title:
      "POL-25 POL-26: an ipBlock matches pods, nodes and hosts except its exceptions, which take nothing from other entries",
    steps: (lab) => {
      const [v4, v6] = prefixesOf(lab, "z/a");
      const but = [
        { ipBlock: { cidr: "10.244.0.0/16", except: [v4] } },
        { ipBlock: { cidr: "fd00:244::/32", except: [v6] } },
      ];
      return [
        {
          policies: [ingressOfA({ from: but })],
          ...together(
            pairs((from, to) => toA(to) && from === "z/a"),
            { denied: inBoth("outside", "x/a", "80/TCP") },
          ),
        },
        { policies: [egressOfA({ to: but })], ...pairs((from, to) => fromA(from) && to === "z/a") },
        { policies: [ingressOfA({ from: [...but, ...blocks(v4, v6)] })], ...pairs(never) },
        {
          policies: [
            named(ingressOfA({ from: but }), "but"),
            named(ingressOfA({ from: blocks(v4, v6), ports: [{ port: 80 }] }), "one"),
          ],
          ...together(pairs(never), { denied: inBoth("z/a", "x/a", "81/TCP") }),
        },
        {
          policies: [
            ingressOfA({
              from: blocks("203.0.113.0/29", "2001:db8:c:1::/64", "192.0.2.18/32", "2001:db8:0:2::2/128"),
            }),
          ],
          allowed: [...inBoth("outside", "x/a", "80/TCP"), ...inBoth("node2", "x/a", "80/TCP")],
          denied: [...inBoth("stranger", "x/a", "80/TCP"), ...inBoth("x/b", "x/a", "80/TCP")],
        },
      ];
    },
  },
  {
    title: "POL-25: a block of one family allows nothing of the other family",
    steps: FAMILIES.map((family) => ({
      policies: [ingressOfA({ from: blocks(family === 4 ? "0.0.0.0/0" : "::/0") })],
      allowed: ofFamily(family, into("80/TCP", "80/UDP")),
      denied: ofFamily(10 - family, into("80/TCP", "80/UDP")),
    })),
  },
  {
    title:
      "POL-35: a port name at egress to an ipBlock is that of the pod at the address, on either node; hosts have no names",
    steps: (lab) => {
      const rule = (...to: readonly object[]): object => egressOfA({ to, ports: [{ port: "serve-80-tcp" }] });
      const toPods = ["x/b", "z/a", "y/c"].flatMap((to) => inBoth("x/a", to, "80/TCP"));
      const toOthers = ["outside", "node2"].flatMap((to) => inBoth("x/a", to, "80/TCP"));
      const [v4, v6] = prefixesOf(lab, "z/a");
      const isIn = ({ family, to }: Question): boolean => (family === 4) === (to !== "z/a");
      return [
        // With the number instead of the name the same traffic arrives everywhere: hosts and nodes do serve it.
        {
          policies: [egressOfA({ to: blocks("0.0.0.0/0", "::/0"), ports: [{ port: 80 }] })],
          allowed: [...toPods, ...toOthers],
        },
        {
          policies: [rule(...blocks("0.0.0.0/0", "::/0"))],
          allowed: toPods,
          denied: [
            ...["x/b", "z/a"].flatMap((to) => inBoth("x/a", to, "81/TCP", "80/UDP", "80/SCTP", "ICMP")),
            ...toOthers,
          ],
        },
        {
          policies: [rule({ ipBlock: { cidr: "10.244.0.0/16", except: [v4] } }, ...blocks(v6))],
          allowed: toPods.filter(isIn),
          denied: [...toPods.filter((question) => !isIn(question)), ...toOthers],
        },
      ];
    },
  },
];
