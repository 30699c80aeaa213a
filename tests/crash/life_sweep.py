"""What sweeps over lives have in common: something lives from its creation to its end in the module (harness/deployment.py), again and
again, with one thing going wrong each time; every life is told of in one table."""

import argparse
import collections
import contextlib
import random
import signal
import sys
import time

from harness import api_proxy, deployment

# A 403, 404 or 400 from the API server is no passing trouble, and an answer of another is no test of ours.
API_KINDS = [kind for kind in api_proxy.KINDS if kind not in ("400", "401", "403", "404")]


def is_counted(request):
    """What a life asks for; leases go on by the clock."""
    return not request.is_watch and request.resource != "leases"


def is_write(request):
    return request.is_write and is_counted(request)


def keep_running(module):
    """A controller that was killed is started again."""
    if not module.controllers[0].is_running():
        module.restart_controller()


def wait(module, holds, story, timeout):
    end = time.monotonic() + timeout
    while not (found := holds()):
        keep_running(module)
        assert not module.runner.faults, module.runner.faults
        assert time.monotonic() < end, f"not within {timeout} s: {story() if callable(story) else story}"
        time.sleep(0.02)
    return found


class Sweep:
    """`new_life()` gives what has live(); `measure()` fills `counts` and `writes` by the names of proxies()."""

    SHORT = 6  # lives of each kind

    def __init__(self, module, options):
        self.module, self.options, self.random = module, options, random.Random(options.seed)
        self.failures, self.times, self.rows = [], collections.defaultdict(list), collections.Counter()
        self.counts, self.writes, self.group = {}, {}, ""

    def new_life(self):
        raise NotImplementedError

    def proxies(self):
        return {"controller": self.proxy}

    @property
    def proxy(self):
        return self.module.controllers[0].proxy

    def chosen(self, cases, short=None):
        cases, most = list(cases), (self.SHORT if short is None else short) if self.options.short else self.options.sample
        if most is not None and len(cases) > most:
            cases = sorted(self.random.sample(cases, most), key=cases.index)
        return cases

    def run(self, group, what, arm, disarm=lambda: None):
        """One life with `arm()` before; it gives the Fault that is to be hit, or None."""
        begin = time.monotonic()
        fault, ending, self.group = None, "passed", group
        try:
            fault = arm()
            self.new_life().live()
            if fault is not None and fault.n_hits == 0:
                ending = "not met"
        except Exception as error:  # noqa: BLE001: every life is told of
            ending = "failed"
            hit = f", at {getattr(fault.hit, 'key', fault.hit)} {getattr(fault.hit, 'name', '')}" if fault is not None and fault.hit else ""
            self.failures.append(f"{group}: {what}{hit}: {error}")
            print(f"FAILED {self.failures[-1][:6000]}", flush=True)
        finally:
            with contextlib.suppress(Exception):
                disarm()
            self.module.heal()
        self.rows[group, ending] += 1
        self.times[group].append(time.monotonic() - begin)

    # What goes wrong

    def api(self):
        for part in self.proxies():
            cases = [(kind, n) for kind in API_KINDS for n in range(1, self.counts[part] + 1)]
            for kind, n in self.chosen(cases):
                self.run(f"api, {part}, {kind}", f"request {n}", lambda: self.proxies()[part].fail(kind, n, is_counted, how=1))
        for n in self.chosen(range(1, self.counts["controller"] + 1), self.SHORT // 3):
            for last_words in (None, "410"):
                self.run(f"api, controller, watches end{' with 410' if last_words else ''}", f"at request {n}", lambda: self.proxy.fail(
                    "call", n, is_counted, how=lambda: self.proxy.cut_watches(last_words)))

        for lag in (0.2,) if self.options.short else (0.2, 1, 3):
            self.run("api, controller, watches are late", f"by {lag} s", lambda: setattr(self.proxy, "lag", lag))

    def crash(self):
        controller = self.module.controllers[0]
        for n in self.chosen(range(1, self.writes["controller"] + 1)):
            self.run("crash, controller", f"write {n}", lambda: self.proxy.fail("call", n, is_write, how=controller.kill))

    def handover(self):
        first = self.module.controllers[0]
        ways = {"ends": lambda: first.process.send_signal(signal.SIGTERM), "is killed": self.kill_first,
                "is held still": lambda: first.process.send_signal(signal.SIGSTOP)}
        for how, act in ways.items():
            cases = range(1, self.writes["controller"] + 1)
            if how == "is held still":  # until its lease is over
                cases = self.random.sample(cases, 4)
            for n in sorted(self.chosen(cases, 0 if how == "is held still" else 1)):
                self.run(f"handover, the first {how}", f"write {n}", lambda: self.arm_handover(n, act), self.end_handover)

    def is_led(self):
        lease = self.module.api.get("Lease", deployment.NAMESPACE, deployment.LEASE)
        return lease is not None and lease["spec"].get("holderIdentity")

    def kill_first(self):
        self.module.controllers[0].kill()
        self.module.free_lease()

    def arm_handover(self, nth, act):
        self.module.api.wait("the first leads", self.is_led)
        self.module.start_controller("second")
        return self.module.controllers[0].proxy.fail("call", nth, is_write, how=act)

    def end_handover(self):
        with contextlib.suppress(ProcessLookupError):
            self.module.controllers[0].process.send_signal(signal.SIGCONT)

    # The end

    def tell(self):
        groups = sorted({group for group, _ in self.rows})
        print(f"\n{'':52} {'passed':>7} {'failed':>7} {'not met':>8} {'median s':>9}")
        for group in groups:
            times = sorted(self.times[group])
            print(f"{group:52} " + " ".join(f"{self.rows[group, ending]:{width}}" for ending, width in (("passed", 7), ("failed", 7), ("not met", 8)))
                  + f" {times[len(times) // 2]:9.1f}")
        for failure in self.failures:
            print(f"FAILED {failure.splitlines()[0]}")
        count = collections.Counter(ending for (_, ending), n in self.rows.items() for _ in range(n))
        print(f"{count['passed']} passed, {count['failed']} failed")
        return count["failed"] == 0 and count["passed"] > 0

    def go_through(self):
        """All that was asked for; whether it was good."""
        print(f"seed {self.options.seed}", flush=True)
        self.measure()
        is_good = False
        try:
            for part in self.options.only:
                getattr(self, part)()
        finally:  # also when somebody has seen enough
            is_good = self.tell()
        return is_good


PARTS = ("api", "crash", "handover")


def parser(description):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left running
    found = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    found.add_argument("--sample", type=int)
    found.add_argument("--short", action="store_true")
    found.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    return found


def end(is_good):
    sys.exit(0 if is_good else 1)
