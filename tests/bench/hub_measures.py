"""What is measured of models that come from a hub, and of registries on a bucket. The peer downloads with the hub's own client,
then pushes with ORAS to distribution; both read the same hub, and their buckets are of the same server."""

import contextlib
import time

import far_hub
from harness import clients
from measures import GIB, MIB, OURS, PEER, Measure, client_pull, folder_bytes, gib, sha256_of, weights_of

LINK = far_hub.Link(100 * MIB, 0.020)


# From the hub into a registry


def peer_push(bench, side, scratch, server, address, reference):
    """(wall, CPU) of a download and a push."""
    endpoint, _, name = address.rpartition("/bench/")
    down = clients.HuggingFace(scratch / "home", endpoint).download(f"bench/{name}", scratch / "download")
    up = clients.Oras(scratch / "home").push(reference, scratch / "download")
    bench.note(side, download_seconds=down.seconds, push_seconds=up.seconds)
    return down.seconds + up.seconds, down.cpu_seconds + up.cpu_seconds


def our_push(bench, side, scratch, server, address, reference):
    done = bench.client(scratch).run("push", address, reference)
    bench.note(side, client_peak_rss_mib=done.peak_rss / MIB, server_peak_rss_mib=server.peak_rss() / MIB,
               client_cpu_seconds=done.cpu_seconds)
    return done.seconds, done.cpu_seconds


def hub_push(bench, side, store, link=None, what="decoder"):
    """(wall in seconds, CPU seconds of client and server for a GiB) from the hub into a registry over `store`."""
    _, address, folder = bench.hub(what, link=link)
    with bench.scratch() as scratch, bench.serve(side, store(scratch), scratch) as server:
        before = server.cpu_seconds()
        push = our_push if side == OURS else peer_push
        seconds, cpu = push(bench, side, scratch, server, address, f"{server.host}/bench/model:v1")
        cpu += server.cpu_seconds() - before
        check_there(server, folder)
        server.stop()
    return seconds, cpu / gib(weights_of(folder))


def check_there(server, folder):
    """Whatever was fast must have arrived."""
    digest = sha256_of(weights_of(folder))
    status, headers, _ = server.request("HEAD", f"/v2/bench/model/blobs/sha256:{digest}")
    assert status in (200, 307), status
    assert status == 307 or int(headers["Content-Length"]) == weights_of(folder).stat().st_size


def on_disk(scratch):
    return scratch / "store"


def hub_push_far(bench, side):
    return {"hub-push-far": hub_push(bench, side, on_disk, LINK)[0]}


def hub_push_near(bench, side):
    seconds, cpu = hub_push(bench, side, on_disk)
    return {"hub-push": seconds, "hub-push-cpu": cpu}


def hub_push_s3_far(bench, side):
    with bench.bucket() as bucket:
        return {"hub-push-s3-far": hub_push(bench, side, lambda _: bucket, LINK)[0]}


def hub_push_s3(bench, side):
    with bench.bucket() as bucket:
        seconds, _ = hub_push(bench, side, lambda _: bucket)
        requests = bucket.counted("request_total") / gib(weights_of(bench.data.decoder()))
        stored = sum(bucket.objects().values())
        bench.note(side, bucket_requests_per_gib=requests, bucket_bytes_mib=stored / MIB,
                   written_mib=bucket.counted("bucket_traffic_received_bytes_total") / MIB)
    return {"hub-push-s3": seconds, "s3-requests-push": requests}


# Out of a bucket


def prepared_bucket(bench, side):
    """A bucket that holds the model, pushed once by each side's own client."""
    if (side, "bucket") not in bench.stores:
        bucket = bench.stack.enter_context(bench.bucket())
        with bench.scratch("prepare") as scratch, bench.serve(side, bucket, scratch) as server:
            reference, path = f"{server.host}/bench/model:v1", bench.data.decoder()
            if side == OURS:
                bench.client(scratch).run("push", path, reference)
            else:
                clients.Oras(scratch / "home").push(reference, path)
            server.stop()
        bench.stores[side, "bucket"] = bucket
    return bench.stores[side, "bucket"]


