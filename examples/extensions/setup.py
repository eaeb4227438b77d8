from mlx import extension
from setuptools import setup

if __name__ == "__main__":
    setup(
        name="mlx_sample_extensions",
        version="0.0.0",
        description="Sample extensions for MLX, in C.",
        ext_modules=[extension.CMakeExtension("mlx_sample_extensions._ext")],
        cmdclass={"build_ext": extension.CMakeBuild},
        packages=["mlx_sample_extensions"],
        package_data={"mlx_sample_extensions": ["*.so", "*.cu"]},
        options={"bdist_wheel": {"py_limited_api": "cp311"}},  # one for all versions of Python
        zip_safe=False,
        python_requires=">=3.11",
    )
