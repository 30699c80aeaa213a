"""What the tests of the chart share: value sets, rendering, a namespace to install into."""

import json
import subprocess

import yaml

from harness import installation, tools

SOURCE = "company-s3"
MINIMAL = {"aiModels": {"artifacts": {"bucket": "models", "endpoint": "http://s3.example.com:8333", "credentialsSecretName": SOURCE},
                        "internal": {"image": "registry.example.com/ai-models:v1"}}}
PUBLIC = {"modules": {"storageClass": "all", "publicDomainTemplate": "%s.example.com", "ingressClass": "nginx",
                      "https": {"mode": "CertManager", "certManager": {"clusterIssuerName": "issuer"}}}}
FULL = {"global": {"highAvailability": True, "defaultClusterStorageClass": "local", "discovery": {"clusterDomain": "corp.local", "gatewayAPIDefaultGateway": {"name": "g", "namespace": "d8-x"}}, **PUBLIC},
        "aiModels": {"logLevel": "Warn",
                     "artifacts": {"capacityLimit": "1.5Ti", "usePathStyle": False, "region": "eu-1", "caSecretName": "company-ca"},
                     "sources": {"huggingFace": {"endpoint": "https://hf.example.com/mirror"}, "ollama": {"registry": "https://ollama.example.com"},
                                 "ca": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
                                 "proxy": {"httpsProxy": "http://proxy.example.com:3128", "noProxy": ["10.0.0.0/8", ".svc"]}},
                     "delivery": {"type": "SharedPVC", "sharedPVCStorageClassName": "nfs", "maxConcurrentMaterializations": 5},
                     "internal": {"imagePullSecretName": "pull", "nodeSelector": {"x": "y"}, "tolerations": [{"operator": "Exists"}],
                                  "storageAccounting": {"enabled": False}}}}
DECKHOUSE = {"global": {"enabledModules": ["ai-models"], "modulesImages": {"digests": {"aiModels": {"aiModels": "sha256:" + "0" * 64}}},
                        "modules": {"publicDomainTemplate": "%s.example.com", "https": {"mode": "OnlyInURI"}}},
             "aiModels": {"registry": {"base": "registry.example.com/ai-models", "dockercfg": "e30="}, "internal": {"image": ""}}}
VALUES = {"minimal": {}, "full": FULL, "deckhouse": DECKHOUSE}


def merged(more):
    return installation.merge(MINIMAL, more)


def helm(kubeconfig, *arguments, values=None):
    return installation.helm(kubeconfig, *arguments, *(("--values", "-") if values is not None else ()), check=False,
                             **({"input": json.dumps(values).encode()} if values is not None else {}))


def render(values, kubeconfig="/dev/null", *options):
    """The objects that helm template makes: with `kubeconfig`, as a cluster would get them."""
    done = helm(kubeconfig, "template", "ai-models", tools.ROOT, "--namespace", "d8-ai-models", *options, values=values)
    assert done.returncode == 0, done.stderr.decode()
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def custom_kind(group, version, kind, plural):
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{group}",
                                                                                                    "annotations": {"api-approved.kubernetes.io": "unapproved, tests"}},
            "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
                     "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                         "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}


def foreign_kinds():
    return [custom_kind("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors"),
            custom_kind("monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules"),
            custom_kind("cert-manager.io", "v1", "Certificate", "certificates"),
            custom_kind("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes")]


class Cluster:
    """An API server, with what the tests do to it."""

    def __init__(self, plane):
        self.kubeconfig, self.namespaces = plane.kubeconfig, 0

    @staticmethod
    def crds():
        return sorted(path for path in (tools.ROOT / "crds").glob("*.yaml") if not path.name.startswith("doc-ru"))

    def kubectl(self, *arguments, check=True, **options):
        done = subprocess.run([tools.kubernetes("kubectl"), "--kubeconfig", self.kubeconfig, *map(str, arguments)], capture_output=True, **options)
        assert not check or done.returncode == 0, done.stderr.decode()
        return done

    def apply(self, *objects, options=()):
        return self.kubectl("apply", *options, "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode())

    def get(self, *arguments):
        return json.loads(self.kubectl("get", *arguments, "-o", "json").stdout)

    def namespace(self, name="d8-ai-models"):
        """A new one, restricted, with the Secrets of a company's bucket."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {
            **installation.RESTRICTED, "pod-security.kubernetes.io/warn": "restricted", "app.kubernetes.io/managed-by": "Helm"}, "annotations": {
                # So that a release may have it, as Deckhouse's does.
                "meta.helm.sh/release-name": "ai-models", "meta.helm.sh/release-namespace": name}}})
        self.source(name)
        return name

    def source(self, namespace, **data):
        self.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SOURCE, "namespace": namespace},
                    "stringData": {"accessKey": "key", "secretKey": "secret", **data}},
                   {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "company-ca", "namespace": namespace}, "stringData": {"ca.crt": "PEM"}})

    def install(self, values, namespace="d8-ai-models"):
        done = helm(self.kubeconfig, "upgrade", "--install", "ai-models", tools.ROOT, "--namespace", namespace, values=values)
        assert done.returncode == 0, done.stderr.decode()

    def everything(self):
        """Names of all objects but events and leases, with their versions."""
        kinds = self.kubectl("api-resources", "--verbs=list", "-o", "name").stdout.decode().split()
        wanted = [kind for kind in kinds if not kind.startswith(("events", "leases", "componentstatuses", "apiservices"))]
        listed = self.get(",".join(wanted), "--all-namespaces")["items"]
        return {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one["metadata"]["resourceVersion"] for one in listed}
