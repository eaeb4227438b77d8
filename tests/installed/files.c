/* files.c: arrays and metadata in a file, through maps, iterators and a writer of the program's own. */
#include "mlx/c/mlx.h"

struct bytes {
    char data[4096];
    size_t at, n;
};

static bool is_open(void *d) { return d != NULL; }
static size_t tell(void *d) { return ((struct bytes *)d)->at; }
static const char *label(void *d) { return (void)d, "memory"; }

static void seek(void *d, int64_t off, int whence)
{
    struct bytes *b = d;
    b->at = (size_t)(off + (whence == SEEK_SET ? 0 : whence == SEEK_CUR ? (int64_t)b->at : (int64_t)b->n));
}

static void get(void *d, char *data, size_t n)
{
    struct bytes *b = d;
    memcpy(data, b->data + b->at, n);
    b->at += n;
}

static void get_at(void *d, char *data, size_t n, size_t off) { memcpy(data, ((struct bytes *)d)->data + off, n); }

static void put(void *d, const char *data, size_t n)
{
    struct bytes *b = d;
    memcpy(b->data + b->at, data, n);
    b->at += n;
    b->n = b->at;
}

int main(void)
{
    static struct bytes memory;
    mlx_stream stream = mlx_default_cpu_stream_new();
    mlx_map_string_to_array arrays = mlx_map_string_to_array_new();
    mlx_map_string_to_string texts = mlx_map_string_to_string_new();
    mlx_array a = mlx_array_new(), b = mlx_array_new();
    mlx_arange(&a, 0, 4, 1, MLX_INT32, stream);
    mlx_ones(&b, (int[]){ 2, 2 }, 2, MLX_FLOAT16, stream);
    mlx_map_string_to_array_insert(arrays, "a", a);
    mlx_map_string_to_array_insert(arrays, "b", b);
    mlx_map_string_to_string_insert(texts, "made by", "files.c");

    mlx_io_vtable vtable = { is_open, is_open, tell, seek, get, get_at, put, label, NULL };
    mlx_io_writer writer = mlx_io_writer_new(&memory, vtable);
    mlx_save_safetensors_writer(writer, arrays, texts);
    mlx_io_writer_free(writer);

    mlx_map_string_to_array read = mlx_map_string_to_array_new();
    mlx_map_string_to_string about = mlx_map_string_to_string_new();
    mlx_io_reader reader = mlx_io_reader_new(&memory, vtable);
    mlx_load_safetensors_reader(&read, &about, reader, stream);
    const char *key, *text;
    mlx_array value = mlx_array_new();
    mlx_map_string_to_array_iterator it = mlx_map_string_to_array_iterator_new(read);
    int n = 0;
    while (!mlx_map_string_to_array_iterator_next(&key, &value, it)) n += (int)mlx_array_size(value);
    mlx_map_string_to_string_get(&text, about, "made by");
    printf("%d elements made by %s\n", n, text);

    mlx_map_string_to_array_iterator_free(it);
    mlx_io_reader_free(reader);
    mlx_array_free(a);
    mlx_array_free(b);
    mlx_array_free(value);
    mlx_map_string_to_array_free(arrays);
    mlx_map_string_to_array_free(read);
    mlx_map_string_to_string_free(texts);
    mlx_map_string_to_string_free(about);
    mlx_stream_free(stream);
    return 0;
}
