# The BLAS and LAPACK that travel with libmlx: scipy-openblas32 from PyPI, whose symbols start with
# `scipy_`.  Sets MLX_OPENBLAS_{LIBRARY,INCLUDE_DIR,LICENSE}.
set(root ${MLX_OPENBLAS_ROOT})
if(NOT root)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
      "import os, scipy_openblas32 as b; print(os.path.dirname(os.path.abspath(b.__file__)))"
    OUTPUT_VARIABLE root OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE result ERROR_QUIET)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${Python_EXECUTABLE} has no package scipy-openblas32. Run `make setup`, "
      "or install it with pip, or set MLX_OPENBLAS_ROOT to its folder.")
  endif()
endif()

set(MLX_OPENBLAS_LIBRARY ${root}/lib/libscipy_openblas.so)
set(MLX_OPENBLAS_INCLUDE_DIR ${root}/include)
foreach(file ${MLX_OPENBLAS_LIBRARY} ${MLX_OPENBLAS_INCLUDE_DIR}/cblas.h)
  if(NOT EXISTS ${file})
    message(FATAL_ERROR "OpenBLAS: ${file} is missing; is MLX_OPENBLAS_ROOT right?")
  endif()
endforeach()
file(GLOB MLX_OPENBLAS_LICENSE
  ${root}/../scipy_openblas32-*.dist-info/licenses/LICENSE.txt
  ${root}/../scipy_openblas32-*.dist-info/LICENSE.txt
  ${root}/LICENSE*)

# It stands beside libmlx in the build tree as it does when installed, so one $ORIGIN serves both.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
file(CREATE_LINK ${MLX_OPENBLAS_LIBRARY} ${PROJECT_BINARY_DIR}/lib/libscipy_openblas.so SYMBOLIC)
