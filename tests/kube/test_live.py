"""Tests of src/kube, src/cluster and src/controllers that need a real API server."""

import os
import re
import subprocess

import pytest

from harness import tools


def run(cluster, path, name="kube/kube_live-test"):
    program = tools.program().parents[1] / name
    done = subprocess.run([program, "-p", path], env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"^ok 1 ", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.parametrize("name", ["objects", "patches", "delete", "list", "informer", "informer-take", "leader", "events", "access", "token-file"])
def test_live(cluster, name):
    run(cluster, f"/kube-live/{name}")


@pytest.mark.parametrize("name", ["missing", "writers", "nothing-new", "spoilt"])
def test_ledger(cluster, name):
    run(cluster, f"/ledger-live/{name}", "cluster/ledger_live-test")


@pytest.mark.parametrize("name", ["whole", "holders", "hold-gone", "release-unbound", "foreign", "refusal", "failed", "turns", "turns-of-others", "collected",
                                  "held-again", "left-over"])
def test_claims(cluster, name):
    run(cluster, f"/claims-live/{name}", "controllers/claims_live-test")


def test_forgotten_version(cluster):
    cluster.restart_api_server()
    run(cluster, "/kube-live/forgotten-version")
