"""The commands mlx.launch and mlx.distributed_config, with a group of one process."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

import mlx
import pytest
from mlx._distributed_utils.common import Host, Hostfile
from mlx._distributed_utils.launch import launch_ring

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(pathlib.Path(mlx.__path__[0]).parent)}
TESTS = pathlib.Path(__file__).parents[1]
PROGRAM = """
import json, os, sys
import mlx.core as mx
group = mx.distributed.init()
names = ("MLX_RANK", "COLOUR")
told = [group.rank(), group.size(), sys.argv[1:], os.getcwd(), [os.environ.get(name) for name in names]]
print(json.dumps(told))
sys.exit(3 if "fail" in sys.argv else 0)
"""


def call(function, *args):
    module = {"launch": "launch", "configure": "config"}[function]
    code = f"import sys; from mlx._distributed_utils.{module} import main; sys.exit(main())"
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=60)


@pytest.mark.parametrize("name, function", [("mlx.launch", "launch"), ("mlx.distributed_config", "configure")])
def test_flags(name, function):
    """Those of the table of the API."""
    shown = call(function, "--help").stdout
    rows = (TESTS / "api" / "python.tsv").read_text().split("\n")
    flags = [row.split("\t")[0].split(" ")[1] for row in rows if row.startswith(f"{name} -")]
    assert len(flags) > 8 and all(re.search(rf"(?<![\w-]){flag}\b", shown) for flag in flags)


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    return file


def test_a_program_runs(program, tmp_path):
    done = call("launch", "--verbose", program, "--hosts", "mine", "-n", 2)
    assert json.loads(done.stdout) == [0, 1, ["--hosts", "mine", "-n", "2"], os.getcwd(), [None, None]]
    assert done.stderr.startswith("[INFO] mlx.launch: running ") and done.returncode == 0
    done = call("launch", "-n", 1, "--cwd", tmp_path, "--env", "COLOUR=red=ish", "--backend", "ring", program.name)
    assert json.loads(done.stdout) == [0, 1, [], str(tmp_path), [None, "red=ish"]]


def test_other_programs(program):
    assert call("launch", "-n", 1, "printf", "%s.", "-n", "5").stdout == "-n.5."
    assert json.loads(call("launch", sys.executable, program, "x").stdout)[2] == ["x"]
    assert json.loads(call("launch", "-n", 1, "--", sys.executable, program, "--", "x").stdout)[2] == ["--", "x"]
    assert json.loads(call("launch", "--python", sys.executable, program, "y").stdout)[2] == ["y"]
    assert call("launch", "--print-python").stdout.strip() == sys.executable


def test_it_ends_as_the_program_ends(program):
    assert call("launch", program, "fail").returncode == 3
    assert call("launch", "sh", "-c", "kill -TERM $$").returncode == 128 + 15
    done = call("launch", "no-such-program")
    assert done.returncode == 127 and "cannot run no-such-program" in done.stderr


@pytest.mark.parametrize(
    "args, message",
    [
        ([], "expected a program"),
        (["-n", 2, "program"], "expected one process, got 2"),
        (["-n", 0, "program"], "expected a positive number, got 0"),
        (["--hosts", "127.0.0.1,elsewhere", "program"], "got 127.0.0.1, elsewhere: there are no groups of several"),
        (["--hosts", "elsewhere", "program"], "expected this machine alone"),
        (["--backend", "other", "program"], "invalid choice: 'other'"),
        (["--hostfile", "nowhere.json", "program"], "nowhere.json is no file of hosts"),
        (["--env", "NAME", "program"], "expected --env NAME=VALUE, got NAME"),
        (["--cwd", "/nowhere", "program"], "expected a folder for --cwd"),
    ],
)
def test_refused(args, message):
    done = call("launch", *args)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_a_file_of_hosts(program, tmp_path):
    file = tmp_path / "hosts.json"
    assert call("configure", "--over", "ethernet", "--no-auto-setup", "--output-hostfile", file).returncode == 0
    hosts = [{"ssh": "127.0.0.1", "ips": ["127.0.0.1"], "rdma": []}]
    assert json.loads(file.read_text()) == {"backend": "", "envs": [], "hosts": hosts}
    assert json.loads(call("configure", "--hosts", "localhost").stdout)["hosts"][0]["ssh"] == "localhost"
    assert json.loads(call("launch", "--hostfile", file, program).stdout)[1] == 1
    assert '[label="127.0.0.1"]' in call("configure", "--dot").stdout
    file.write_text('[{"ips": []}]')
    assert "is no file of hosts: KeyError: 'ssh'" in call("launch", "--hostfile", file, program).stderr
    assert "there are no groups of several" in call("configure", "--hosts", "a,b").stderr
    assert "cannot write" in call("configure", "--output-hostfile", tmp_path / "no" / "where").stderr


def test_hostfiles(tmp_path):
    """As the `mlx` package reads and writes them."""
    found = Hostfile.from_list("127.0.0.1,b", 2)
    assert [(h.rank, h.ssh_hostname, h.ips, h.rdma) for h in found.hosts] == [
        (0, "127.0.0.1", ["127.0.0.1"], []),
        (1, "127.0.0.1", ["127.0.0.1"], []),
        (2, "b", [], []),
        (3, "b", [], []),
    ]
    file = tmp_path / "hosts.json"
    file.write_text(json.dumps(Hostfile(found.hosts, "ring", ["A=1"]).to_json()))
    assert Hostfile.from_file(file) == Hostfile(found.hosts, "ring", ["A=1"])
    file.write_text('[{"ssh": "a", "ips": ["1.2.3.4"], "rdma": [null]}]')
    assert Hostfile.from_file(file) == Hostfile([Host(0, "a", ["1.2.3.4"], [None])])
    for wrong in ("{}", "[{}]", "x", "[1]"):
        file.write_text(wrong)
        with pytest.raises(ValueError, match="is no file of hosts"):
            Hostfile.from_file(file)
    with pytest.raises(ValueError, match="commas in between"):
        Hostfile.from_list("a,,b")


def test_launching_from_a_program(program, tmp_path):
    args = argparse.Namespace(verbose=False, env=["COLOUR=red"], cwd=str(tmp_path))
    here = Hostfile.from_list("localhost").hosts
    assert launch_ring(None, here, args, [sys.executable, str(program)]) == 0
    assert launch_ring(None, here, args, [sys.executable, str(program), "fail"]) == 3
    with pytest.raises(ValueError, match="there are no groups of several yet"):
        launch_ring(None, Hostfile.from_list("a,b").hosts, args, ["true"])
