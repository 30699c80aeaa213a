"""The frame of the commands: help, errors, options, progress."""

import json
import os
import pty
import re
import select
import signal
import struct
import fcntl
import subprocess
import termios

import pytest

from .conftest import random_tensors, write_model

COMMANDS = ["push", "pull", "inspect", "verify", "list", "rm", "copy", "serve", "upload-gateway", "completion"]


def test_help_of_everything(ai):
    text = ai("--help").stdout
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", text, re.MULTILINE), command
        own = ai(command, "--help").stdout
        assert own.startswith(f"Usage: ai-models {command}") and "Exit status:" in own and "Examples:" in own
        assert ai("help", command).stdout == own
        assert max(map(len, own.splitlines())) <= 120
    assert ai("--version").stdout.startswith("ai-models ")


@pytest.mark.parametrize("line,words", [
    ([], "Usage"),
    (["psuh"], "did you mean push?"),
    (["xyzzy"], "there is no command xyzzy"),
    (["--json", "list"], "options come after the command"),
    (["list", "--jsn"], "did you mean --json?"),
    (["list", "--json=yes"], "takes no value"),
    (["list", "--store"], "needs a value"),
    (["pull", "m"], "an argument is missing"),
    (["list", "a", "b"], "too many arguments"),
    (["list", "--log-format", "xml"], "one of text, json"),
    (["list", "localhost:1/x", "--username", "me"], "needs --password-stdin"),
    (["completion", "fish"], "bash and zsh"),
    (["list", "-Z"], "no option -Z"),
])
def test_wrong_use_ends_with_2(ai, line, words):
    assert words in ai(*line, status=2).stderr


def test_references_that_are_none(ai):
    for text in ("UPPER", "a//b", "a:b:c", "https://name", "a@sha256:12"):
        assert ai("verify", "--json", text, status=3).json["error"]["code"] == "INVALID_ARGUMENT"


def test_errors_as_json(ai):
    result = ai("verify", "--json", "nothing:v1", status=4)
    error = result.json["error"]
    assert error["code"] == "NOT_FOUND" and error["exitStatus"] == 4 and error["message"]
    result = ai("verify", "nothing:v1", "--log-format=json", status=4)
    line = json.loads(result.stderr.splitlines()[-1])
    assert line["level"] == "error" and line["code"] == "NOT_FOUND"


def test_where_the_store_is(ai, model, tmp_path):
    ai("push", model, "m:v1", "--store", tmp_path / "named")
    assert (tmp_path / "named").is_dir() and not ai.store.exists()
    ai("push", model, "m:v1", env={"AI_MODELS_STORE": "", "XDG_DATA_HOME": str(tmp_path / "data")})
    assert (tmp_path / "data" / "ai-models").is_dir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    ai("push", model, "m:v1", "--store", tmp_path / "full", status=3)


def test_quiet_says_nothing_on_stderr(ai, model):
    assert ai("push", "-q", model, "m:v1").stderr == ""
    assert ai("push", model, "m:v1").stderr == ""  # too quick for a calm line


def run_in_terminal(ai, columns, *arguments):
    """Output of the command on a terminal of that width."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = ai.popen(*arguments, stderr=slave, stdout=subprocess.DEVNULL, env={"TERM": "xterm"})
    os.close(slave)
    output = b""
    while select.select([master], [], [], 60)[0]:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        output += piece
    os.close(master)
    assert process.wait(60) == 0
    return output.decode()


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_progress_on_a_terminal(ai, tmp_path, columns):
    big = write_model(tmp_path / "big", random_tensors(3, n=40, size=8 << 20))
    output = run_in_terminal(ai, columns, "push", big, "big:v1")
    frames = [frame for frame in output.split("\r") if frame.strip("\x1b[K\r\n")]
    assert frames, output
    for frame in frames:
        assert len(frame.replace("\x1b[K", "")) < columns, frame
        assert "\n" not in frame
    assert any("%" in frame and "/s" in frame for frame in frames)
    assert output.endswith("\r\x1b[K")


def test_no_progress_with_quiet_or_a_dumb_terminal(ai, model):
    assert "\r" not in run_in_terminal(ai, 80, "push", "-q", model, "m:v1")


def test_the_second_interrupt_does_not_wait(ai):
    process = ai.popen("serve", "--listen", "127.0.0.1:0", stderr=subprocess.PIPE, text=True)
    while "listening" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) in (0, 130)


def test_bash_completion(ai, model, tmp_path):
    ai("push", model, "minilm:v1")
    script = tmp_path / "script"
    script.write_text(ai("completion", "bash").stdout)

    def complete(line):
        words = re.findall(r"[^\s:=]+|[:=]", line) + ([""] if line.endswith(" ") else [])
        code = (f"PATH={tmp_path}:$PATH; source {script}; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}};"
                f"COMP_WORDS=({' '.join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1};"
                "compopt () { :; }; _ai_models; printf '%s\\n' \"${COMPREPLY[@]}\"")
        return subprocess.run(["bash", "-c", code], env=ai.environment(), capture_output=True, text=True,
                              check=True).stdout.split()

    (tmp_path / "ai-models").symlink_to(ai.program)
    assert complete("ai-models pu") == ["push", "pull", "publish"]
    assert "--dry-run" in complete("ai-models push --d")
    assert complete("ai-models list --log-format ") == ["text", "json"]
    assert complete("ai-models inspect min") == ["minilm:v1"]
    assert complete("ai-models inspect minilm:") == ["v1"]
    assert complete("ai-models completion z") == ["zsh"]


def test_zsh_completion_parses(ai, tmp_path):
    zsh = subprocess.run(["sh", "-c", "command -v zsh"], capture_output=True, text=True).stdout.strip()
    if not zsh:
        pytest.skip("no zsh here")
    (tmp_path / "script").write_text(ai("completion", "zsh").stdout)
    subprocess.run([zsh, "-n", tmp_path / "script"], check=True)
