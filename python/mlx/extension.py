"""Building modules of one's own against the C library in this package, with setuptools.

In a ``setup.py``, for a project with a ``CMakeLists.txt`` that calls ``find_package(MLX CONFIG)``::

    from mlx import extension
    from setuptools import setup

    setup(
        name="mine",
        packages=["mine"],
        ext_modules=[extension.CMakeExtension("mine._ext")],
        cmdclass={"build_ext": extension.CMakeBuild},
    )

and for one or a few files in C, ``ext_modules=[setuptools.Extension("mine", ["mine.c"])]`` with
``cmdclass={"build_ext": extension.BuildExtension}``.
"""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence

try:
    from setuptools import Extension
    from setuptools.command.build_ext import build_ext
    from setuptools.errors import CompileError
except ImportError as error:
    raise ImportError(
        f"[mlx.extension] setuptools is needed to build extensions ({error}); pip install setuptools"
    ) from error

__all__ = ["BuildExtension", "CMakeBuild", "CMakeExtension", "MetalExtension", "MetalLibrary"]

# As in __main__: beside a package that is linked into place lie the libraries it was built with.
HERE = pathlib.Path(os.path.abspath(__file__)).parent


def _library(path):
    """A folder of the C library in this package."""
    folder = HERE.joinpath(*path)
    if not folder.is_dir():
        raise RuntimeError(f"[mlx.extension] the C library is missing from this mlx package: no folder {folder}")
    return folder


def _rpath(name):
    """Where a module finds its libraries once it is installed: beside itself, and in mlx beside its package."""
    return ["$ORIGIN", "$ORIGIN/" + "../" * name.count(".") + "mlx/lib"]


class CMakeExtension(Extension):
    """A module that CMake builds.

    Args:
        name: The module's full name, such as ``"package._ext"``. Its folder is where all libraries of the
            project go.
        sourcedir: The folder of the ``CMakeLists.txt``.
    """

    def __init__(self, name: str, sourcedir: str = "") -> None:
        super().__init__(name, sources=[])
        self.sourcedir = os.fspath(pathlib.Path(sourcedir).resolve())


