/* Saving and loading from C: files, and streams of the caller's. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/heard.h"

static char folder[] = P_tmpdir "/mlx-capi-io-XXXXXX";
static mlx_stream s;

static char *in_folder(const char *name)
{
    static char path[4][256];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static mlx_array matrix(void)
{
    const float v[] = { 1, 2, 3, 4, 5, 6 };
    const int shape[] = { 2, 3 };
    return mlx_array_new_data(v, shape, 2, MLX_FLOAT32);
}

static void expect_matrix(mlx_array a)
{
    const float v[] = { 1, 2, 3, 4, 5, 6 };
    assert_int_equal(mlx_array_ndim(a), 2);
    assert_int_equal(mlx_array_dim(a, 0), 2);
    assert_int_equal(mlx_array_dtype(a), MLX_FLOAT32);
    assert_memory_equal(mlx_array_data_float32(a), v, sizeof v);
}

static void npy(void **state)
{
    (void)state;
    mlx_array a = matrix(), b = mlx_array_new();
    OK(mlx_save(in_folder("plain"), a));
    assert_int_equal(access(in_folder("plain.npy"), F_OK), 0);
    OK(mlx_save(in_folder("named.npy"), a));
    assert_int_equal(access(in_folder("named.npy.npy"), F_OK), -1);
    OK(mlx_load(&b, in_folder("named.npy"), s));
    expect_matrix(b);
    FAILS(mlx_load(&b, in_folder("absent.npy"), s), "absent.npy");
    FAILS(mlx_load(&b, NULL, s), "the name of a file");
    FAILS(mlx_load(NULL, in_folder("named.npy"), s), "place for the result");
    FAILS(mlx_save(in_folder("x.npy"), mlx_array_empty), "`a`");
    FAILS(mlx_save(NULL, a), "the name of a file");
    FAILS(mlx_save(in_folder("no/such/folder.npy"), a), "no/such/folder");
    FILE *f = fopen(in_folder("bad.npy"), "w");
    fputs("not an array at all, whatever its name says", f);
    fclose(f);
    FAILS(mlx_load(&b, in_folder("bad.npy"), s), "bad.npy");
    expect_matrix(b);
    mlx_array_free(a);
    mlx_array_free(b);
}

/* A file with this header and one float, 1, after it. */
static void write_one(const char *name, const char *header)
{
    const float one = 1;
    uint64_t length = strlen(header);
    FILE *f = fopen(in_folder(name), "wb");
    assert_int_equal(fwrite(&length, sizeof length, 1, f), 1);
    assert_int_equal(fwrite(header, length, 1, f), 1);
    assert_int_equal(fwrite(&one, sizeof one, 1, f), 1);
    fclose(f);
}

static void safetensors_of_others(void **state)
{
    (void)state;
    mlx_map_string_to_array arrays = { NULL };
    mlx_map_string_to_string texts = { NULL };
    mlx_array a = mlx_array_new();
    float v;
#define ONE "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}"
    write_one("null.safetensors", "{\"__metadata__\":null," ONE "}");
    OK(mlx_load_safetensors(&arrays, &texts, in_folder("null.safetensors"), s));
    OK(mlx_map_string_to_array_get(&a, arrays, "a"));
    OK(mlx_array_item_float32(&v, a));
    assert_true(v == 1);
    write_one("list.safetensors", "{\"__metadata__\":[]," ONE "}");
    FAILS(mlx_load_safetensors(&arrays, &texts, in_folder("list.safetensors"), s), "__metadata__");
    mlx_map_string_to_array_free(arrays);
    mlx_map_string_to_string_free(texts);
    mlx_array_free(a);
}

