# What test-gpu.sh and bench-gpu.sh share: the library with kernels for the GPU of this machine, in build/cuda.  With
# BUILT=1 it is there already, made elsewhere for the same path: where there is no network, or no compiler.
build_cuda() {
    local capability
    if [ -n "${BUILT:-}" ]; then
        [ -e build/cuda/python/mlx/core.abi3.so ] || { echo 'BUILT=1: nothing is in build/cuda' >&2; return 1; }
        return
    fi
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1) ||
        { echo 'no NVIDIA GPU: nvidia-smi does not answer' >&2; return 1; }
    cmake --preset cuda -DMLX_CUDA_TARGETS="${capability/./}" &&
        cmake --build --preset cuda -j "${jobs:-$(nproc)}" --target core mlx stubs
}