class CMakeBuild(build_ext):
    """The command ``build_ext`` for extensions of type :class:`CMakeExtension`.

    The project is told where this package has its library (``MLX_DIR``, ``MLX_ROOT``), which Python it is
    for (``Python_EXECUTABLE``) and where its libraries go (``CMAKE_LIBRARY_OUTPUT_DIRECTORY``). ``-j N``,
    ``--debug`` and ``--inplace`` do what they do elsewhere. In the environment, ``CMAKE_ARGS`` holds further
    arguments for CMake, which win over those given here, and ``DEBUG=1`` is ``--debug``; Ninja is used where
    it is found, or else what ``CMAKE_GENERATOR`` names.
    """

    def run(self) -> None:
        # setuptools builds elsewhere and copies the one file of each extension that it knows of; a project's
        # libraries stay together, so they are built in place.
        self._inplace = bool(self.inplace)
        super().run()

    def copy_extensions_to_source(self) -> None:
        others = [ext for ext in self.extensions if not isinstance(ext, CMakeExtension)]
        self.extensions, kept = others, self.extensions
        try:
            super().copy_extensions_to_source()
        finally:
            self.extensions = kept

    def _folder(self, ext):
        inplace, self.inplace = self.inplace, getattr(self, "_inplace", self.inplace)
        try:
            return pathlib.Path(self.get_ext_fullpath(ext.name)).parent.resolve()
        finally:
            self.inplace = inplace

    def get_outputs(self):
        """The files built, for ``install --record``: all that CMake put beside the modules."""
        names = set(super().get_outputs())
        for ext in self.extensions:
            if isinstance(ext, CMakeExtension):
                names.discard(self.get_ext_fullpath(ext.name))
                folder = pathlib.Path(self.get_ext_fullpath(ext.name)).parent
                names.update(map(os.fspath, folder.glob("*.so")))
        return sorted(names)

    def _configure(self, cmake, ext, folder):
        debug = self.debug or os.environ.get("DEBUG", "0") not in ("", "0")
        arguments = [
            f"-DCMAKE_BUILD_TYPE={'Debug' if debug else 'Release'}",
            f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={folder}",
            "-DBUILD_SHARED_LIBS=ON",
            f"-DMLX_DIR={_library(['lib', 'cmake', 'MLX'])}",
            f"-DMLX_ROOT={_library(['lib', 'cmake', 'MLX'])}",
            f"-DPython_EXECUTABLE={sys.executable}",
        ]
        if getattr(self, "_inplace", self.inplace):
            # And, by CMake itself, the folders of what is linked.
            arguments += ["-DCMAKE_BUILD_RPATH=$ORIGIN", "-DCMAKE_BUILD_WITH_INSTALL_RPATH=OFF"]
        else:
            # What is installed elsewhere holds no path of this machine, or of a build environment that goes away.
            arguments += [f"-DCMAKE_INSTALL_RPATH={';'.join(_rpath(ext.name))}", "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON"]
        if not os.environ.get("CMAKE_GENERATOR") and shutil.which("ninja"):
            arguments += ["-G", "Ninja"]
        arguments += shlex.split(os.environ.get("CMAKE_ARGS", ""))
        return [cmake, "-S", ext.sourcedir, *arguments]

    def build_extension(self, ext: CMakeExtension) -> None:
        if not isinstance(ext, CMakeExtension):
            super().build_extension(ext)
            return
        cmake = shutil.which("cmake")
        if not cmake:
            raise RuntimeError(f"[CMakeBuild] cmake is needed to build {ext.name}; pip install cmake, or your system's")
        if not (pathlib.Path(ext.sourcedir) / "CMakeLists.txt").is_file():
            raise RuntimeError(
                f"[CMakeBuild] expected a CMakeLists.txt in {ext.sourcedir}, the sourcedir of {ext.name}"
            )
        folder = self._folder(ext)
        build = (pathlib.Path(self.build_temp) / ext.name).resolve()
        build.mkdir(parents=True, exist_ok=True)
        compile = [cmake, "--build", build]
        if self.parallel:
            compile += ["--parallel", str(int(self.parallel))]
        elif not os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL"):
            compile += ["--parallel", str(os.cpu_count() or 1)]
        for command in ([*self._configure(cmake, ext, folder), "-B", build], compile):
            command = list(map(str, command))
            self.announce(shlex.join(command), level=2)
            try:
                subprocess.run(command, check=True)
            except subprocess.CalledProcessError as error:
                raise CompileError(f"[CMakeBuild] {ext.name}: cmake failed with status {error.returncode}") from None
        if not any(folder.glob(ext.name.rpartition(".")[2] + "*.so")):
            self.warn(f"[CMakeBuild] CMake left no module for {ext.name} in {folder}")


def _paths(sources):
    return [os.fspath(s) for s in ([sources] if isinstance(sources, (str, os.PathLike)) else sources)]


def _is_metal(source):
    return source.endswith(".metal")


class MetalLibrary:
    """A library of Metal kernels in a :class:`MetalExtension`.

    Args:
        name: The library's name.
        sources: Its ``.metal`` files.
        extra_compile_args: For the Metal compiler.
        deployment_target: The macOS version it is built for.
    """

    def __init__(
        self,
        name: str,
        sources: Sequence[os.PathLike[str] | str],
        *,
        extra_compile_args: Sequence[str] = (),
        deployment_target: str | None = None,
    ) -> None:
        if not name or "/" in name or "\\" in name:
            raise ValueError(f"[MetalLibrary] expected the name of a file as the library's, got {name!r}")
        self.name = name
        self.sources = _paths(sources)
        if not self.sources or not all(map(_is_metal, self.sources)):
            raise ValueError(f"[MetalLibrary] expected .metal files as sources, got {self.sources}")
        self.extra_compile_args = list(extra_compile_args)
        self.deployment_target = deployment_target