static void safetensors(void **state)
{
    (void)state;
    mlx_array a = matrix(), b = mlx_array_new_int(7), r = mlx_array_new();
    mlx_map_string_to_array arrays = mlx_map_string_to_array_new(), back = { NULL };
    mlx_map_string_to_string texts = mlx_map_string_to_string_new(), back_texts = { NULL }, none = { NULL };
    const char *text;
    OK(mlx_map_string_to_array_insert(arrays, "weight", a));
    OK(mlx_map_string_to_array_insert(arrays, "step", b));
    OK(mlx_map_string_to_string_insert(texts, "format", "mlx"));
    OK(mlx_save_safetensors(in_folder("model"), arrays, texts));
    OK(mlx_load_safetensors(&back, &back_texts, in_folder("model.safetensors"), s));
    OK(mlx_map_string_to_array_get(&r, back, "weight"));
    expect_matrix(r);
    OK(mlx_map_string_to_array_get(&r, back, "step"));
    int v;
    OK(mlx_array_item_int32(&v, r));
    assert_int_equal(v, 7);
    OK(mlx_map_string_to_string_get(&text, back_texts, "format"));
    assert_string_equal(text, "mlx");
    OK(mlx_save_safetensors(in_folder("model.safetensors"), arrays, none));
    OK(mlx_load_safetensors(&back, &back_texts, in_folder("model.safetensors"), s));
    assert_int_equal(mlx_map_string_to_string_get(&text, back_texts, "format"), 2);
    FAILS(mlx_load_safetensors(&back, NULL, in_folder("model.safetensors"), s), "`res_1`");
    FAILS(mlx_load_safetensors(&back, &back_texts, in_folder("bad.npy"), s), "bad.npy");
    FAILS(mlx_save_safetensors(in_folder("x"), (mlx_map_string_to_array){ NULL }, texts), "`param`");
    FAILS(mlx_save_safetensors(in_folder("no/such"), arrays, texts), "[save_safetensors] could not create");
    OK(mlx_map_string_to_array_get(&r, back, "weight"));
    mlx_map_string_to_array_free(arrays);
    mlx_map_string_to_array_free(back);
    mlx_map_string_to_string_free(texts);
    mlx_map_string_to_string_free(back_texts);
    mlx_array_free(a);
    mlx_array_free(b);
    mlx_array_free(r);
}

/* A stream in memory; the first `limit` bytes can be read or written. */
struct memory {
    char bytes[4096];
    size_t at, size, limit;
    bool open, failed;
    int freed;
};

static bool is_open(void *desc) { return ((struct memory *)desc)->open; }
static bool good(void *desc) { return !((struct memory *)desc)->failed; }
static size_t tell(void *desc) { return ((struct memory *)desc)->at; }
static const char *label(void *desc) { return ((void)desc, "<memory>"); }
static void freed(void *desc) { ((struct memory *)desc)->freed++; }

static void seek(void *desc, int64_t off, int whence)
{
    struct memory *m = desc;
    m->at = (size_t)(off + (int64_t)(whence == SEEK_END ? m->size : whence == SEEK_CUR ? m->at : 0));
}

static void read_at(void *desc, char *data, size_t n, size_t off)
{
    struct memory *m = desc;
    if (off + n > m->size || off + n > m->limit)
        m->failed = true;
    else
        memcpy(data, m->bytes + off, n);
}

static void read_on(void *desc, char *data, size_t n)
{
    struct memory *m = desc;
    read_at(desc, data, n, m->at);
    m->at += n;
}

static void write_on(void *desc, const char *data, size_t n)
{
    struct memory *m = desc;
    if (m->at + n > m->limit) {
        m->failed = true;
        return;
    }
    memcpy(m->bytes + m->at, data, n);
    m->at += n;
    if (m->at > m->size)
        m->size = m->at;
}

/* The end of what there is: half of it, without a word. */
static void read_half(void *desc, char *data, size_t n) { read_on(desc, data, n / 2); }

static const mlx_io_vtable in_memory = { is_open, good, tell, seek, read_on, read_at, write_on, label, freed };

