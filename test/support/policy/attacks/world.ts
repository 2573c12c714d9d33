import { PORT } from "../../guard/virtual_addresses.ts";
import { podObject } from "../first_packet/coming_pod.ts";
import { type Attacked, OPEN_PORT } from "./attacks.ts";

/**
 * Returns the pods' objects, and a policy that allows the victim and the published pod little traffic, most of it from
 * the third pod.
 */
export function attackedWorld({ on, published }: Attacked): readonly object[] {
  const { attacker, victim, third, fourth } = on;
  const from = (app: string, ...ports: readonly number[]): object => ({
    from: [{ podSelector: { matchLabels: { app } } }],
    ports: ports.map((port) => ({ protocol: "UDP", port })),
  });
  return [
    { apiVersion: "v1", kind: "Namespace", metadata: { name: "default" } },
    ...[attacker, victim, third, fourth, published].map(({ namespace: { name }, addresses }) =>
      podObject("default", name, { labels: { app: name }, addresses }),
    ),
    {
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata: { name: "default-deny", namespace: "default" },
      spec: {
        podSelector: { matchExpressions: [{ key: "app", operator: "In", values: ["victim", "published"] }] },
        policyTypes: ["Ingress", "Egress"],
        ingress: [from("third", PORT), from("attacker", OPEN_PORT)],
      },
    },
  ];
}
