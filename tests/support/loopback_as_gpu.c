/* loopback_as_gpu.c: two loopback devices as the GPUs of a program that knows nothing of them. */
#include "support/loopback.h"
#include "support/loopback_axpby.h"

__attribute__((constructor)) static void add_loopback(void)
{
    loopback_register();
    loopback_set_kernels(run_axpby);
}