static void streams(void **state)
{
    (void)state;
    static struct memory m = { .limit = 4096, .open = true };
    mlx_array a = matrix(), b = mlx_array_new();
    mlx_io_writer w = mlx_io_writer_new(&m, in_memory);
    mlx_io_reader r = mlx_io_reader_new(&m, in_memory);
    mlx_string text = mlx_string_new();
    void *desc = NULL;
    OK(mlx_io_reader_descriptor(&desc, r));
    assert_ptr_equal(desc, &m);
    OK(mlx_io_writer_descriptor(&desc, w));
    OK(mlx_io_reader_tostring(&text, r));
    assert_string_equal(mlx_string_data(text), "<memory>");
    OK(mlx_io_writer_tostring(&text, w));

    OK(mlx_save_writer(w, a));
    assert_true(m.size >= 24 + 64);
    OK(mlx_load_reader(&b, r, s));
    expect_matrix(b);
    mlx_io_vtable plain = in_memory;
    plain.read_at_offset = NULL;
    plain.is_open = NULL;
    plain.label = NULL;
    plain.free = NULL;
    mlx_io_reader p = mlx_io_reader_new(&m, plain);
    OK(mlx_load_reader(&b, p, s));
    expect_matrix(b);
    mlx_io_reader_free(p);
    assert_int_equal(m.freed, 0);
    plain.read = read_half;
    p = mlx_io_reader_new(&m, plain);
    FAILS(mlx_load_reader(&b, p, s), "could not read");
    mlx_io_reader_free(p);

    m.limit = 60; /* the stream breaks off */
    FAILS(mlx_load_reader(&b, r, s), "<memory>");
    FAILS(mlx_load_reader(&b, r, s), "open and good, got <memory>");
    m.failed = false;
    m.at = 0;
    FAILS(mlx_save_writer(w, a), "<memory>");
    m.failed = false;
    m.open = false;
    FAILS(mlx_save_writer(w, a), "open and good");
    expect_matrix(b);

    m = (struct memory){ .limit = 4096, .open = true };
    mlx_map_string_to_array arrays = mlx_map_string_to_array_new();
    mlx_map_string_to_string texts = mlx_map_string_to_string_new();
    OK(mlx_map_string_to_array_insert(arrays, "w", a));
    OK(mlx_save_safetensors_writer(w, arrays, texts));
    OK(mlx_load_safetensors_reader(&arrays, &texts, r, s));
    OK(mlx_map_string_to_array_get(&b, arrays, "w"));
    expect_matrix(b);
    m.bytes[0]++;
    FAILS(mlx_load_safetensors_reader(&arrays, &texts, r, s), "<memory>");
    m.limit = m.at = 0;
    FAILS(mlx_save_safetensors_writer(w, arrays, texts), "[save_safetensors_writer] <memory>: could not write");

    mlx_io_vtable nothing = { 0 };
    mlx_io_reader n = mlx_io_reader_new(&m, nothing);
    FAILS(mlx_load_reader(&b, n, s), "[load_reader] expected functions to seek");
    FAILS(mlx_load_reader(&b, (mlx_io_reader){ NULL }, s), "a reader or writer");
    FAILS(mlx_save_writer((mlx_io_writer){ NULL }, a), "a reader or writer");
    FAILS(mlx_io_reader_descriptor(NULL, r), "place for the result");
    FAILS(mlx_io_writer_tostring(&text, (mlx_io_writer){ NULL }), "a reader or writer");
    OK(mlx_io_reader_free(n));
    OK(mlx_io_reader_free((mlx_io_reader){ NULL }));
    OK(mlx_io_reader_free(r));
    OK(mlx_io_writer_free(w));
    assert_int_equal(m.freed, 2);
    mlx_map_string_to_array_free(arrays);
    mlx_map_string_to_string_free(texts);
    mlx_string_free(text);
    mlx_array_free(a);
    mlx_array_free(b);
}

/* A writer that gives what is being saved other content, at the first chance or after some writes. */
struct meddler {
    struct memory m; /* the first member */
    mlx_array *a;
    mlx_io_gguf g;
    int writes;
};

static bool replace_array(void *desc)
{
    struct meddler *w = desc;
    return !w->a || !mlx_array_set_int(w->a, 7);
}

static void replace_tensor(void *desc, const char *data, size_t n)
{
    struct meddler *w = desc;
    write_on(desc, data, n);
    if (w->g.ctx && ++w->writes == 3) {
        mlx_array seven = mlx_array_new_int(7);
        OK(mlx_io_gguf_set_array(w->g, "b", seven));
        OK(mlx_io_gguf_set_array(w->g, "c", seven));
        mlx_array_free(seven);
    }
}