class MetalExtension(Extension):
    """A module of C or C++ with kernels for Apple's GPUs.

    It can be described anywhere, so that one ``setup.py`` serves all systems; building it takes a Mac.
    :class:`BuildExtension` refuses it here, or leaves it out where it is ``optional=True``.

    Args:
        name: The module's full name.
        sources: C or C++ files, and ``.metal`` files unless `metal_libraries` has them.
        metal_libraries: The libraries of kernels. Default: one of the ``.metal`` files, named as the module.
        args: As setuptools' ``Extension`` takes them.
        kwargs: As setuptools' ``Extension`` takes them. ``extra_compile_args`` may be a dict with ``"cxx"``
            and ``"metal"``.
    """

    def __init__(
        self,
        name: str,
        sources: Sequence[os.PathLike[str] | str],
        *args,
        metal_libraries: Sequence[MetalLibrary] | None = None,
        **kwargs,
    ) -> None:
        sources = _paths(sources)
        metal = list(filter(_is_metal, sources))
        others = [s for s in sources if not _is_metal(s)]
        unknown = [s for s in others if not s.endswith((".c", ".cc", ".cpp", ".cxx"))]
        if unknown:
            raise ValueError(f"[MetalExtension] expected C, C++ and .metal files as sources, got {', '.join(unknown)}")
        if not others:
            raise ValueError("[MetalExtension] expected at least one C or C++ file among the sources, got none")
        if metal_libraries is None:
            if not metal:
                raise ValueError("[MetalExtension] expected at least one .metal file among the sources, got none")
            metal_libraries = [MetalLibrary(name.rpartition(".")[2], metal)]
        elif metal:
            raise ValueError(f"[MetalExtension] .metal files belong into metal_libraries where it is given: {metal}")
        elif not metal_libraries:
            raise ValueError("[MetalExtension] expected at least one library in metal_libraries, got none")
        flags = kwargs.pop("extra_compile_args", None) or []
        if not isinstance(flags, dict):
            flags = {"cxx": list(flags)}
        elif not flags.keys() <= {"cxx", "metal"}:
            raise ValueError(f"[MetalExtension] extra_compile_args are for 'cxx' and 'metal', got {sorted(flags)}")
        kwargs.setdefault("language", "c++")
        super().__init__(name, sources, *args, **kwargs)
        self.extra_compile_args = {"cxx": [], "metal": [], **flags}
        self.metal_library_name = name.rpartition(".")[2]
        self.metal_libraries = list(metal_libraries)


class BuildExtension(build_ext):
    """The command ``build_ext`` for extensions of C or C++ files that use the C library in this package.

    setuptools compiles and links them as ever; headers and library are added. A :class:`MetalExtension` is an
    error, for there is no Metal here, and is left out with a warning where it is ``optional=True``.
    """

    def __init__(self, *args, **kwargs) -> None:
        self.use_ninja = kwargs.pop("use_ninja", False)
        self.generate_stubs = kwargs.pop("generate_stubs", True)
        super().__init__(*args, **kwargs)

    @classmethod
    def with_options(cls, **options):
        """The same command with options set: ``use_ninja`` and ``generate_stubs``, for Metal extensions only."""

        class WithOptions(cls):
            def __init__(self, *args, **kwargs) -> None:
                super().__init__(*args, **{**options, **kwargs})

        WithOptions.__name__ = cls.__name__
        return WithOptions

    def run(self) -> None:
        self._inplace = bool(self.inplace)
        super().run()

    def build_extension(self, ext: Extension) -> None:
        if isinstance(ext, MetalExtension):
            reason = f"[BuildExtension] there is no Metal here: {ext.name} can only be built on macOS"
            if not ext.optional:
                raise RuntimeError(reason)
            self.warn(reason + "; left out")
            return
        lib = os.fspath(_library(["lib"]))
        ext.include_dirs = [*ext.include_dirs, os.fspath(_library(["include"]))]
        ext.library_dirs = [*ext.library_dirs, lib]
        ext.libraries = [*ext.libraries, "mlx"]
        places = [lib] if getattr(self, "_inplace", self.inplace) else _rpath(ext.name)
        ext.runtime_library_dirs = [*ext.runtime_library_dirs, *places]
        super().build_extension(ext)
