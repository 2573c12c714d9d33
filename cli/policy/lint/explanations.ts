/** Why each rule matters, by the rule's ID, for its page in the documents. */
export const EXPLANATIONS: Readonly<Record<string, string>> = {
  invalid:
    "An object that the API server refuses protects nobody, and the rest of the files is judged without it. Findings that it may have caused are info until it is corrected.",
  "except-outside-cidr": "The API server refuses the whole policy for it. Correct the exception, or the cidr.",
  "admin-network-policy":
    "Clusters with the current API do not know these kinds, and Drawbridge reads only their successor. The finding has the policy to write instead.",
  experimental: "Domain names are not resolved, so an Accept rule accepts nothing and a Deny rule denies everyone.",
  "too-large": "Nodes load only policies and Services up to a size, and close or do not serve the rest.",
  "selects-nothing":
    "Most often a label is misspelt, and the pods that it was written for are open. It is info where the selector has a label of an operator's, which none of the pods has: an operator creates such pods.",
  "peer-selects-nothing":
    "Somebody who should be let in is not. It is info where an operator creates the pods, as for selects-nothing.",
  "namespace-typo":
    "A namespaceSelector with a misspelt label selects no namespace, so the rule is for nobody. Kubernetes labels a namespace with its name only as kubernetes.io/metadata.name.",
  "unknown-namespace":
    "The pods of other namespaces are in other files. With them lint can judge the peer. Peers for the cluster's DNS are not reported.",
  "allows-nothing":
    "A rule for nobody is a mistake in its selectors. It is info where an operator creates the pods. A type in policyTypes without rules closes a direction, which is info, since it may be what is meant.",
  "rules-ignored":
    "Rules of a direction count only if policyTypes lists it. They look like a protection that is not there.",
  shadowed:
    "The rule changes nothing, so whoever tightens it later is mistaken. It is info where the other rule allows everything: then that one is the decision.",
  redundant:
    "A policy without an effect costs its readers time. It is info where it allows everything or nothing, where a peer is nobody or in namespaces that were not read, and for a ClusterNetworkPolicy, which also counts for NetworkPolicies to come.",
  "undefined-order": "The API leaves open which of the two is asked first, so engines and versions may differ.",
  "in-shadow": "A policy in shadow protects nobody. Remove the annotation when its log has become quiet.",
  "shadow-annotation": "The policy is in force although somebody meant it not to be.",
  "service-port": "Rules see packets with the port of the pod, so a rule with the Service's port never matches.",
  "unknown-port-name":
    "The name is looked up in the destination's containers. Without one of that name the rule never matches.",
  "service-address": "Rules see packets with the pod's address, so a rule with the Service's address never matches.",
  "and-or": "Two list items are an OR: everybody in these namespaces, and every such pod of the own namespace.",
  "peers-read-as": "It says how a list of peers is read, since an indentation makes an AND or an OR of it.",
  "host-network": "Policies do not select pods of the host's network, whatever their labels are.",
  "dns-forgotten":
    "Pods without DNS fail at the first name, which looks like a broken network. Where the files do not have the DNS it is taken to be in kube-system at port 53, or in openshift-dns at port 5353.",
  "family-forgotten":
    "Pods with two families prefer one of them, so a connection may be cut or slow depending on the name.",
  "engines-differ": "The same policy may mean something else with another network add-on.",
  "not-expressible":
    "NetworkPolicies only allow, and only between pods and addresses, so nothing enforces the intention.",
  "external-ips":
    "A user who may write Services can take the traffic to any address. refuseExternalIPs closes it. A node leaves only ports of its own addresses to programs and host ports that had them before.",
  "nodes-reachable": "Clients that the load balancer refuses reach the same pods by the nodes' ports.",
  "topology-keys": "The field is gone from the API. trafficDistribution is its successor.",
  "controller-kept-out":
    "Requests end at the controller with an error of its own, such as 502 or 504. Rules see the pods of the controller, not the client, so a rule for the client's addresses does not help.",
  "ignore-comment":
    "A comment that does not silence anything misleads its readers. It is info where the finding that it was for is gone.",
};
