/* chat_tokens.c: the tokens that examples/c/chat makes of texts, for test_chat_c.py.
 *
 *     chat_tokens MODEL.gguf < texts
 *
 * Each text is its length in 4 bytes, then itself; for each comes a line of numbers. */
#include <stdint.h>

#include "must.h"
#include "tokenizer.h"

int main(int argc, char **argv)
{
    mlx_io_gguf file = mlx_io_gguf_new();
    mlx_stream cpu = mlx_default_cpu_stream_new();
    if (argc != 2)
        die("usage: chat_tokens MODEL.gguf");
    must(mlx_load_gguf(&file, argv[1], cpu));
    struct tokenizer *t = tokenizer_new(file);
    mlx_io_gguf_free(file);
    mlx_stream_free(cpu);

    uint32_t length;
    while (fread(&length, sizeof length, 1, stdin) == 1) {
        struct tokens tokens = { 0 };
        char *text = grow(NULL, length); /* no byte more: a sanitizer sees reads beyond it */
        if (fread(text, 1, length, stdin) != length)
            die("the input ends early");
        tokenizer_encode(t, text, length, &tokens);
        for (size_t i = 0; i < tokens.count; i++) printf("%d ", tokens.at[i]);
        putchar('\n');
        free(text);
        free(tokens.at);
    }
    tokenizer_free(t);
    return 0;
}
