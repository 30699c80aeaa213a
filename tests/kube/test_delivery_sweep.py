"""Some lives of a delivery in which one thing goes wrong each; `make soak-deliveries` runs all of them."""

import argparse

from crash import delivery_sweep


def test_lives(delivery):
    options = argparse.Namespace(only=("api", "crash"), sample=None, short=True, seed=None, kinds=("Deployment",))
    sweep = delivery_sweep.Sweep(delivery, options)
    assert sweep.go_through(), "\n".join(sweep.failures)
