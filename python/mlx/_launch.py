"""The commands mlx.launch and mlx.distributed_config, for groups as there are: of one process on this machine.

They take the flags that they have in the `mlx` package. What asks for more than one process, or for another
machine, is refused.
"""

import argparse
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys

BACKENDS = ["ring", "mpi", "nccl", "jaccl", "jaccl-ring"]
HERE = {"127.0.0.1", "::1", "localhost"}


def _positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a positive number, got {text}")
    return number


def _parser(prog, description):
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--verbose", action="store_true", help="say what is done")
    parser.add_argument("--hosts", default="127.0.0.1", help="machines, separated by commas")
    parser.add_argument("--hostfile", help='a JSON file with the machines: [{"ssh": NAME, "ips": [ADDRESS, ...]}, ...]')
    parser.add_argument("--env", action="append", default=[], help="NAME=VALUE for the environment of the processes")
    return parser


def _hosts(parser, args):
    """[{"ssh": name, "ips": [...]}], of which there is one, this machine."""
    if args.hostfile:
        try:
            listed = json.loads(pathlib.Path(args.hostfile).read_text())
            listed = listed["hosts"] if isinstance(listed, dict) else listed
            hosts = [{**host, "ssh": host["ssh"], "ips": list(host.get("ips", []))} for host in listed]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            parser.error(f"{args.hostfile} is no file of hosts: {type(error).__name__}: {error}")
    else:
        hosts = [{"ssh": name, "ips": ["127.0.0.1"]} for name in args.hosts.split(",") if name]
    if len(hosts) != 1 or hosts[0]["ssh"] not in HERE | {socket.gethostname()}:
        names = ", ".join(host["ssh"] for host in hosts) or "none"
        parser.error(f"expected this machine alone, as 127.0.0.1, got {names}: there are no groups of several yet")
    return hosts


def _environment(parser, args):
    pairs = [text.partition("=") for text in args.env]
    for name, equals, _ in pairs:
        if not name or not equals:
            parser.error(f"expected --env NAME=VALUE, got {name}")
    return {**os.environ, **{name: value for name, _, value in pairs}}


def _command(program, *arguments, python, folder):
    """A Python program is run by Python, anything else by itself."""
    found = pathlib.Path(folder, program)
    is_script = found.is_file() and (found.suffix == ".py" or not os.access(found, os.X_OK))
    if python or is_script:
        return [python or sys.executable, program, *arguments]
    return [shutil.which(program) or program, *arguments]


def launch(argv=None):
    """mlx.launch: runs a program as the one process of a group, and ends as that ends."""
    parser = _parser("mlx.launch", "Run a program as a group of processes: for now of one, on this machine.")
    parser.usage = "%(prog)s [flags] PROGRAM [ARGUMENTS...]"
    parser.add_argument("--print-python", action="store_true", help="print the path of this Python and end")
    parser.add_argument("-n", "--repeat-hosts", type=_positive, default=1, help="processes on each machine: 1")
    parser.add_argument("--backend", choices=BACKENDS, metavar="NAME", help=f"{', '.join(BACKENDS)}; not used by one")
    parser.add_argument("--cwd", help="the folder to run in")
    parser.add_argument("--python", help="the Python to run the program with")
    unused = parser.add_argument_group("how processes find each other: not used by one")
    unused.add_argument("--mpi-arg", action="append", default=[])
    unused.add_argument("--connections-per-ip", type=int, default=1)
    unused.add_argument("-p", "--starting-port", type=int, default=32323)
    unused.add_argument("--nccl-port", type=int, default=12345)
    # Flags end where the program begins.
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)

    if args.print_python:
        print(sys.executable)
        return 0
    if not args.command:
        parser.error("expected a program to run")
    _hosts(parser, args)
    if args.repeat_hosts != 1:
        parser.error(f"expected one process, got {args.repeat_hosts}: there are no groups of several yet")
    folder = args.cwd or os.getcwd()
    if not os.path.isdir(folder):
        parser.error(f"expected a folder for --cwd, got {folder}")
    command = _command(*args.command, python=args.python, folder=folder)
    if args.verbose:
        print("mlx.launch: running", *command, file=sys.stderr)
    try:
        code = subprocess.run(command, env=_environment(parser, args), cwd=folder).returncode
    except OSError as error:
        parser.exit(127, f"mlx.launch: cannot run {command[0]}: {error.strerror}\n")
    except KeyboardInterrupt:  # the program got it too
        return 130
    return code if code >= 0 else 128 - code  # as shells tell of signals


def configure(argv=None):
    """mlx.distributed_config: writes the file of hosts that mlx.launch reads."""
    parser = _parser("mlx.distributed_config", "Write a file of hosts for mlx.launch: for now of this machine alone.")
    parser.usage = "%(prog)s [flags]"
    parser.add_argument("--output-hostfile", help="where to write it; otherwise it is printed")
    parser.add_argument("--dot", action="store_true", help="print the machines as a graph for Graphviz, and end")
    parser.add_argument("--backend", choices=["ring", "jaccl", "jaccl-ring"], help="not used by one")
    unused = parser.add_argument_group("how machines are connected: not used by one")
    unused.add_argument("--ignore-unreachable", action="store_true")
    unused.add_argument("--over", choices=["thunderbolt", "ethernet"], default="thunderbolt")
    unused.add_argument("--auto-setup", action=argparse.BooleanOptionalAction)
    args = parser.parse_args(argv)
    hosts = _hosts(parser, args)
    _environment(parser, args)
    if args.dot:
        print(f'graph G {{\n  node [shape=rectangle];\n  a [label="{hosts[0]["ssh"]}"];\n}}')
        return 0
    text = json.dumps(hosts if not args.env else {"hosts": hosts, "envs": args.env}, indent=2) + "\n"
    if not args.output_hostfile:
        print(text, end="")
        return 0
    try:
        pathlib.Path(args.output_hostfile).write_text(text)
    except OSError as error:
        parser.error(f"cannot write {args.output_hostfile}: {error.strerror}")
    if args.verbose:
        print(f"mlx.distributed_config: wrote {args.output_hostfile}", file=sys.stderr)
    return 0
