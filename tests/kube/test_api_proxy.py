"""The proxy before the API server: what it does to requests is what it says, and our client uses it as it uses the real one."""

import os
import subprocess
import time

import pytest

from harness import api_proxy, kube_api, tools


@pytest.fixture(scope="module")
def api(cluster):
    return kube_api.Api(cluster)


@pytest.fixture
def proxy(cluster):
    with api_proxy.ApiProxy(cluster) as proxy:
        yield proxy


@pytest.fixture
def kubeconfig(cluster, proxy, api, tmp_path):
    """Of an administrator with a token."""
    api.create({"kind": "ServiceAccount", "metadata": {"name": "proxied", "namespace": "default"}}, exist_ok=True)
    api.create({"kind": "ClusterRoleBinding", "metadata": {"name": "proxied"},
                "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"},
                "subjects": [{"kind": "ServiceAccount", "name": "proxied", "namespace": "default"}]}, exist_ok=True)
    path = tmp_path / "kubeconfig"
    path.write_text(kube_api.kubeconfig(cluster, proxy.url, api.token("default", "proxied")))
    return path


def live(kubeconfig, path):
    """One of our client's own tests."""
    program = tools.program().parents[1] / "kube" / "kube_live-test"
    return subprocess.run([program, "-p", f"/kube-live/{path}"], env={**os.environ, "KUBECONFIG": str(kubeconfig)}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)


@pytest.mark.parametrize("name", ["objects", "list", "informer"])
def test_as_without_it(proxy, kubeconfig, name):
    done = live(kubeconfig, name)
    assert done.returncode == 0, done.stdout
    assert "h2" in proxy.versions
    counts = proxy.counted()
    assert counts["create configmaps"] > 0, counts
    if name == "informer":
        assert proxy.counted(match=lambda request: request.is_watch)["watch configmaps"] > 0


def curl(kubeconfig, proxy, api, cluster, path, *options):
    token = api.token("default", "proxied")
    return subprocess.run([tools.need("curl"), "--silent", "--show-error", "--cacert", str(cluster.authority.certificate), "--max-time", "20",
                           "--write-out", "\n%{http_code}", "--header", f"Authorization: Bearer {token}", *options, proxy.url + path],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def config_map(name):
    return '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s"}}' % name


@pytest.mark.parametrize("version", ["--http2", "--http1.1"])
@pytest.mark.parametrize("kind, is_carried_out, told", [
    (None, True, "201"), ("cut", False, "000"), ("reset", False, "000"), ("429", False, "429"), ("500", False, "500"), ("409", False, "409"),
    ("lost", True, "000"), ("half", True, "201"), ("done-504", True, "504"), ("twice", True, "409"), ("slow", True, "201"),
])
def test_each_fault(proxy, kubeconfig, api, cluster, version, kind, is_carried_out, told):
    name = f"x{version.strip('-').replace('.', '')}-{kind or 'none'}".lower()
    if kind:
        proxy.fail(kind, nth=2, match=lambda request: request.resource == "configmaps", how=0.2)
    path = "/api/v1/namespaces/default/configmaps"
    assert curl(kubeconfig, proxy, api, cluster, path, version).stdout.endswith("200")
    done = curl(kubeconfig, proxy, api, cluster, path, version, "--header", "Content-Type: application/json", "--data", config_map(name))
    assert done.stdout.endswith(told), done
    assert (done.returncode == 0) == (told != "000" and kind != "half"), done
    assert (api.get("ConfigMap", "default", name) is not None) == is_carried_out
    assert proxy.requests()[-1].key == "create configmaps" and proxy.log[-1]["fault"] == kind
    api.delete({"kind": "ConfigMap", "metadata": {"namespace": "default", "name": name}})


def test_watches_end(proxy, kubeconfig, api, cluster):
    token = api.token("default", "proxied")
    command = [tools.need("curl"), "--silent", "--no-buffer", "--http1.1", "--cacert", str(cluster.authority.certificate), "--max-time", "20",
               "--header", f"Authorization: Bearer {token}", proxy.url + "/api/v1/namespaces/default/serviceaccounts?watch=1&resourceVersion=0"]
    for last_words in (None, "410"):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
            assert '"ADDED"' in watch.stdout.readline()
            proxy.cut_watches(last_words)
            rest = watch.stdout.read()
            assert ("Expired" in rest) == (last_words is not None), rest


def test_watches_are_late(proxy, kubeconfig, api, cluster):
    proxy.lag = 0.5
    begin = time.monotonic()
    done = curl(kubeconfig, proxy, api, cluster, "/api/v1/namespaces/default/serviceaccounts?watch=1&resourceVersion=0&timeoutSeconds=1")
    assert '"ADDED"' in done.stdout and done.stdout.endswith("200") and time.monotonic() - begin > 1


def test_a_stopped_client_ends_its_watch(proxy, kubeconfig, api, cluster):
    token = api.token("default", "proxied")
    command = [tools.need("curl"), "--silent", "--no-buffer", "--http1.1", "--cacert", str(cluster.authority.certificate), "--max-time", "20",
               "--header", f"Authorization: Bearer {token}", proxy.url + "/api/v1/namespaces/default/serviceaccounts?watch=1&resourceVersion=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
        assert '"ADDED"' in watch.stdout.readline()
        watch.kill()
    api.wait("the watch ends", lambda: not proxy.watches)
