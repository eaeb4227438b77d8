"""The command mlx.launch, for groups as there are: of one process on this machine.

It takes the flags that it has in the `mlx` package. What asks for more than one process, or for another
machine, is refused.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

from .common import asked_for, environment, log, parser_of, positive_number, refuse_others

BACKENDS = ["ring", "mpi", "nccl", "jaccl", "jaccl-ring"]


def _command(program, *arguments, python, folder):
    """A Python program is run by Python, anything else by itself."""
    found = pathlib.Path(folder, program)
    is_script = found.is_file() and (found.suffix == ".py" or not os.access(found, os.X_OK))
    if python or is_script:
        return [python or sys.executable, program, *arguments]
    return [shutil.which(program) or program, *arguments]


def _alone(parser, hosts, args, command):
    """Run a command on the hosts, as the backends of the `mlx` package do: on this machine alone."""
    try:
        refuse_others(hosts)
    except ValueError as error:
        if parser is None:
            raise
        parser.error(str(error))
    env = {**os.environ, **dict(text.split("=", 1) for text in getattr(args, "env", None) or [])}
    return subprocess.run(command, env=env, cwd=getattr(args, "cwd", None)).returncode


launch_ring = launch_mpi = launch_nccl = launch_jaccl = _alone


def main(argv=None):
    """Runs a program as the one process of a group, and ends as that ends."""
    parser = parser_of("mlx.launch", "Run a program as a group of processes: for now of one, on this machine.")
    parser.usage = "%(prog)s [flags] PROGRAM [ARGUMENTS...]"
    parser.add_argument("--print-python", action="store_true", help="print the path of this Python and end")
    parser.add_argument("-n", "--repeat-hosts", type=positive_number, default=1, help="processes on each machine: 1")
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
    if args.command[:1] == ["--"]:  # which ends the options of this program
        del args.command[0]
    if not args.command:
        parser.error("expected a program to run")
    asked_for(parser, args)
    if args.repeat_hosts != 1:
        parser.error(f"expected one process, got {args.repeat_hosts}: there are no groups of several yet")
    folder = args.cwd or os.getcwd()
    if not os.path.isdir(folder):
        parser.error(f"expected a folder for --cwd, got {folder}")
    command = _command(*args.command, python=args.python, folder=folder)
    log(args.verbose, "mlx.launch: running", *command)
    try:
        code = subprocess.run(command, env=environment(parser, args), cwd=folder).returncode
    except OSError as error:
        parser.exit(127, f"mlx.launch: cannot run {command[0]}: {error.strerror}\n")
    except KeyboardInterrupt:  # the program got it too
        return 130
    return code if code >= 0 else 128 - code  # as shells tell of signals
