"""What the tests of `make test` find around them (tools/environment.sh)."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_only_what_is_needed_is_inherited():
    kept = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/home/x",
        "CC": "gcc",
        "https_proxy": "http://proxy:1",
        "SSL_CERT_FILE": "/certificates of here",
        "PIP_INDEX_URL": "https://index/simple",
    }
    dropped = ["PYTHONUNBUFFERED", "PYTHONPATH", "PIP_TARGET", "MLX_CPU", "MLX_FUSE", "LANG", "MAKEFLAGS"]
    around = kept | dict.fromkeys(dropped, "1")
    command = ["bash", "-c", ". tools/environment.sh && env -0"]
    done = subprocess.run(command, cwd=ROOT, env=around, capture_output=True, text=True, check=True)
    found = dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
    for name in ("PWD", "SHLVL", "_", "OLDPWD"):  # the shell's own
        found.pop(name, None)
    assert found == kept | {"LC_ALL": "C.UTF-8"}
    for script in ("steps.sh", "test-bare.sh"):
        assert "\n. tools/environment.sh\n" in (ROOT / "tools" / script).read_text()
