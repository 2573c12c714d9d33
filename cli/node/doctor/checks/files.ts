import { counted } from "../../../output/text.ts";
import { type Address, compareAddresses, formatAddress } from "../../../../kernel/ip/address.ts";
import type { AttachmentRecord } from "../../../../attachment/attachment.ts";
import { displayName } from "../../../../attachment/names_and_macs.ts";
import { PLUGIN } from "../../../../cni/executables.ts";
import { formatRangeSet, type RangeSet } from "../../../../ipam/range.ts";
import { namesBeforeOurs } from "../../../../policyd/installation/configuration_list.ts";
import { VERSION } from "../../../../policyd/version.ts";
import { configurationPath } from "../../own_lists.ts";
import { seen, listed, type Remark } from "../../../../policyd/problems/check.ts";
import type { Check } from "../facts.ts";

const RESTART =
  "kubectl -n kube-system delete pod -l app.kubernetes.io/name=drawbridge --field-selector spec.nodeName=NODE";

export const daemon: Check = {
  id: "daemon",
  summary: "policyd answers, has read all objects, has no problems and is of this release.",
  needs: ["daemon"],
  examine: (facts) => {
    const answer = seen(facts.daemon);
    if (answer === undefined) return [];
    if ("away" in answer) {
      return [
        {
          severity: "error",
          what: answer.away,
          why: "what is loaded stays in force, but nothing follows the cluster, and new pods wait or fail",
          way: "kubectl -n kube-system get pods -l app.kubernetes.io/name=drawbridge -o wide, and the logs of this node's one",
        },
      ];
    }
    const { status } = answer;
    const remarks: Remark[] = [];
    if (!status.isSynced) {
      remarks.push({
        severity: "warning",
        what: `policyd has not read all objects yet, ${Math.round(status.uptimeSeconds)} s after its start`,
        why: "nothing new is programmed, and new pods wait",
        way: "kubectl -n kube-system logs -l app.kubernetes.io/name=drawbridge: it says which list it waits for",
      });
    }
    if (status.version !== VERSION) {
      remarks.push({
        severity: "warning",
        what: `policyd is release ${status.version}, this command ${VERSION}`,
        why: "what the two expect of each other's files may differ, and so may what is said here",
        way: `use the command of release ${status.version}, or finish the upgrade: ${RESTART}`,
      });
    }
    return remarks;
  },
};

export const networkConfiguration: Check = {
  id: "cni-configuration",
  summary: "Our network configuration is there, can be read and is the one that runtimes take.",
  needs: ["configurations", "network"],
  examine: (facts) => {
    const path = configurationPath(facts.place);
    const network = seen(facts.network);
    const names = seen(facts.configurations) ?? [];
    const remarks: Remark[] = [];
    if (network?.kind === "missing") {
      remarks.push({
        severity: "error",
        what: `${path} is missing`,
        why: "the runtime does not know how to connect pods: the node stays NotReady",
        way: "start policyd with installCni: true; it writes the file when it can serve pods",
      });
    } else if (network?.kind === "broken") {
      remarks.push({
        severity: "error",
        what: `${path} cannot be used: ${network.reason}`,
        why: "the runtime takes the next file or none, and pods are connected otherwise or not at all",
        way: `rm ${path}: policyd with installCni: true writes it again`,
      });
    }
    const before = namesBeforeOurs(names)[0];
    const isMeant = before === facts.expected.primary || seen(facts.firstLeadsToOurs) === true;
    if (before !== undefined && !isMeant) {
      remarks.push({
        severity: "error",
        what: `${facts.place.configurationDirectory}/${before} comes before ours by its name`,
        why: "runtimes take the first file: pods are connected by that one, without Drawbridge's policies",
        way: `mv ${facts.place.configurationDirectory}/${before} ${facts.place.configurationDirectory}/${before}.bak, then recreate the node's pods; where it is meant, name it in cniPrimary`,
      });
    }
    return remarks;
  },
};

export const plugins: Check = {
  id: "cni-plugin",
  summary:
    "The plugins that the network configuration names are there, can be executed and answer; ours are of this release.",
  needs: ["plugins"],
  examine: ({ plugins: found, place, expected }) =>
    (seen(found) ?? []).flatMap(({ name, isFile, isExecutable, isAsShipped, version }): readonly Remark[] => {
      const path = `${place.binaryDirectory}/${name}`;
      const way =
        name === PLUGIN
          ? `start policyd with installCni: true, or copy it from the image: dist/cni/${name}`
          : `install it, such as from the package kubernetes-cni, or take ${name} out of the network configuration`;
      const why = "every pod of this network fails to start";
      if (!isFile) return [{ severity: "error", what: `${path} is not a file`, why, way }];
      if (!isExecutable) {
        return [{ severity: "error", what: `${path} is not executable`, why, way: `chmod 755 ${path}` }];
      }
      if (version !== undefined && "failure" in version) {
        return [{ severity: "error", what: `${path} does not answer VERSION: ${version.failure}`, why, way }];
      }
      if (isAsShipped !== false) return [];
      return [
        {
          severity: "warning",
          what: `${path} is not the file that ${expected.sourceDirectory} has for it`,
          why: "pods are connected as another release does it",
          way,
        },
      ];
    }),
};