static void writers_that_change_what_is_saved(void **state)
{
    (void)state;
    static struct meddler m = { .m = { .limit = 4096, .open = true } };
    mlx_io_vtable meddling = in_memory;
    meddling.is_open = replace_array;
    meddling.write = replace_tensor;
    meddling.free = NULL;
    mlx_array a = matrix(), b = mlx_array_new();
    m.a = &a;
    mlx_io_writer w = mlx_io_writer_new(&m, meddling);
    mlx_io_reader r = mlx_io_reader_new(&m, in_memory);
    OK(mlx_save_writer(w, a));
    OK(mlx_load_reader(&b, r, s));
    expect_matrix(b);
    assert_int_equal(mlx_array_ndim(a), 0);
    mlx_array_free(a);

    a = matrix();
    mlx_io_gguf g = mlx_io_gguf_new(), back = mlx_io_gguf_new();
    OK(mlx_io_gguf_set_array(g, "a", a));
    OK(mlx_io_gguf_set_array(g, "b", a));
    m = (struct meddler){ .m = { .limit = 4096, .open = true }, .g = g };
    OK(mlx_save_gguf_writer(w, g));
    assert_true(m.writes > 3);
    FILE *f = fopen(in_folder("changed.gguf"), "wb");
    assert_int_equal(fwrite(m.m.bytes, 1, m.m.size, f), m.m.size);
    fclose(f);
    OK(mlx_load_gguf(&back, in_folder("changed.gguf"), s));
    OK(mlx_io_gguf_get_array(&b, back, "b"));
    expect_matrix(b);
    mlx_io_gguf_free(back);
    mlx_io_gguf_free(g);
    mlx_io_writer_free(w);
    mlx_io_reader_free(r);
    mlx_array_free(a);
    mlx_array_free(b);
}

static int make(void **state)
{
    s = mlx_default_cpu_stream_new();
    return !mkdtemp(folder) || start_listening(state);
}

static int unmake(void **state)
{
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) | all_gone(state);
}

/* A writer that frees what is being saved when it is asked whether it is open. */
static struct {
    mlx_map_string_to_array arrays;
    mlx_map_string_to_string texts;
    mlx_io_gguf g;
} to_free;

static bool free_them(void *desc)
{
    (void)desc;
    mlx_map_string_to_array_free(to_free.arrays);
    mlx_map_string_to_string_free(to_free.texts);
    mlx_io_gguf_free(to_free.g);
    memset(&to_free, 0, sizeof to_free);
    return true;
}

static void what_is_saved_is_freed(void **state)
{
    (void)state;
    static struct memory m = { .limit = 4096, .open = true };
    mlx_io_vtable freeing = in_memory;
    freeing.is_open = free_them;
    freeing.free = NULL;
    mlx_io_writer w = mlx_io_writer_new(&m, freeing);
    mlx_io_reader r = mlx_io_reader_new(&m, in_memory);
    mlx_array a = matrix(), b = mlx_array_new();
    to_free.arrays = mlx_map_string_to_array_new();
    to_free.texts = mlx_map_string_to_string_new();
    OK(mlx_map_string_to_array_insert(to_free.arrays, "w", a));
    OK(mlx_map_string_to_string_insert(to_free.texts, "format", "ours"));
    OK(mlx_save_safetensors_writer(w, to_free.arrays, to_free.texts));
    mlx_map_string_to_array arrays = mlx_map_string_to_array_new();
    mlx_map_string_to_string texts = mlx_map_string_to_string_new();
    const char *text;
    OK(mlx_load_safetensors_reader(&arrays, &texts, r, s));
    OK(mlx_map_string_to_array_get(&b, arrays, "w"));
    expect_matrix(b);
    OK(mlx_map_string_to_string_get(&text, texts, "format"));
    assert_string_equal(text, "ours");

    m = (struct memory){ .limit = 4096, .open = true };
    to_free.g = mlx_io_gguf_new();
    OK(mlx_io_gguf_set_array(to_free.g, "w", a));
    OK(mlx_save_gguf_writer(w, to_free.g));
    mlx_io_gguf g = mlx_io_gguf_new();
    OK(mlx_load_gguf_reader(&g, r, false, s));
    OK(mlx_io_gguf_get_array(&b, g, "w"));
    expect_matrix(b);
    mlx_io_gguf_free(g);
    mlx_map_string_to_array_free(arrays);
    mlx_map_string_to_string_free(texts);
    mlx_io_writer_free(w);
    mlx_io_reader_free(r);
    mlx_array_free(a);
    mlx_array_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy),
        cmocka_unit_test(safetensors),
        cmocka_unit_test(safetensors_of_others),
        cmocka_unit_test(streams),
        cmocka_unit_test(writers_that_change_what_is_saved),
        cmocka_unit_test(what_is_saved_is_freed),
    };
    return cmocka_run_group_tests_name("C API: files", tests, make, unmake);
}
