# How every C file of the project is compiled.
#
# mlx_compile_options(TARGET) gives a target our language level and warnings; MLX_KERNEL_LEVELS
# lists the instruction sets that kernels are built for, and MLX_ISA_<level> holds the flags of each.

set(MLX_WARNINGS
  -Wall -Wextra -Wmissing-prototypes -Wstrict-prototypes -Wold-style-definition
  -Wpointer-arith -Wwrite-strings -Wvla -Wundef
  # & and | of conditions keep a formula free of branches, so that it becomes vector code.
  $<$<C_COMPILER_ID:Clang>:-Wno-bitwise-instead-of-logical>)

function(mlx_compile_options target)
  set_target_properties(${target} PROPERTIES
    C_STANDARD 17 C_STANDARD_REQUIRED ON C_EXTENSIONS ON
    C_VISIBILITY_PRESET hidden
    POSITION_INDEPENDENT_CODE ON)
  # One rounding everywhere: a product is fused with a sum only where the source says so.
  target_compile_options(${target} PRIVATE ${MLX_WARNINGS} -ffp-contract=off)
  if(MLX_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(MLX_SANITIZE)
    target_compile_options(${target} PRIVATE
      -fsanitize=${MLX_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${MLX_SANITIZE})
  endif()
endfunction()

# `base` is what every processor of the family has; src/cpu/dispatch.c picks a level when it starts.
# On AArch64 that includes NEON.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(levels base avx2 avx512)
  set(MLX_ISA_base -march=x86-64-v2)
  set(MLX_ISA_avx2 -march=x86-64-v3 -mprfchw)
  set(MLX_ISA_avx512 -march=x86-64-v4 -mprfchw -mprefer-vector-width=512)
else()
  set(levels base)
  set(MLX_ISA_base "")
endif()
# Sanitized kernels run on this machine alone: what it cannot run is not worth minutes of compiling.
if(MLX_SANITIZE AND EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo flags REGEX "^flags" LIMIT_COUNT 1)
  if(NOT flags MATCHES " avx2( |$)")
    list(REMOVE_ITEM levels avx2)
  endif()
  if(NOT flags MATCHES " avx512vl( |$)")
    list(REMOVE_ITEM levels avx512)
  endif()
endif()
set(MLX_KERNEL_LEVELS ${levels} CACHE STRING "Instruction sets to build kernels for, base among them")

# The kernels are worth -O3 wherever the build optimizes at all; -Og and -O1 builds keep theirs.
# GCC threads jumps before it turns a formula's choices into selections, and then computes what
# follows a choice once for each side: arctan took half as long again.
set(MLX_KERNEL_OPTIONS
  $<$<NOT:$<CONFIG:Debug>>:-O3> -fno-math-errno -fno-trapping-math
  -Wno-psabi # vectors wider than registers are passed between static functions alone
  $<$<C_COMPILER_ID:GNU>:-fno-thread-jumps>)
