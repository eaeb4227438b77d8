# For projects that extend MLX; MLXConfig.cmake includes it.

# mlx_add_python_module(NAME SOURCES...): a Python module in C, against the limited API, so that one build
# serves every Python from 3.10 on.  Its sources include "mlx/c/python.h".
function(mlx_add_python_module name)
  if(NOT TARGET Python::Module)
    find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
  endif()
  add_library(${name} MODULE ${ARGN})
  target_compile_definitions(${name} PRIVATE Py_LIMITED_API=0x030A0000)
  target_link_libraries(${name} PRIVATE Python::Module mlx)
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX .abi3.so C_VISIBILITY_PRESET hidden)
endfunction()

# mlx_build_cudalib(TARGET NAME SOURCES FILE [TITLE NAME] [OUTPUT_DIRECTORY DIR] [INCLUDE_DIRS DIRS...]
#   [ARCHITECTURES NUMBERS...])
# Puts kernels for CUDA devices where mlx_register_library finds them: TITLE.fatbin, made by nvcc for the
# ARCHITECTURES, where these are given; else the source itself as TITLE.cu, which needs no CUDA to build and
# is compiled for the device at hand when it is first used.
function(mlx_build_cudalib)
  cmake_parse_arguments(PARSE_ARGV 0 CUDA "" "TARGET;TITLE;OUTPUT_DIRECTORY" "SOURCES;INCLUDE_DIRS;ARCHITECTURES")
  list(LENGTH CUDA_SOURCES count)
  if(NOT CUDA_TARGET OR NOT count EQUAL 1)
    message(FATAL_ERROR "mlx_build_cudalib: expected a TARGET and one file as SOURCES, got ${count} of them")
  endif()
  get_filename_component(source ${CUDA_SOURCES} ABSOLUTE)
  if(NOT CUDA_TITLE)
    get_filename_component(CUDA_TITLE ${source} NAME_WE)
  endif()
  if(NOT CUDA_OUTPUT_DIRECTORY)
    set(CUDA_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  endif()
  if(CUDA_ARCHITECTURES)
    find_program(MLX_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES bin REQUIRED)
    set(file ${CUDA_OUTPUT_DIRECTORY}/${CUDA_TITLE}.fatbin)
    list(TRANSFORM CUDA_INCLUDE_DIRS PREPEND -I)
    list(TRANSFORM CUDA_ARCHITECTURES REPLACE "(.+)" "-gencode=arch=compute_\\1,code=sm_\\1")
    set(command ${MLX_NVCC} -fatbin ${CUDA_INCLUDE_DIRS} ${CUDA_ARCHITECTURES} -o ${file} ${source})
  else()
    set(file ${CUDA_OUTPUT_DIRECTORY}/${CUDA_TITLE}.cu)
    set(command ${CMAKE_COMMAND} -E copy ${source} ${file})
  endif()
  add_custom_command(OUTPUT ${file} COMMAND ${CMAKE_COMMAND} -E make_directory ${CUDA_OUTPUT_DIRECTORY}
    COMMAND ${command} DEPENDS ${source} VERBATIM)
  add_custom_target(${CUDA_TARGET} ALL DEPENDS ${file})
endfunction()

# mlx_build_metallib(...): Metal is Apple's.  Projects ask MLX_BUILD_METAL before they call it.
function(mlx_build_metallib)
  message(FATAL_ERROR "mlx_build_metallib: there is no Metal here; call it inside if(MLX_BUILD_METAL)")
endfunction()
