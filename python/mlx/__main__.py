"""`python -m mlx`: where the C library that comes with this package lies, for build systems; what it runs on."""

import argparse
import os

import mlx

# Not realpath: beside a package that is linked into place lie the libraries it was built with.
HERE = os.path.dirname(os.path.abspath(mlx.__file__))


def info():
    """Lines about the release, its devices, and the libraries it looked for."""
    import mlx.core as mx

    libraries = mx.cuda.libraries()
    yield f"mlx {mx._release}"
    for kind in (mx.cpu, mx.gpu):
        for i in range(mx.device_count(kind)):
            facts = mx.device_info(mx.Device(kind, i))
            yield f"{kind.name} {i}: {facts['device_name']}, {facts['architecture']}"
    default = mx.default_device()
    yield f"default: {default.type.name} {default.index}"
    if not mx.device_count(mx.gpu):
        yield "gpu: none" if libraries else "gpu: none; built without kernels for NVIDIA GPUs"
    for name, facts in libraries.items():
        if facts is None:
            yield f"{name}: not found"
        else:
            used_for = facts["used_for"] or "nothing here"
            yield f"{name}: {facts['version']}, {facts['path']}; used for {used_for}"


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m mlx", description=__doc__)
    places = {
        "--cmake-dir": (("lib", "cmake", "MLX"), "folder for find_package(MLX CONFIG)"),
        "--include-dir": (("include",), "folder of the C headers"),
        "--lib-dir": (("lib",), "folder of the libraries"),
    }
    group = parser.add_mutually_exclusive_group(required=True)
    for option, (path, text) in places.items():
        group.add_argument(option, action="store_const", dest="answer", const=os.path.join(HERE, *path), help=text)
    group.add_argument("--version", action="store_const", dest="answer", const=None, help="version of the package")
    group.add_argument("--info", action="store_true", help="devices, and the libraries that were found for them")
    given = parser.parse_args(argv)
    if given.info:
        print(*info(), sep="\n")
    elif given.answer is None:
        import mlx.core

        print(mlx.core._release)
    else:
        print(given.answer)


if __name__ == "__main__":
    main()
