import { mkdirSync, writeFileSync } from "node:fs";
import type { Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { Program } from "./program.ts";

/** The port it listens on, in both families. */
export const NGINX_PORT = 8080;

/** An application whose answer names the host that was requested and the client. */
export const APPLICATION = 'location / { return 200 "for $http_x_forwarded_for by $remote_addr\\n"; }';

/**
 * Returns the configuration of an ingress, which finds a Service by DNS servers, again for each request, and forwards
 * the request with the client's address.
 */
export function ingress(service: string, dnsServers: readonly string[]): string {
  return `
    resolver ${dnsServers.join(" ")} valid=1s;
    location / {
      set $service ${service};
      proxy_pass http://$service:80;
      proxy_set_header X-Forwarded-For $remote_addr;
    }`;
}

/** Starts Debian's nginx in a namespace; resolves when it answers. */
export async function startNginx(lab: Lab, namespace: LabNamespace, locations: string): Promise<Program> {
  const directory = `${lab.scratch}/nginx-${namespace.name}`;
  mkdirSync(directory);
  const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (kind) => `${kind}_temp_path ${directory}/${kind};`,
  );
  writeFileSync(
    `${directory}/nginx.conf`,
    `daemon off; master_process off; pid ${directory}/pid; error_log stderr notice;
events {}
http {
  access_log off;
  ${paths.join(" ")}
  server {
    listen 0.0.0.0:${NGINX_PORT};
    listen [::]:${NGINX_PORT} ipv6only=on;
    ${locations}
  }
}
`,
  );
  const args = ["-p", directory, "-e", "stderr", "-c", `${directory}/nginx.conf`];
  const program = new Program(lab, namespace, "nginx", args);
  // nginx opens the ports before it writes this (ngx_init_cycle).
  await program.written(/using the "\w+" event method/);
  return program;
}
