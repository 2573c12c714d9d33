import { familyOf, type Ipv4Address, parseAddress } from "../../../kernel/ip/address.ts";

/** The network of the benchmark's pods. */
export const POD_CIDR = "10.128.0.0/9";
/** The port of all Services, which are UDP: the first packet of a connection then carries something. */
const SERVICE_PORT = 53;
export const NAMESPACE = "bench";
const PORT_NAME = "dns";

const FIRST_SERVICE = ipv4("10.96.1.0");
const FIRST_ENDPOINT = ipv4("10.128.1.0");

/** One Service of the benchmark: a UDP port with ready endpoints on other nodes. */
export interface BenchService {
  readonly name: string;
  readonly address: string;
  readonly endpoints: readonly string[];
}

/** The number of Services, and of the endpoints of each. */
export interface ClusterSize {
  readonly services: number;
  readonly endpoints: number;
}

/** Returns a text such as "10,000 x 3". */
export function sizeText({ services, endpoints }: ClusterSize): string {
  return `${services.toLocaleString("en")} × ${endpoints}`;
}

/** Returns the Service of this number; no other number has its address or one of its endpoints. */
export function benchService(number: number, endpoints: number): BenchService {
  return {
    name: `svc-${number}`,
    address: nth(FIRST_SERVICE, number),
    endpoints: Array.from({ length: endpoints }, (_, index) => nth(FIRST_ENDPOINT, number * endpoints + index)),
  };
}

/** Returns all Services of a size. */
export function benchServices(size: ClusterSize): readonly BenchService[] {
  return Array.from({ length: size.services }, (_, number) => benchService(number, size.endpoints));
}

/** Returns the Service with another endpoint in place of its first. */
export function withFirstReplaced(service: BenchService, replacement: number): BenchService {
  return { ...service, endpoints: [nth(ipv4("10.250.0.0"), replacement), ...service.endpoints.slice(1)] };
}

/** Returns a Service as an API server has it. */
export function serviceManifest({ name, address }: BenchService): object {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, namespace: NAMESPACE },
    spec: {
      type: "ClusterIP",
      clusterIP: address,
      clusterIPs: [address],
      ports: [{ name: PORT_NAME, protocol: "UDP", port: SERVICE_PORT }],
    },
  };
}

/** Returns a Service's endpoints as an API server has them. */
export function sliceManifest({ name, endpoints }: BenchService): object {
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name, namespace: NAMESPACE, labels: { "kubernetes.io/service-name": name } },
    addressType: "IPv4",
    ports: [{ name: PORT_NAME, protocol: "UDP", port: SERVICE_PORT }],
    endpoints: endpoints.map((address) => ({
      addresses: [address],
      nodeName: "elsewhere",
      conditions: { ready: true },
    })),
  };
}

function ipv4(text: string): Ipv4Address {
  const address = parseAddress(text);
  if (familyOf(address) !== 4 || typeof address !== "number") throw new Error(`${text} is not an IPv4 address`);
  return address;
}

function nth(first: Ipv4Address, distance: number): string {
  const value = first + distance;
  return [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join(".");
}
