"""The machines of a group of processes, and the files that list them."""

import argparse
import ipaddress
import json
import os
import pathlib
import socket
import sys
from dataclasses import dataclass, field

HERE = {"127.0.0.1", "::1", "localhost"}


@dataclass
class Host:
    """A process: its number, the name of its machine for ssh, addresses of that, and RDMA devices to the others."""

    rank: int
    ssh_hostname: str
    ips: list[str]
    rdma: list[str | list[str] | None]


@dataclass
class Hostfile:
    """Processes, the backend that connects them, and NAME=VALUE for their environment.

    A file of them is JSON: a list of {"ssh": NAME, "ips": [ADDRESS, ...], "rdma": [...]}, or that list as
    "hosts" beside "backend" and "envs".
    """

    hosts: list[Host]
    backend: str = ""
    envs: list[str] = field(default_factory=list)

    @classmethod
    def from_file(cls, hostfile) -> "Hostfile":
        """What the file lists; ValueError where it is no such file."""
        try:
            read = json.loads(pathlib.Path(hostfile).read_text())
            listed = read if isinstance(read, dict) else {"hosts": read}
            hosts = [
                Host(i, host["ssh"], list(host.get("ips", [])), list(host.get("rdma", [])))
                for i, host in enumerate(listed["hosts"])
            ]
            return cls(hosts, listed.get("backend", ""), list(listed.get("envs", [])))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{hostfile} is no file of hosts: {type(error).__name__}: {error}") from None

    @classmethod
    def from_list(cls, hostlist: str, repeats: int = 1) -> "Hostfile":
        """`repeats` processes on each of the machines, whose names or addresses commas separate."""
        hosts = []
        for name in hostlist.split(","):
            if not name:
                raise ValueError(f"expected names of machines with commas in between, got {hostlist!r}")
            hosts += [Host(len(hosts) + i, name, _addresses(name), []) for i in range(repeats)]
        return cls(hosts)

    def to_json(self) -> dict:
        """What a file of them holds, as `json` takes it."""
        hosts = [{"ssh": host.ssh_hostname, "ips": host.ips, "rdma": host.rdma} for host in self.hosts]
        return {"backend": self.backend, "envs": self.envs, "hosts": hosts}


def _addresses(name):
    try:
        return [str(ipaddress.ip_address(name))]
    except ValueError:
        return []


class NotPositive(argparse.ArgumentTypeError, ValueError):
    """What argparse shows as it is."""


def positive_number(x: str) -> int:
    """An int of at least 1, for argparse."""
    if int(x) < 1:
        raise NotPositive(f"expected a positive number, got {x}")
    return int(x)


def log(verbose, *args, **kwargs):
    """Tell on stderr what is done, if that is wanted."""
    if verbose:
        print("[INFO]", *args, **{"file": sys.stderr, **kwargs})


def log_warning(*args, **kwargs):
    print("[WARN]", *args, **{"file": sys.stderr, **kwargs})


def log_error(*args, **kwargs):
    print("[ERROR]", *args, **{"file": sys.stderr, **kwargs})


# ------------------------------------------------------------------ what both commands share


def parser_of(prog, description):
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--verbose", action="store_true", help="say what is done")
    parser.add_argument("--hosts", default="127.0.0.1", help="machines, separated by commas")
    parser.add_argument("--hostfile", help='a JSON file with the machines: [{"ssh": NAME, "ips": [ADDRESS, ...]}, ...]')
    parser.add_argument("--env", action="append", default=[], help="NAME=VALUE for the environment of the processes")
    return parser


def asked_for(parser, args):
    """The Hostfile of the arguments, of one host, this machine; else the parser's error."""
    try:
        found = Hostfile.from_file(args.hostfile) if args.hostfile else Hostfile.from_list(args.hosts)
        refuse_others(found.hosts)
    except ValueError as error:
        parser.error(str(error))
    return found


def refuse_others(hosts):
    """ValueError for more than one process, or another machine than this."""
    if len(hosts) != 1 or hosts[0].ssh_hostname not in HERE | {socket.gethostname()}:
        names = ", ".join(host.ssh_hostname for host in hosts) or "none"
        raise ValueError(f"expected this machine alone, as 127.0.0.1, got {names}: there are no groups of several yet")


def environment(parser, args):
    """That of this process with what --env adds."""
    pairs = [text.partition("=") for text in args.env]
    for name, equals, _ in pairs:
        if not name or not equals:
            parser.error(f"expected --env NAME=VALUE, got {name}")
    return {**os.environ, **{name: value for name, _, value in pairs}}
