/* gguf files that are cut off, changed and put together wrongly, blocks expanded or packed: an error each,
 * or arrays that can be evaluated; never a crash. */
#include "support/fuzz.h"

const char fuzz_format[] = "gguf";

static int read(struct source *s, int way, struct archive *a)
{
    struct gguf g = { 0 };
    int failed = gguf_load(s, way & 4, &g);
    *a = g.tensors;
    g.tensors = (struct archive){ 0 };
    gguf_free(&g);
    return failed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) { return fuzz_archive(data, n, read); }
