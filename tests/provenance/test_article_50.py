"""The page "Article 50 with ideaw" does what it says: its commands run in their order, in an empty folder."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/users/article-50.md"

PORT_OF_PAGE = "8017"


def commands() -> str:
    """All commands of the page that can be run anywhere."""
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", PAGE.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE))


def free_port() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return str(taken.getsockname()[1])


@pytest.mark.slow
@pytest.mark.xdist_group("service")
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_of_the_page_run_in_their_order(tmp_path: Path) -> None:
    programs = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    script = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + commands()
    script = script.replace(PORT_OF_PAGE, free_port()).replace("ideaw serve", "ideaw serve --workers 1")
    command = ["bash", "-euxo", "pipefail", "-c", script]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    said = ran.stdout
    assert re.search(r"marked\.flac: has the id [0-9a-f]{8}, signed by ideaw TEST", said)
    assert "marked.flac: authentic: " in said
    assert "(trusted: " in said
    assert said.count("copy.wav: authentic: ") == 2
    assert said.count("its manifest was stripped") == 3
    assert '"status":"authentic"' in said
    assert (tmp_path / "evidence.html").stat().st_size > 10_000
