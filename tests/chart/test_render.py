"""What the chart makes of values, and what it says to wrong ones."""

import base64
import re
import subprocess
import tarfile

import pytest
import yaml

from harness import tools

from .charts import FULL, MINIMAL, VALUES, helm, merged, render

PARTS = {"Chart.yaml", "values.yaml", "values.schema.json", "templates", "crds", "monitoring"}


def test_lint(tmp_path):
    for name, more in VALUES.items():
        done = helm("/dev/null", "lint", "--strict", "--quiet", tools.ROOT, values=merged(more))
        assert done.returncode == 0, f"{name}: {done.stdout.decode()}"


def test_a_release_holds_the_chart_and_nothing_else(tmp_path):
    assert helm("/dev/null", "package", tools.ROOT, "--destination", tmp_path).returncode == 0
    package = next(tmp_path.glob("*.tgz"))
    with tarfile.open(package) as chart:
        names = [name.partition("/")[2] for name in chart.getnames()]
    assert {name.partition("/")[0] for name in names} <= PARTS, "name what is new at the root in .helmignore"
    assert not [name for name in names if "doc-ru" in name]
    assert package.stat().st_size < 200 << 10  # a release is a Secret of at most 1 MiB


BAD = [
    ({"artifacts": {"bucket": ""}}, "aiModels.artifacts.bucket is not set: name the S3 bucket"),
    ({"artifacts": {"endpoint": ""}}, "aiModels.artifacts.endpoint is not set: give the address"),
    ({"artifacts": {"endpoint": "s3.example.com"}}, 'aiModels.artifacts.endpoint is "s3.example.com": it is an address as https://HOST'),
    ({"artifacts": {"endpoint": "https://user:word@s3"}}, "without credentials"),
    ({"artifacts": {"credentialsSecretName": ""}}, "aiModels.artifacts.credentialsSecretName is not set: name the Secret"),
    ({"artifacts": {"capacityLimit": "0"}}, 'aiModels.artifacts.capacityLimit is "0": it must be more than zero'),
    ({"artifacts": {"capacityLimit": "0.0Gi"}}, "must be more than zero"),
    ({"artifacts": {"capacityLimit": "-5Gi"}}, "it is a quantity of bytes as 500Gi"),
    ({"artifacts": {"capacityLimit": "much"}}, "it is a quantity of bytes as 500Gi"),
    ({"artifacts": {"usePathStyle": "yes"}}, "at '/aiModels/artifacts/usePathStyle': got string, want boolean"),
    ({"artifacts": {"buckets": "x"}}, "additional properties 'buckets' not allowed"),
    ({"delivery": {"type": "NodeCache"}}, "aiModels.delivery.type is NodeCache: this version delivers models by SharedPVC only"),
    ({"delivery": {"type": "LocalPVC"}}, "at '/aiModels/delivery/type'"),
    ({"delivery": {"maxConcurrentMaterializations": 0}}, "at '/aiModels/delivery/maxConcurrentMaterializations'"),
    ({"sharedPVC": {}}, "additional properties 'sharedPVC' not allowed"),
    ({"nodeCache": {}}, "additional properties 'nodeCache' not allowed"),
    ({"logLevel": "Loud"}, "at '/aiModels/logLevel'"),
    ({"sources": {"huggingFace": {"endpoint": "hf"}}}, 'aiModels.sources.huggingFace.endpoint is "hf"'),
    ({"sources": {"ollama": {"registry": "ftp://x"}}}, 'aiModels.sources.ollama.registry is "ftp://x"'),
    ({"sources": {"proxy": {"httpsProxy": "proxy"}}}, 'aiModels.sources.proxy.httpsProxy is "proxy"'),
    ({"internal": {"image": ""}}, "aiModels.internal.image is not set: name the image"),
    ({"internal": {"publicationRuntime": {"maxWorkers": 0}}}, "at '/aiModels/internal/publicationRuntime/maxWorkers'"),
]


@pytest.mark.parametrize(("wrong", "words"), BAD, ids=[words for _, words in BAD])
def test_wrong_values_are_refused_in_a_sentence(wrong, words):
    done = helm("/dev/null", "template", tools.ROOT, values=merged({"aiModels": wrong}))
    assert done.returncode != 0 and words in done.stderr.decode()