def pull_s3(bench, side):
    bucket = prepared_bucket(bench, side)
    before = bucket.counted("request_total")
    seconds = client_pull(bench, side, store=bucket, path=bench.data.decoder())
    requests = (bucket.counted("request_total") - before) / gib(weights_of(bench.data.decoder()))
    bench.note(side, bucket_requests_per_gib=requests)
    return {"pull-s3": seconds, "s3-requests-pull": requests}


# A second fine-tune


def hub_fine_tune(bench, side):
    """Bytes that the bucket's server received for the second model; the peer's is a copy of all of it."""
    if side == PEER:
        return {"hub-fine-tune-s3": folder_bytes(bench.data.decoder_fine_tune()) / MIB}
    with bench.bucket() as bucket, bench.scratch() as scratch, bench.serve(OURS, bucket, scratch) as server:
        def push(what):
            bench.client(scratch).run("push", bench.hub(what)[1], f"{server.host}/bench/model:{what}")

        push("decoder")
        before = bucket.counted("bucket_traffic_received_bytes_total")
        stored = sum(bucket.objects().values())
        push("decoder_fine_tune")
        written = bucket.counted("bucket_traffic_received_bytes_total") - before
        bench.note(side, stored_mib=(sum(bucket.objects().values()) - stored) / MIB)
        server.stop()
    return {"hub-fine-tune-s3": written / MIB}


# Kills in the middle


def wait_for_bytes(hub, wanted, process):
    end = time.monotonic() + 600
    while hub.sent_bytes < wanted:
        assert process.poll() is None and time.monotonic() < end, "the push ended before its middle"
        time.sleep(0.002)


