/* safetensors files that are cut off, changed and put together wrongly: an error each, or arrays that
 * can be evaluated; never a crash. */
#include "support/fuzz.h"

const char fuzz_format[] = "safetensors";

static int read(struct source *s, int way, struct archive *a)
{
    (void)way;
    return safetensors_load(s, a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) { return fuzz_archive(data, n, read); }
