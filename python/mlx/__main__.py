"""`python -m mlx`: where the C library that comes with this package lies, for build systems."""

import argparse
import os

import mlx

# Not realpath: beside a package that is linked into place lie the libraries it was built with.
HERE = os.path.dirname(os.path.abspath(mlx.__file__))


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
    answer = parser.parse_args(argv).answer
    if answer is None:
        import mlx.core

        answer = mlx.core._release
    print(answer)


if __name__ == "__main__":
    main()
