"""The Dockerfile, as far as it can be tried without Docker: what it copies, installs, starts and checks."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import PATIENCE_SECONDS, started

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.slow]

ROOT = Path(__file__).parent.parent.parent


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions with their arguments, continued lines joined."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
    rows = [line.split(maxsplit=1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(name, arguments) for name, arguments in rows]


def arguments_of(name: str) -> list[str]:
    return [arguments for instruction, arguments in instructions() if instruction == name]


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a build is given: what .dockerignore does not keep out."""
    rows = [row for row in (ROOT / ".dockerignore").read_text().splitlines() if row and not row.startswith("#")]
    assert rows[0] == "*"
    folder = tmp_path_factory.mktemp("context")
    for row in rows[1:]:
        if row.startswith("!") and (ROOT / row[1:]).is_dir():
            shutil.copytree(ROOT / row[1:], folder / row[1:], ignore=shutil.ignore_patterns("__pycache__"))
        elif row.startswith("!"):
            shutil.copy(ROOT / row[1:], folder)
    return folder


@pytest.fixture(scope="module")
def installed(context: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as the build installs it, without what it needs, which this environment has already."""
    (command,) = [shlex.split(run) for run in arguments_of("RUN") if "pip install" in run]
    words = [word.replace("/src", str(context)) for word in command[1:]]
    target = tmp_path_factory.mktemp("installed")
    added = ["--quiet", "--no-deps", "--no-build-isolation", "--target", str(target)]
    done = subprocess.run([sys.executable, *words, *added], cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def test_the_last_stage_has_a_user_without_rights_and_no_tools_of_the_build() -> None:
    last = [index for index, (name, _) in enumerate(instructions()) if name == "FROM"][-1]
    stage = instructions()[last:]
    (user,) = [arguments for name, arguments in stage if name == "USER"]
    assert all(int(number) > 999 for number in user.split(":"))
    assert "RUN" not in [name for name, _ in stage]
    assert stage[0][1].endswith("-slim")


def test_what_is_installed_serves_and_is_found_healthy(installed: Path, tmp_path: Path, spoken: Path) -> None:
    entry, (check,) = json.loads(arguments_of("ENTRYPOINT")[0]), arguments_of("HEALTHCHECK")
    program = json.loads(check.partition("CMD ")[2])
    assert entry[:2] == ["ideaw", "serve"]
    start = (
        f"import sys; sys.path.insert(0, {str(installed)!r}); import ideaw.cli, os; "
        f"os.environ['PYTHONPATH'] = {str(installed)!r}; ideaw.cli.main(sys.argv[1:])"
    )
    local = [*entry[1:], "--host", "127.0.0.1", "--port", "0", "--workers", "1"]  # the last host counts
    with started(tmp_path, "-P", "-c", start, *local) as running:
        page = running.client.get("/")
        assert "</html>" in page.text
        scripts = re.findall(r'src="(/static/[^"]+)"', page.text)
        assert scripts
        assert all(running.client.get(script).status_code == 200 for script in scripts)
        marked = running.post("embed", {"message": "hey"}, file=spoken).content
        assert running.post("detect", file=("marked.wav", marked)).json()["message"] == "hey"
        health = [sys.executable, *(word.replace("8017", str(running.port)) for word in program[1:])]
        assert subprocess.run(health, timeout=PATIENCE_SECONDS).returncode == 0
    assert subprocess.run(health, stderr=subprocess.DEVNULL, timeout=PATIENCE_SECONDS).returncode != 0


def test_the_port_that_is_exposed_and_checked_is_the_one_that_is_listened_on() -> None:
    from ideaw.service.settings import DEFAULT_PORT

    assert arguments_of("EXPOSE") == [str(DEFAULT_PORT)]
    assert f":{DEFAULT_PORT}/health" in arguments_of("HEALTHCHECK")[0]
