import { CLUSTER_IP_ROWS } from "./rows_cluster_ip.ts";
import { ENDPOINT_ROWS } from "./rows_endpoints.ts";
import { LOAD_BALANCER_ROWS } from "./rows_load_balancer.ts";
import { NODE_PORT_ROWS } from "./rows_node_port.ts";
import type { Row } from "./row.ts";

/** The acceptance table of Services: cases 2.2, 3.2-3.6, 4.2-4.6 and 5.3-5.7 of document 004, and 6.1-6.6 of our own. */
export const ROWS: readonly Row[] = [...CLUSTER_IP_ROWS, ...NODE_PORT_ROWS, ...LOAD_BALANCER_ROWS, ...ENDPOINT_ROWS];
