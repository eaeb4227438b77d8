"""The tables of `make bench` and `make bench-gpu`: every case of bench/cases by every library that is installed.

    table.py [WORDS] [--device gpu] [--seconds 0.5] [--peers PyTorch,JAX,NumPy] [--avx2] [--markdown FILE]
             [--picture FILE]

Only cases in whose family and name all the words, which are regular expressions, are found are run. Each library works
in a process of its own, family by family, ours before and after the others. A time is the median of its samples; what a
library is compared with is the fastest of the others in the same run. The limit is the time that reading and writing a
case's bytes takes at the speed of a copy, or its sums and products at the speed of the fastest product of large
matrices of that type, whichever is longer, all measured in the run. On a GPU calls are queued one behind the other, for
as long as a sample takes, and waited for at its end: what counts is the device's time or the host's, whichever is
longer, the same for all.

Libraries are PyTorch, JAX, NumPy, `upstream`, which is the mlx package of the Python that MLX_UPSTREAM_PYTHON names,
and `kernels`, which are ours without NVIDIA's libraries. PEER_PYTHON names a Python that has PyTorch.
"""

import argparse
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from cases import LIMITS, load
from peers import PEERS, THREADS, USUAL, written_as

HERE = Path(__file__).parent
# What keeps each library, and those that they are made of, to AVX2, as far as they can be: XLA's products cannot.
AVX2 = {
    "MLX_CPU": "avx2", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "XLA_FLAGS": "--xla_cpu_max_isa=AVX2", "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    "OPENBLAS_CORETYPE": "Haswell",
}  # fmt: skip


# The variables that name another interpreter, which has a library.
PYTHONS = {"PyTorch": "PEER_PYTHON", "upstream": "MLX_UPSTREAM_PYTHON"}


def python_of(peer):
    return os.environ.get(PYTHONS.get(peer, ""), sys.executable)


def environment_of(peer):
    environment = dict(os.environ, OMP_NUM_THREADS=str(THREADS), OPENBLAS_NUM_THREADS=str(THREADS))
    if python_of(peer) != sys.executable:  # whose packages are its own
        environment.pop("PYTHONPATH", None)
    if peer == "kernels":
        environment["MLX_CUDA_LIBRARIES"] = "0"
    return environment


def there_are(peer):
    if peer == "upstream" and "MLX_UPSTREAM_PYTHON" not in os.environ:
        return False
    code = f"import peers; raise SystemExit(not peers.is_installed({peer!r}))"
    try:
        return subprocess.run([python_of(peer), "-c", code], cwd=HERE, env=environment_of(peer)).returncode == 0
    except OSError as e:
        sys.exit(f"{peer}: {e}")


def measure(device, peer, cases, seconds):
    """What a process of that library says of each of the cases that it has an expression for."""
    names = [c.name for c in cases if written_as(peer) in c.run]
    if not names:
        return {}
    done = subprocess.run(
        [python_of(peer), HERE / "measure.py", device, peer, str(seconds)],
        input="\n".join(names), capture_output=True, text=True, env=environment_of(peer),
    )  # fmt: skip
    answers = {a["name"]: a for a in map(json.loads, (s for s in done.stdout.splitlines() if s.startswith("{")))}
    for name in names:
        if name not in answers:
            answers[name] = {"name": name, "error": (done.stderr.strip().splitlines() or ["it ended"])[-1]}
            break
    return answers


def of_two(first, second):
    """Two runs of ours as one."""
    both = {}
    for name, a in first.items():
        b = second.get(name, a)
        both[name] = dict(a)
        if "time" in a and "time" in b:
            both[name]["time"] = statistics.mean([a["time"], b["time"]])
            both[name]["spread"] = max(a["spread"], b["spread"], abs(a["time"] - b["time"]) / 2)
    return both


def families_of(cases):
    """The limits first."""
    families = defaultdict(list)
    for case in sorted(cases, key=lambda c: c.family != LIMITS):
        families[case.family].append(case)
    return families


