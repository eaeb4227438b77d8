/* LZMA, which kernels for GPUs are kept by: what liblzma made of a text with runs, matches near and far, and single
 * bytes; and the same damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/unpack.h"

enum { N = 100000, PACKED = 1125 };
static const char hex[] =
    "00026ffbbffea3b060040911ff37bb61b06a08c065b9be366a0dc0bc8b0730147e0d0398c4c15944af24b68e445021c38bbe3ee17caf"
    "6793d244a7d5b699361d8c4112fae84a7334d004b062dfb62331234629bfcb0cd665e576d2d2add59cd465ddf711c8f2afad117028fd"
    "e55f4ca339524bd2132761ddd71e1652388d9a49db36276a1bd8b80088de0c1743165cacc76277ddf851ee2f4acc1345aa1e2d05baae"
    "127cb06dec798b917abe90f00756e65c49c0d0e3a72ddb091830118be366918a87af2cc119f060601d8e5e6d3787faaf5844d2088b25"
    "947b3d6dc386dcd9566925381d96ea0aa76eb4e28b9513b4bb7a78220fae6940ceb7840148673c5d2281c3d701f7a9d2c92c16d99043"
    "fa350abdbfeea91609a396ef53c0eadae6d94f079cae646a70521c3ac6b3c100136d620e7b29547bd33aa909d3528cf23cce66df378b"
    "50d0d3a89c0e5bbd20f896a5cf68e2511c48963b9871c8f72aa2f397bd9343c4ad6d2a432c144446f0c6d1a0e51665e72fb1e3de2570"
    "0989af46180e0eebbe7b8f6bdfb666fd395627fccdcec0f2bcff285687513d2dea4e25cc9c61fa83364153f7b6b2da5b726bcf3e9f5f"
    "0344e68762c7ed8581ea23991f810491a744bbef41c291965d83e788c41500b31e82064ae79318ab1852c77346b1350f16dc72ba83c2"
    "f8ffa48e218591fc7714529feea7bb2716c21b9dceef1a513e124a176722030c9cce2d98ecc2a8dda83d0953e2d248ee77f0abc69812"
    "77477800e14b07c880a215b0fa7f34b98e86ab6d5e3862518e8c550d093eff70172c4ac15f0b65b3567669df917baffbfe70a9ebfdb5"
    "b51635615155fa09f9868be2c55106dcac60efd3034d24e4c6efd79be1c01d8d38f1860855b3c0335fd682dad7d22c4dabebc5d140ef"
    "5db1d4c9e6d566afa5b9ce336d0c043aad5351a5cdf1902306c897358eccc24534430f04fbdedd559a98d71bc52a84ef10863fc0ecf5"
    "ae25a726b75023d5f4173b033b95d732621a1236b4212d9ccbc7fcd62c7b2cd5dd102274b420e58ec5355086f3421b33c876f251fd9b"
    "adc1a27a190040bddf5f1abc09209d8121d0a54783a1221b19e746010ec1a5db9985543d166aff53a0c0cc98bd4255ae8f4a8f6a4503"
    "fd28da677c602f7ea1f5ca791ecfa3d2d7f04f0be9446fb9c442940fee7d2016594cbc66466435f0701afcef41d99a52a4e95d4ffca6"
    "926b4bb128dd23e3b8d61fdde47c99831e45781c7e3b703ed2b6620448e4c6b37e858855d592f0dece5cc7207645cb77dd7116272802"
    "d76ba2d79744deb08d78ead98cf663ec42bdb7036c8bec9c5e140ee74d49a778adfda64758a725a6edb025d25389b930a38f98a41988"
    "837381a3f2c87dccee5f4e128fe43919774a55a41c01a5515b7aaf23191534b24c154ba4a0a665200c1577e9f16f8c0066791338a065"
    "b37f9c82f73a558bc09c72826e5d8c6c590eed91b0c9a0d4f4573a27820b79f00a4f939630439b6002560e814e0711cdc49ed96ed5d4"
    "a0e793aefc416f078cd78f4f739cf2669e05e904965250f8a9dc5fcbf858654a1bfc81951b601c3fffa534c2e8";

/* The same of what looks like instructions of 16 bytes. */
enum { INSTRUCTIONS = 60, CODE_PACKED = 174 };
static const char code_hex[] =
    "0000680edfd8429dfa0bd1b751dabcb329f2ec6d54b7238a8d7ea8c73bfd1135fc5da764064d9b2d8e505915b4ab9f5e2210ab3897fb"
    "f2d35dc8325459d96e8017cff824667e984f44440b45a079c6698deb6cfc1849478a02320bb290830604aa3377412725149460247bbe"
    "758a703378d2b42ec089b06408e0f0085fd007f2d20400c06101d17798074627335f5883092e42908c837625e79e862d6b93f4f8ecd2"
    "dd6fffc55b838cfff9d66000";