def test_no_uploads_over_plain_http_from_outside():
    wrong = merged({"global": {"modules": {"publicDomainTemplate": "%s.x.org", "https": {"mode": "Disabled"}}}})
    assert "global.modules.https.mode is Disabled" in helm("/dev/null", "template", tools.ROOT, values=wrong).stderr.decode()


def test_without_a_cluster_no_keys_are_invented():
    names = [one["metadata"]["name"] for one in render(MINIMAL)]
    assert "ai-models-artifacts" not in names and "dmcr" in names
    given = merged({"aiModels": {"internal": {"artifacts": {"accessKey": "a", "secretKey": "s", "ca": "PEM"}}}})
    found = {one["metadata"]["name"]: one for one in render(given) if one["kind"] == "Secret"}
    assert base64.b64decode(found["ai-models-artifacts"]["data"]["secretKey"]) == b"s"
    assert base64.b64decode(found["ai-models-artifacts-ca"]["data"]["ca.crt"]) == b"PEM"


def test_values_of_a_hook_come_first():
    internal = {"rootCA": {"crt": "CA", "key": "CAKEY"}, "dmcr": {"cert": {"crt": "C", "key": "K", "ca": "A"}, "auth": {
        "writePassword": "w", "readPassword": "r", "writeHtpasswd": "ai-models:w", "readHtpasswd": "reader:r", "salt": "s"}}, "controller": {"cert": {"crt": "X", "key": "Y"}}}
    found = {one["metadata"]["name"]: {key: base64.b64decode(value).decode() for key, value in one["data"].items()}
             for one in render(merged({"aiModels": {"internal": internal}})) if one["kind"] == "Secret"}
    assert found["ai-models-dmcr-auth"]["htpasswd"] == "ai-models:w\nreader:r\n" and found["ai-models-dmcr-auth"]["salt"] == "s"
    assert found["ai-models-dmcr-tls"] == {"tls.crt": "C", "tls.key": "K", "ca.crt": "A"} and found["ai-models-ca"] == {"tls.crt": "CA", "tls.key": "CAKEY"}
    assert found["ai-models-controller-webhook-tls"]["tls.crt"] == "X"


def test_values_schema_is_that_of_the_module():
    subprocess.run([tools.ROOT / "tools" / "values-schema", "--check"], check=True)


def described(schema, at=()):
    for name, value in schema.get("properties", {}).items():
        if "description" in value:
            yield (*at, name)
        yield from described(value, (*at, name))


def test_settings_are_described_in_both_languages():
    english, russian = (yaml.safe_load((tools.ROOT / "openapi" / name).read_text()) for name in ("config-values.yaml", "doc-ru-config-values.yaml"))
    assert list(described(english)) == list(described(russian))


def test_alerts_are_well_formed_and_watch_what_is_measured(tmp_path):
    files = sorted((tools.ROOT / "monitoring" / "prometheus-rules").glob("*.yaml"))
    rules = tmp_path / "rules.yaml"
    rules.write_text("groups:\n" + "".join(path.read_text() for path in files))
    subprocess.run([tools.need("promtool"), "check", "rules", rules], check=True, capture_output=True)
    wanted = set(re.findall(r"d8_ai_models_\w+(?=[)}\[{ ])", "".join(line for line in rules.read_text().splitlines() if "expr:" in line)))
    code = "".join(path.read_text() for path in (tools.ROOT / "src").rglob("*.c"))
    assert wanted and not [name for name in wanted if not {f'"{name}"', f'"{name.removeprefix("d8_ai_models_")}"'} & set(re.findall(r'"\w+"', code))]


STORAGE = "d8_ai_models_storage_prerequisites_satisfied"
SEEN = [  # what two replicas measure, minute by minute, and how many alerts there are after 4, 7 and 14
    ({"reason": "Satisfied"}, "1x15", (0, 0, 0)),
    ({"reason": "StorageClassMissing"}, "0x15", (0, 1, 1)),
    ({"reason": "StorageClassMissing"}, "0x8 _x7", (0, 1, 0)),  # mended: the series is another one
]