def compare(device, cases, peers, seconds):
    """By case, what each library says."""
    runs = {peer: measure(device, peer, cases, seconds) for peer in ["ours", *peers]}
    runs["ours"] = of_two(runs["ours"], measure(device, "ours", cases, seconds))
    return {c.name: {peer: answers[c.name] for peer, answers in runs.items() if c.name in answers} for c in cases}


class Row:
    """A case with what came out."""

    def __init__(self, case, results, limits):
        self.case, self.results = case, results
        self.ours = results.get("ours", {}).get("time")
        self.others = {p: r["time"] for p, r in results.items() if p != "ours" and "time" in r}
        self.best = min(self.others, key=self.others.get, default=None)
        self.ratio = self.others[self.best] / self.ours if self.best and self.ours else None
        bounds = [case.moved / limits["bytes"] if limits.get("bytes") else 0,
                  case.operations / limits[case.type] if limits.get(case.type) else 0]  # fmt: skip
        self.limit = max(bounds) / self.ours if self.ours and max(bounds) else None

    def differs(self):
        """Libraries whose sum is not ours."""
        mine = self.results.get("ours", {}).get("checksum")
        if self.case.tolerance is None or mine is None:
            return []
        theirs = {p: r["checksum"] for p, r in self.results.items() if p != "ours" and "checksum" in r}
        return [p for p, x in theirs.items() if not math.isclose(x, mine, rel_tol=self.case.tolerance, abs_tol=1e-6)]


def limits_of(cases, results):
    """Bytes and operations a second, these by the type of the numbers, by the fastest of all."""
    limits = {}
    for case in cases:
        times = [r["time"] for r in results[case.name].values() if "time" in r]
        if times:
            if case.moved and not case.operations:
                limits["bytes"] = max(limits.get("bytes", 0), case.moved / min(times))
            if case.operations:
                limits[case.type] = max(limits.get(case.type, 0), case.operations / min(times))
    return limits


def seconds_as_text(t):
    unit, factor = ("s", 1) if t >= 1 else ("ms", 1e3) if t >= 1e-3 else ("us", 1e6)
    return f"{t * factor:.3g} {unit}"


def as_text(row, peers):
    if row.ours is None:
        return f"{row.case.name:<44} ours failed: {row.results.get('ours', {}).get('error', 'it was not run')}"
    spread = 100 * row.results["ours"]["spread"] / row.ours
    parts = [f"{row.case.name:<44} {seconds_as_text(row.ours):>8} +-{spread:<3.0f}%"]
    parts += [f"{p} {row.others[p] / row.ours:5.2f}" if p in row.others else f"{p}     -" for p in peers]
    if row.limit:
        parts.append(f"{100 * row.limit:3.0f}% of the limit")
    parts += [f"{p}'s numbers differ" for p in row.differs()]
    parts += [f"{p}: {row.results[p]['error']}" for p in peers if "error" in row.results.get(p, {})]
    return "  ".join(parts)


def as_markdown(rows, peers):
    lines = [f"| | ours | {' | '.join(peers)} | of the limit |", "|---" * (len(peers) + 3) + "|"]
    family = None
    for row in rows:
        if row.case.family != family:
            family = row.case.family
            lines.append(f"| **{family}** |{' |' * (len(peers) + 2)}")
        if row.ours is None:
            continue
        cells = [f"{row.others[p] / row.ours:.2f}" if p in row.others else "" for p in peers]
        limit = f"{100 * row.limit:.0f} %" if row.limit else ""
        lines.append(f"| {row.case.name} | {seconds_as_text(row.ours)} | {' | '.join(cells)} | {limit} |")
    return "\n".join(lines)