static unsigned char text[N], packed[PACKED], got[N];

static uint32_t next_number(void)
{
    static uint32_t x = 12345;
    x = x * 1103515245u + 12345;
    return x >> 16;
}

static void from_hex(unsigned char *to, const char *digits, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (unsigned char)strtoul((char[]){ digits[2 * i], digits[2 * i + 1], 0 }, NULL, 16);
}

static int make_text(void **unused)
{
    (void)unused;
    for (size_t n = 0; n < N;) {
        uint32_t kind = next_number() % 4;
        if (kind == 0 || n == 0) {
            text[n++] = (unsigned char)next_number();
            continue;
        }
        size_t back = 1 + (kind > 1 ? next_number() % n : 3);
        back = back < n ? back : n;
        for (size_t length = 1 + next_number() % (kind == 3 ? 1200 : 20); length > 0 && n < N; length--, n++)
            text[n] = text[n - back];
    }
    from_hex(packed, hex, PACKED);
    return 0;
}

static void all_of_it(void **unused)
{
    (void)unused;
    assert_true(unpack(UNPACK_TEXT, got, N, packed, PACKED));
    assert_memory_equal(got, text, N);
    assert_true(unpack(UNPACK_TEXT, got, 0, packed, PACKED));
}

static void code(void **unused)
{
    (void)unused;
    unsigned char small[CODE_PACKED], out[16 * INSTRUCTIONS], want[16 * INSTRUCTIONS];
    for (unsigned i = 0; i < INSTRUCTIONS; i++) {
        const unsigned char like[16] = { (unsigned char)(7 * i),
                                         (unsigned char)(i >> 3),
                                         0,
                                         0x42,
                                         i * i & 7,
                                         0,
                                         0,
                                         0,
                                         (i & 3) * 5,
                                         0x10,
                                         0,
                                         0x7f,
                                         i & 1,
                                         0,
                                         0xe2,
                                         0x0f };
        memcpy(want + 16 * i, like, 16);
    }
    from_hex(small, code_hex, CODE_PACKED);
    assert_true(unpack(UNPACK_CODE, out, sizeof out, small, CODE_PACKED));
    assert_memory_equal(out, want, sizeof out);
    assert_false(unpack(UNPACK_CODE, out, sizeof out, small, CODE_PACKED / 2));
}

/* Cut off, it is refused; with any bit wrong, it stays within its bounds. */
static void damaged(void **unused)
{
    (void)unused;
    for (size_t n = 0; n < PACKED - 16; n++) {
        unsigned char *cut = malloc(n + 1);
        memcpy(cut, packed, n);
        assert_false(unpack(UNPACK_TEXT, got, N, cut, n));
        free(cut);
    }
    for (int i = 0; i < 8 * PACKED; i += 3) {
        unsigned char *out = malloc(4000);
        packed[i / 8] ^= (unsigned char)(1 << i % 8);
        unpack(UNPACK_TEXT, out, 4000, packed, PACKED);
        packed[i / 8] ^= (unsigned char)(1 << i % 8);
        free(out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(all_of_it), cmocka_unit_test(code),
                                        cmocka_unit_test(damaged) };
    return cmocka_run_group_tests(tests, make_text, NULL);
}