def test_the_alert_of_storage_comes_after_five_minutes_once_and_goes_by_itself(tmp_path):
    (tmp_path / "rules.yaml").write_text("groups:\n" + (tools.ROOT / "monitoring" / "prometheus-rules" / "storage.yaml").read_text())
    cases = []
    for labels, values, counts in SEEN:
        told = ",".join(f'{name}="{value}"' for name, value in {"delivery_type": "SharedPVC", **labels}.items())
        series = [{"series": f'{STORAGE}{{{told},pod="{pod}"}}', "values": values} for pod in ("a", "b")]
        asked = [{"expr": 'count(ALERTS{alertname="D8AIModelsStoragePrerequisitesNotSatisfied",alertstate="firing"}) or vector(0)',
                  "eval_time": f"{minute}m", "exp_samples": [{"value": count, "labels": "{}"}]} for minute, count in zip((4, 7, 14), counts, strict=True)]
        cases.append({"interval": "1m", "input_series": series, "promql_expr_test": asked})
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": cases}))
    done = subprocess.run([tools.need("promtool"), "test", "rules", tmp_path / "tests.yaml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", VALUES)
def test_the_programs_know_the_options_that_they_are_given(name):
    for deployment in (one for one in render(merged(VALUES[name])) if one["kind"] == "Deployment"):
        applet, *options = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        told = subprocess.run([tools.program(), applet, "--help"], capture_output=True, text=True, check=True).stdout
        known = set(re.findall(r"--[a-z0-9-]+", told))
        assert {option.partition("=")[0] for option in options} <= known


def controller_options(values):
    deployment = next(one for one in render(values) if one["kind"] == "Deployment" and one["metadata"]["name"] == "ai-models-controller")
    return dict(option.removeprefix("--").split("=", 1) for option in deployment["spec"]["template"]["spec"]["containers"][0]["args"] if "=" in option)


def test_the_settings_of_delivery_reach_the_controller():
    plain, full = controller_options(MINIMAL), controller_options(merged(FULL))
    assert (plain["delivery"], plain["max-materializations"]) == ("SharedPVC", "2") and not {"shared-class", "modules-class", "cluster-class"} & plain.keys()
    assert [full[name] for name in ("shared-class", "modules-class", "cluster-class", "max-materializations")] == ["nfs", "all", "local", "5"]
    assert full["materializer-pull-secret"] == "pull" and full["registry-peers"] == "dmcr-peers.d8-ai-models.svc.corp.local:5000"


def test_only_who_asks_for_models_waits_for_the_webhook():
    webhook, = next(one for one in render(MINIMAL) if one["kind"] == "MutatingWebhookConfiguration")["webhooks"]
    assert webhook["failurePolicy"] == "Fail" and webhook["timeoutSeconds"] == 2 and webhook["sideEffects"] == "None"
    assert webhook["namespaceSelector"]["matchExpressions"] == [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["d8-ai-models"]}]
    assert {kind for rule in webhook["rules"] for kind in rule["resources"]} == {"deployments", "statefulsets", "daemonsets", "cronjobs"}
    conditions = {one["name"]: one["expression"] for one in webhook["matchConditions"]}
    assert "ai.deckhouse.io/model'" in conditions["asks-for-models"] and "'system:serviceaccount:d8-ai-models:ai-models-controller'" in conditions["is-not-ours"]


def test_public_routes_only_with_a_host():
    kinds = {one["kind"] for one in render(MINIMAL)}
    assert not kinds & {"Ingress", "HTTPRoute", "Certificate", "PodMonitor", "PrometheusRule"}
    known = ("--api-versions", "cert-manager.io/v1", "--api-versions", "gateway.networking.k8s.io/v1", "--api-versions", "monitoring.coreos.com/v1")
    full = render(merged(FULL), "/dev/null", *known)
    assert {one["kind"] for one in full} >= {"Ingress", "HTTPRoute", "Certificate", "PodMonitor", "PrometheusRule"}
    paths = [path["path"] for one in full if one["kind"] == "Ingress" for rule in one["spec"]["rules"] for path in rule["http"]["paths"]]
    assert paths == ["/v1/upload"]
