# The Python that the build asks and builds for: the one given, else the project's .venv, else any.
if(NOT DEFINED Python_EXECUTABLE AND EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  set(Python_EXECUTABLE ${PROJECT_SOURCE_DIR}/.venv/bin/python)
endif()
if(MLX_BUILD_PYTHON)
  find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
elseif(NOT MLX_OPENBLAS_ROOT)
  find_package(Python 3.11 REQUIRED COMPONENTS Interpreter)
endif()