def draw(rows, path):
    """Each case's fastest peer beside ours, on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [r for r in rows if r.ratio]
    colours = dict(zip(PEERS, ("black", "tab:red", "tab:blue", "tab:green", "tab:gray", "tab:orange"), strict=True))
    figure, axes = plt.subplots(figsize=(9, 0.16 * len(rows) + 1.2))
    for i, row in enumerate(reversed(rows)):
        axes.barh(i, math.log2(row.ratio), color=colours[row.best], height=0.7)
    axes.set_yticks(range(len(rows)), [r.case.name for r in reversed(rows)], fontsize=6)
    ticks = range(-2, 7)
    axes.set_xticks(ticks, [f"{2.0**t:g}" for t in ticks])
    axes.set_xlim(-2.2, 6.2)
    axes.set_ylim(-1, len(rows))
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel("time of the fastest other library over ours")
    used = [p for p in colours if any(r.best == p for r in rows)]
    axes.legend([plt.Rectangle((0, 0), 1, 1, color=colours[p]) for p in used], used, loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=80)


def limit_as_text(what, speed):
    if what == "bytes":
        return f"{speed / 1e9:.1f} GB/s"
    return f"{speed / 1e9:.0f} GFLOP/s" + (f" of {what}" if what else "")


def summary(rows, peers):
    compared = [r for r in rows if r.ratio]
    if not compared:
        return "nothing was compared"
    mean = statistics.geometric_mean([r.ratio for r in compared])
    behind = [r for r in compared if r.ratio < 1]
    lines = [f"{len(compared)} cases, the fastest other library takes {mean:.2f} times our time (geometric mean)"]
    for p in peers:
        ratios = [r.others[p] / r.ours for r in compared if p in r.others]
        if ratios:
            lines.append(f"{p}: {statistics.geometric_mean(ratios):.2f} over {len(ratios)} cases")
    lines.append(f"behind the fastest in {len(behind)}:" if behind else "behind in none")
    lines += [f"  {r.ratio:.2f} {r.best:<8} {r.case.name}" for r in sorted(behind, key=lambda r: r.ratio)]
    return "\n".join(lines)


def machine(device):
    if device == "gpu":
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        try:
            done = subprocess.run(query, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            sys.exit("expected an NVIDIA GPU")
        name, driver = done.stdout.splitlines()[0].split(", ")
        return f"{name}, driver {driver}"
    model = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())  # fmt: skip
    return f"{model}, {THREADS} threads"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("words", nargs="*")
    arguments.add_argument("--device", choices=USUAL, default="cpu")
    arguments.add_argument("--seconds", type=float, default=0.5, help="of each case and library")
    arguments.add_argument("--peers")
    arguments.add_argument("--avx2", action="store_true", help="all libraries are kept to these instructions")
    arguments.add_argument("--markdown", type=Path)
    arguments.add_argument("--picture", type=Path)
    arguments = arguments.parse_args()
    if arguments.avx2:
        os.environ.update(AVX2)
    cases = load(arguments.device)
    words = [re.compile(w, re.IGNORECASE) for w in arguments.words]
    cases = [c for c in cases if c.family == LIMITS or all(w.search(f"{c.family} {c.name}") for w in words)]
    if all(c.family == LIMITS for c in cases):
        sys.exit(f"no case has {' and '.join(map(repr, arguments.words))} in its name")
    asked = arguments.peers.split(",") if arguments.peers else USUAL[arguments.device]
    if not {*asked} <= {*PEERS}:
        sys.exit(f"expected --peers of {', '.join(PEERS)}, got {', '.join({*asked} - {*PEERS})}")
    peers = [p for p in asked if there_are(p)]
    on = machine(arguments.device)
    print(f"{on}; beside {', '.join(peers) or 'nobody'}: their times over ours")
    rows, limits = [], {}
    for family, members in families_of(cases).items():
        results = compare(arguments.device, members, peers, arguments.seconds)
        limits = limits_of(members, results) if family == LIMITS else limits
        told = [Row(c, results[c.name], limits) for c in members]
        print(f"{family}:", *(as_text(row, peers) for row in told), sep="\n  ", flush=True)
        rows += told if family != LIMITS else []
    print("limits:", ", ".join(limit_as_text(*limit) for limit in limits.items()))
    print(summary(rows, peers))
    if arguments.markdown:
        arguments.markdown.write_text(f"{on}\n\n{as_markdown(rows, peers)}\n")
    if arguments.picture:
        draw(rows, arguments.picture)


if __name__ == "__main__":
    main()
