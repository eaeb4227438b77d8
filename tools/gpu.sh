# What test-gpu.sh and bench-gpu.sh share: the library with kernels for the GPU of this machine.
build_cuda() {
    local capability
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1) ||
        { echo 'no NVIDIA GPU: nvidia-smi does not answer' >&2; return 1; }
    cmake --preset cuda -DMLX_CUDA_TARGETS="${capability/./}" &&
        cmake --build --preset cuda -j "${jobs:-$(nproc)}" --target core mlx stubs
}