def restart(bench, victim, store):
    """MiB that the hub sent more than the file has, when client or server is killed in the middle of a push."""
    hub, address, folder = bench.hub("decoder", link=LINK)
    size, begin = weights_of(folder).stat().st_size, hub.sent_bytes
    with bench.scratch() as scratch, contextlib.ExitStack() as stack:
        place = store(scratch)
        server = stack.enter_context(bench.serve(OURS, place, scratch))
        client, arguments = bench.client(scratch), ("push", address, f"{server.host}/bench/model:v1")
        with client.popen(*arguments, log=scratch / "client.log") as pushing:
            wait_for_bytes(hub, begin + size // 2, pushing)
            if victim == "client":
                pushing.kill()
            else:
                server.kill()
                server = stack.enter_context(bench.serve(OURS, place, scratch, port=server.port))
            ended = clients.wait(pushing, 600)
        if ended != 0:
            client.run(*arguments)
        bench.note(OURS, client_went_on=int(ended == 0))
        check_there(server, folder)
        server.stop()
    return (hub.sent_bytes - begin - size) / MIB


def restart_client(bench, _side):
    return {"hub-restart-client": restart(bench, "client", on_disk)}


def restart_server(bench, _side):
    return {"hub-restart-server": restart(bench, "server", on_disk)}


def restart_client_s3(bench, _side):
    with bench.bucket() as bucket:
        return {"hub-restart-client-s3": restart(bench, "client", lambda _: bucket)}


def restart_server_s3(bench, _side):
    with bench.bucket() as bucket:
        return {"hub-restart-server-s3": restart(bench, "server", lambda _: bucket)}


# Memory


def hub_rss(bench, side):
    """Peak of the client and of the server; the "peer" is ourselves with a tenth of the bytes."""
    size = bench.data.synthetic_sizes[0 if side == OURS else 1]
    _, address, _ = bench.hub("synthetic", size)
    with bench.scratch() as scratch, bench.serve(OURS, scratch / "store", scratch) as server:
        done = bench.client(scratch).run("push", address, f"{server.host}/bench/model:v1")
        server_peak = server.peak_rss()
        bench.note(side, push_seconds=done.seconds, gib=size / GIB)
        server.stop()
    return {"hub-rss": done.peak_rss / MIB, "hub-rss-size": done.peak_rss / MIB, "hub-rss-size-server": server_peak / MIB}


HF_ORAS = "hf, ORAS, distribution v3.1.2"
MEASURES = [
    Measure("hub-push-far", hub_push_far, "s", 0.6, "hub → registry on a directory, 2 GiB, hub at 100 MiB/s and 20 ms",
            "хаб → реестр на каталоге, 2 ГиБ, хаб на 100 МиБ/с и 20 мс", HF_ORAS, 3),
    Measure("hub-push", hub_push_near, "s", 0.7, "the same, hub without limit", "то же, хаб без ограничения", HF_ORAS, 3),
    Measure("hub-push-cpu", hub_push_near, "CPU-s/GiB", 0.8, "the same, CPU of clients and server",
            "то же, процессор клиентов и сервера", HF_ORAS, 3),
    Measure("hub-push-s3-far", hub_push_s3_far, "s", 0.6, "hub → registry on S3, 2 GiB, hub at 100 MiB/s and 20 ms",
            "хаб → реестр на S3, 2 ГиБ, хаб на 100 МиБ/с и 20 мс", HF_ORAS, 3),
    Measure("hub-push-s3", hub_push_s3, "s", 0.7, "the same, hub without limit", "то же, хаб без ограничения", HF_ORAS, 3),
    Measure("s3-requests-push", hub_push_s3, "requests/GiB", 200, "the same, requests to the bucket", "то же, запросы к бакету",
            alone=True, runs=3),
    Measure("pull-s3", pull_s3, "s", 0.9, "`ai-models pull`, verified, 2 GiB, registry on S3",
            "`ai-models pull` с проверкой, 2 ГиБ, реестр на S3", "ORAS, distribution v3.1.2", 3),
    Measure("s3-requests-pull", pull_s3, "requests/GiB", 150, "the same, requests to the bucket", "то же, запросы к бакету",
            alone=True, runs=3),
    Measure("hub-fine-tune-s3", hub_fine_tune, "MiB", 0.12, "second fine-tune from the hub, bytes written to the bucket",
            "второе дообучение с хаба, записано в бакет", "full copy", 1),
    Measure("hub-restart-client", restart_client, "MiB", 16, "client killed at 50 %, read again from the hub",
            "клиент убит на 50 %, прочитано с хаба заново", alone=True, runs=2),
    Measure("hub-restart-server", restart_server, "MiB", 72, "server killed at 50 %, read again from the hub",
            "сервер убит на 50 %, прочитано с хаба заново", alone=True, runs=2),
    Measure("hub-restart-client-s3", restart_client_s3, "MiB", 16, "client killed at 50 %, registry on S3, read again",
            "клиент убит на 50 %, реестр на S3, прочитано заново", alone=True, runs=2),
    Measure("hub-restart-server-s3", restart_server_s3, "MiB", 72, "server killed at 50 %, registry on S3, read again",
            "сервер убит на 50 %, реестр на S3, прочитано заново", alone=True, runs=2),
    Measure("hub-rss", hub_rss, "MiB", 400, "client peak RSS, push of 20 GiB from the hub", "пик памяти клиента, отправка 20 ГиБ с хаба",
            alone=True, runs=1),
    Measure("hub-rss-size", hub_rss, "MiB", 1.1, "the same against 2 GiB", "то же против 2 ГиБ", "ours, 2 GiB", 1),
    Measure("hub-rss-size-server", hub_rss, "MiB", 1.1, "server peak RSS, 20 GiB against 2 GiB",
            "пик памяти сервера, 20 ГиБ против 2 ГиБ", "ours, 2 GiB", 1),
]
