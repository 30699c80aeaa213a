"""Repositories as each family of models publishes them, from the local hub: what is found out about them, what is taken, what is
left out and why."""

import pytest

from servers.families import families
from servers.hf_hub import Hub

from .conftest import tree

FAMILIES = families()


@pytest.fixture(scope="module")
def hub():
    with Hub(page=4) as hub:
        for name, family in FAMILIES.items():
            hub.add(f"family/{name}", family.files, info=family.info)
        yield hub


@pytest.mark.parametrize("name", FAMILIES)
def test_family(ai, hub, tmp_path, name):
    family = FAMILIES[name]
    where, environment = f"{hub.endpoint}/family/{name}{family.where}", {"HF_ENDPOINT": hub.endpoint}
    planned = ai("push", "--json", "--dry-run", *family.options, where, "m", env=environment).json
    answer = ai("push", "--json", *family.options, where, "m", env=environment).json
    assert {key: answer.get(key) for key in family.facts} == family.facts
    files = [{key: value for key, value in file.items() if key != "digest"} for file in answer["files"]]  # known once it was read
    assert planned["files"] == files and planned["logicalBytes"] == answer["logicalBytes"]
    listed = {file["path"]: file for file in answer["files"]}
    left_out = {path for path, file in listed.items() if not file["kept"]}
    if not family.where:  # else what is elsewhere in the repository is no part of the list
        assert left_out == family.left_out.keys()
    assert {path: listed[path]["why"] for path, word in family.left_out.items() if word not in listed[path]["why"]} == {}
    ai("pull", "m", tmp_path / "out")
    assert tree(tmp_path / "out").keys() == listed.keys() - left_out
    assert sum(map(len, tree(tmp_path / "out").values())) == answer["logicalBytes"]
    facts, same = ai("inspect", "--json", "m").json, ("format", "architecture", "family", "quantization", "parameterCount")
    assert {key: facts.get(key) for key in same} == {key: answer.get(key) for key in same}


def test_the_first_part_alone_is_no_model(ai, hub):
    """Of a split GGUF any part names the whole set (pitfalls C64)."""
    part = f"{hub.endpoint}/family/gguf-split/blob/main/Q8_0/Tiny-Q8_0-00002-of-00003.gguf"
    answer = ai("push", "--json", part, "m", env={"HF_ENDPOINT": hub.endpoint}).json
    assert len([file for file in answer["files"] if file["kept"]]) == 3
