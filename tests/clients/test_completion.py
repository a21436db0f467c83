"""trainyard completion bash, as a shell uses it; and that it and --help come at once."""
import subprocess

import pytest
from yard import BINARY, clean_environment


def bash(script):
    result = subprocess.run(["bash", "-c", script], env=clean_environment(), capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and result.stderr == "", result.stderr
    return result.stdout.split()


def test_the_function_completes():
    script = f'''source <("{BINARY}" completion bash)
        complete -p trainyard > /dev/null
        COMP_WORDS=(trainyard ai custom-jobs {{0}}); COMP_CWORD=3; _trainyard; echo "${{{{COMPREPLY[@]}}}}"'''
    assert bash(script.format("s")) == ["stream-logs"]
    assert bash(script.format("''")) == ["create", "list", "describe", "cancel", "stream-logs", "local-run"]
    flags = bash(f'source <("{BINARY}" completion bash); COMP_WORDS=(trainyard ai custom-jobs create --w); COMP_CWORD=4; '
                 '_trainyard; echo "${COMPREPLY[@]}"')
    assert flags == ["--worker-pool-spec="]


def test_jobs_are_completed_live(yard):
    name = yard.create("true", display_name="night-run")
    yard.create("true", display_name="with a space")
    words = yard.trainyard("completion", "words", "--", "ai", "custom-jobs", "describe", "").stdout.split("\n")
    assert name.rsplit("/", 1)[1] in words and "night-run" in words and "with" not in words
    assert yard.trainyard("completion", "words", "--", "why", "nig").stdout == "night-run\n"
    line = f'source <("{BINARY}" completion bash); COMP_WORDS=("{BINARY}" ai custom-jobs describe ni); COMP_CWORD=4; _trainyard; echo "${{COMPREPLY[@]}}"'
    assert yard.run("bash", "-c", line).stdout.split() == ["night-run"]


def test_cancel_offers_what_can_be_cancelled(yard):
    yard.wait(yard.create("true", display_name="over"))
    name = yard.create("sleep", "60", display_name="under-way")
    words = yard.trainyard("completion", "words", "--", "ai", "custom-jobs", "cancel", "").stdout.split()
    assert words == [name.rsplit("/", 1)[1], "under-way"]
    assert "over" in yard.trainyard("completion", "words", "--", "why", "").stdout.split()


@pytest.mark.parametrize("line, words", [
    ("help ''", "serve env ai why"), ("help ai ''", "custom-jobs"), ("help ai custom-jobs ca", "cancel"), ("completion ''", "bash zsh fish"),
    ("config set ''", "project region compute/region"), ("config unset re", "region"), ("config set project ''", ""),
])
def test_what_stands_behind_a_command(line, words):
    count = len(line.split())
    found = bash(f'source <("{BINARY}" completion bash); COMP_WORDS=("{BINARY}" {line}); COMP_CWORD={count}; _trainyard; echo "${{COMPREPLY[@]}}"')
    assert found[:len(words.split())] == words.split() and (words or not found), found


def test_runtimes_are_completed(tmp_path):
    key = "ab" * 32
    folder = tmp_path / "python" / "runtimes" / key
    folder.mkdir(parents=True)
    (folder / ".ready").write_text("host\nPython 3.11\n")
    listed = subprocess.run([BINARY, "runtimes", "list", f"--data={tmp_path}", "--format=value(key)"], capture_output=True, text=True, timeout=60)
    words = subprocess.run([BINARY, "completion", "words", "--", "runtimes", "remove", ""], capture_output=True, text=True, timeout=60,
                           env={**clean_environment(), "TRAINYARD_DATA": str(tmp_path)})
    assert listed.stdout.split() == [key] and words.stdout.split() == [key[:12]]


def test_jobs_of_a_server_that_is_away_are_none(tmp_path):
    result = subprocess.run([BINARY, "completion", "words", "--", "why", ""], capture_output=True, text=True, timeout=60,
                            env={**clean_environment(), "TRAINYARD_URL": "http://127.0.0.1:1", "TRAINYARD_DATA": str(tmp_path)})
    assert (result.returncode, result.stdout) == (1, "")


def test_zsh(yard):
    if subprocess.run(["which", "zsh"], capture_output=True).returncode != 0:
        pytest.skip("zsh is not on this machine")
    yard.create("true", display_name="night-run")
    script = f'''compdef() {{ :; }}; compadd() {{ print -r -- "$*"; }}; source <("{BINARY}" completion zsh)
        words=("{BINARY}" why ni); CURRENT=3; _trainyard; words=("{BINARY}" ai custom-jobs c); CURRENT=4; _trainyard'''
    assert "night-run" in (result := yard.run("zsh", "-f", "-c", script)).stdout and "create cancel" in result.stdout
