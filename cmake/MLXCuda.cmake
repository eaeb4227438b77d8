# The GPU kernels: text of src/cuda/kernels, compiled by NVRTC of the PyPI package nvidia-cuda-nvrtc-cu12, which
# needs no GPU.  Sets MLX_CUDA_IMAGES, the source that holds them.
# A wheel is for machines with and without a GPU; whoever works on something else need not wait for its kernels.
set(MLX_CUDA_DEFAULT OFF)
if(SKBUILD)
  set(MLX_CUDA_DEFAULT ON)
endif()
option(MLX_CUDA "Build the CUDA backend; it opens the driver at run time and needs none to build" ${MLX_CUDA_DEFAULT})
# Machine code of one architecture takes five minutes of one core, and 2.4 MB of a wheel (docs/cuda.md).
set(MLX_CUDA_TARGETS_DEFAULT ptx75)
if(SKBUILD)
  set(MLX_CUDA_TARGETS_DEFAULT 80,90,ptx75,ptx80)
endif()
set(MLX_CUDA_TARGETS ${MLX_CUDA_TARGETS_DEFAULT} CACHE STRING
  "Architectures that kernels are compiled for: 90 is machine code of sm_90, ptx75 is for 7.5 and all later ones")
set(MLX_NVRTC "" CACHE FILEPATH "libnvrtc to compile kernels with; empty: that of the installed package")
if(MLX_CUDA)
  if(MLX_NVRTC)
    set(nvrtc --nvrtc ${MLX_NVRTC})
  endif()
  set(dir ${PROJECT_BINARY_DIR}/cuda)
  set(MLX_CUDA_IMAGES ${dir}/cuda_images.c)
  file(GLOB_RECURSE texts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/kernels/*
    ${PROJECT_SOURCE_DIR}/src/shared/* ${PROJECT_SOURCE_DIR}/src/plan/*.h)
  add_custom_command(OUTPUT ${MLX_CUDA_IMAGES}
    COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/cuda_kernels.py --out ${dir} --targets ${MLX_CUDA_TARGETS} ${nvrtc}
    DEPENDS ${texts} ${PROJECT_SOURCE_DIR}/src/cuda/modules.def
            ${PROJECT_SOURCE_DIR}/src/core/dtype.h ${PROJECT_SOURCE_DIR}/src/ops/ops.def ${PROJECT_SOURCE_DIR}/tools/cuda_kernels.py
    COMMENT "GPU kernels for ${MLX_CUDA_TARGETS}" VERBATIM)
endif()
