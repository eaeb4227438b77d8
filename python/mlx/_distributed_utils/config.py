"""The command mlx.distributed_config, for groups as there are: of one process on this machine."""

import argparse
import json
import pathlib

from .common import asked_for, environment, log, parser_of


def main(argv=None):
    """Writes the file of hosts that mlx.launch reads."""
    parser = parser_of("mlx.distributed_config", "Write a file of hosts for mlx.launch: for now of this machine alone.")
    parser.usage = "%(prog)s [flags]"
    parser.add_argument("--output-hostfile", help="where to write it; otherwise it is printed")
    parser.add_argument("--dot", action="store_true", help="print the machines as a graph for Graphviz, and end")
    parser.add_argument("--backend", choices=["ring", "jaccl", "jaccl-ring"], help="not used by one")
    unused = parser.add_argument_group("how machines are connected: not used by one")
    unused.add_argument("--ignore-unreachable", action="store_true")
    unused.add_argument("--over", choices=["thunderbolt", "ethernet"], default="thunderbolt")
    unused.add_argument("--auto-setup", action=argparse.BooleanOptionalAction)
    args = parser.parse_args(argv)
    found = asked_for(parser, args)
    environment(parser, args)
    if args.dot:
        print(f'graph G {{\n  node [shape=rectangle];\n  a [label="{found.hosts[0].ssh_hostname}"];\n}}')
        return 0
    found.envs += args.env
    text = json.dumps(found.to_json(), indent=2) + "\n"
    if not args.output_hostfile:
        print(text, end="")
        return 0
    try:
        pathlib.Path(args.output_hostfile).write_text(text)
    except OSError as error:
        parser.error(f"cannot write {args.output_hostfile}: {error.strerror}")
    log(args.verbose, f"mlx.distributed_config: wrote {args.output_hostfile}")
    return 0
