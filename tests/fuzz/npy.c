/* npy files that are cut off, changed and put together wrongly: an error each, or arrays that
 * can be evaluated; never a crash. */
#include "support/fuzz.h"

const char fuzz_format[] = "npy";

static int read(struct source *s, int way, struct archive *a)
{
    (void)way;
    return archive_add(a, "", npy_load(s));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) { return fuzz_archive(data, n, read); }