export const attachments: Check = {
  id: "attachments",
  summary: "Each attachment has a record that can be read, of this boot, and its link.",
  needs: ["records", "links", "bootId"],
  examine: ({ records, links, bootId, place }) => {
    const { records: all, unreadable } = seen(records) ?? { records: [], unreadable: [] };
    const names = new Set((seen(links) ?? []).map(({ name }) => name));
    const podOf = ({ pod, network, ifname }: AttachmentRecord): string =>
      [pod?.namespace, pod?.name, network, ifname].join(" ");
    const attached = new Set(all.filter(({ hostInterface }) => names.has(hostInterface)).map(podOf));
    const boot = seen(bootId);
    const remarks: Remark[] = unreadable.map(({ path, reason }) => ({
      severity: "warning",
      what: `${path} is not a record of an attachment: ${reason}`,
      why: "the pod's host ports and policies are not kept after a restart of policyd",
      way: `recreate the pod; without one: rm ${path}`,
    }));
    for (const record of all) {
      const { network, containerId, ifname, hostInterface, bootId: ofRecord, pod } = record;
      const who = `${displayName({ pod, containerId })} ${ifname}`;
      const path = `${place.stateDirectory}/attachments/${network}/${containerId}:${ifname}.json`;
      if (boot !== undefined && ofRecord !== boot) {
        remarks.push({
          severity: "warning",
          what: `the record of ${who} is of another boot`,
          why: "it describes nothing that is alive, and a state directory that outlives a boot keeps addresses for ever",
          way: `rm '${path}', and have ${place.stateDirectory} on a tmpfs`,
        });
      } else if (pod !== undefined && !names.has(hostInterface) && attached.has(podOf(record))) {
        remarks.push({
          severity: "warning",
          what: `the link ${hostInterface} of an earlier sandbox of ${who} is gone`,
          why: "the sandbox is gone without a DEL; the pod has another link, and its network works",
          way: "drawbridge node audit --repair",
        });
      } else if (!names.has(hostInterface)) {
        remarks.push({
          severity: "warning",
          what: `the link ${hostInterface} of ${who} is gone`,
          why: "the pod has no network, or it is gone without a DEL, and then its host ports are free",
          way:
            pod === undefined
              ? `crictl rmp -f ${containerId}; where it is gone: drawbridge node audit --repair`
              : `kubectl -n ${pod.namespace} delete pod ${pod.name}; where there is no such pod: drawbridge node audit --repair`,
        });
      }
    }
    return remarks;
  },
};

export const addresses: Check = {
  id: "addresses",
  summary: "Every reserved address has its pod, and there are addresses left.",
  needs: ["reservations", "records", "network"],
  examine: (facts) => {
    const { directory, reservations, strange } = seen(facts.reservations) ?? NO_RESERVATIONS;
    const owners = new Set((seen(facts.records)?.records ?? []).map(({ containerId }) => containerId));
    const remarks: Remark[] = [];
    const orphans = reservations.filter((one) => ownerOf(one) !== undefined && !owners.has(ownerOf(one) ?? ""));
    if (orphans.length > 0) {
      remarks.push({
        severity: "warning",
        what: `${orphans.length} reserved address${orphans.length === 1 ? " has" : "es have"} no attachment: ${listed(orphans.map((one) => `${formatAddress(one.address)} of ${ownerOf(one)}`))}`,
        why: "their pods are gone without a DEL, or were attached by another plugin; the addresses are not handed out again",
        way: `drawbridge node audit --repair; or, where crictl pods does not list the container: rm ${directory}/ADDRESS`,
      });
    }
    const unreadable = reservations.filter(({ kind }) => kind === "unreadable");
    if (unreadable.length > 0) {
      remarks.push({
        severity: "warning",
        what: `${counted(unreadable.length, "file")} of ${directory} say${unreadable.length === 1 ? "s" : ""} nobody's name: ${listed(unreadable.map(({ address }) => formatAddress(address)))}`,
        why: "a crash or a full disk left them empty; nobody can tell whether the address is in use",
        way: `where no pod has the address (kubectl get pods -A -o wide): rm ${directory}/ADDRESS; and see df ${directory}`,
      });
    }
    if (strange.length > 0) {
      remarks.push({
        severity: "info",
        what: `${directory} has files that are not addresses: ${listed(strange)}`,
        why: "they do nothing here, and node cleanup leaves a directory with such files alone",
        way: `rm ${directory}/NAME, if nobody needs them`,
      });
    }
    const network = seen(facts.network);
    for (const set of network?.kind === "network" ? network.ranges : []) remarks.push(...exhausted(set, reservations));
    return remarks;
  },
};

const NO_RESERVATIONS = { directory: "", reservations: [], strange: [] };

type Reservations = readonly { readonly address: Address }[];

function* exhausted(set: RangeSet, reservations: Reservations): Generator<Remark> {
  let size = 0n;
  for (const { rangeStart, rangeEnd, gateway } of set) {
    size += BigInt(rangeEnd) - BigInt(rangeStart) + 1n - (isIn(gateway, rangeStart, rangeEnd) ? 1n : 0n);
  }
  const taken = reservations.filter(({ address }) =>
    set.some(({ rangeStart, rangeEnd }) => typeof address === typeof rangeStart && isIn(address, rangeStart, rangeEnd)),
  ).length;
  if (BigInt(taken) < size) return;
  yield {
    severity: "warning",
    what: `all ${size} addresses of ${formatRangeSet(set)} are reserved`,
    why: "no further pod can be attached",
    way: "drawbridge node audit --repair, which frees what ended pods have left; or give nodes larger pod CIDRs (--node-cidr-mask-size)",
  };
}

function isIn(address: Address, first: Address, last: Address): boolean {
  return compareAddresses(first, address) <= 0 && compareAddresses(address, last) <= 0;
}

function ownerOf(reservation: {
  readonly kind: string;
  readonly containerId?: string;
  readonly owner?: { readonly containerId: string };
}): string | undefined {
  return reservation.owner?.containerId ?? reservation.containerId;
}
