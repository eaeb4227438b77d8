/* kernel_text.c: the program in C around the body of a kernel.
 *
 * The body becomes a function of one point of the grid, inlined into the loop over the points, so that a
 * return in it ends a point and the compiler can make vectors of neighbouring points.  What the program
 * adds is named __mlx_*, which a kernel cannot use. */
#include <stdio.h>
#include <string.h>

#include "cpu/cpu_kernel.h"
#include "ops/kernel_writer.h"

#define TEXT_(...) #__VA_ARGS__
#define TEXT(...) TEXT_(__VA_ARGS__)

/* Macros that the C library or the compiler would make of short names are taken back. */
static const char prelude[] =
    "#include <complex.h>\n"
    "#include <math.h>\n"
    "#include <stdatomic.h>\n"
    "#include <stdbool.h>\n"
    "#include <stddef.h>\n"
    "#include <stdint.h>\n"
    "#include <string.h>\n"
    "#undef I\n"
    "#undef linux\n"
    "#undef unix\n"
    "\n"
    "typedef struct { uint16_t bits; } float16;\n"
    "typedef struct { uint16_t bits; } bfloat16;\n"
    "typedef uint8_t uint8;\n"
    "typedef uint16_t uint16;\n"
    "typedef uint32_t uint32;\n"
    "typedef uint64_t uint64;\n"
    "typedef int8_t int8;\n"
    "typedef int16_t int16;\n"
    "typedef int32_t int32;\n"
    "typedef int64_t int64;\n"
    "typedef float float32;\n"
    "typedef double float64;\n"
    "typedef float _Complex complex64;\n"
    "typedef unsigned int uint;\n"
    "typedef struct { uint x, y, z; } uint3;\n"
    "struct __mlx_call { " TEXT(
        KERNEL_CALL_FIELDS) " };\n"
                            "#define __MLX_INLINE static inline __attribute__((always_inline, unused))\n"
                            "\n";

/* Halves are numbers of 16 bits with functions to and from float, rounded to the nearest even. */
static const char halves[] =
    "__MLX_INLINE float __mlx_float(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }\n"
    "__MLX_INLINE uint32_t __mlx_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }\n"
    "__MLX_INLINE float __mlx_from_bfloat16(bfloat16 h) { return __mlx_float((uint32_t)h.bits << 16); }\n"
    "__MLX_INLINE bfloat16 __mlx_to_bfloat16(float f)\n"
    "{\n"
    "    uint32_t u = __mlx_bits(f), nan = (u & 0x7fffffff) > 0x7f800000;\n"
    "    return (bfloat16){ (uint16_t)(nan ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16) };\n"
    "}\n"
    "#ifdef __FLT16_MAX__\n"
    "__MLX_INLINE float __mlx_from_float16(float16 h) { _Float16 x; memcpy(&x, &h, 2); return (float)x; }\n"
    "__MLX_INLINE float16 __mlx_to_float16(float f)\n"
    "{\n"
    "    _Float16 x = (_Float16)f;\n"
    "    float16 h;\n"
    "    memcpy(&h, &x, 2);\n"
    "    return h;\n"
    "}\n"
    "#else\n"
    "__MLX_INLINE float __mlx_from_float16(float16 h)\n"
    "{\n"
    "    uint32_t sign = (uint32_t)(h.bits & 0x8000) << 16, u = (uint32_t)(h.bits & 0x7fff) << 13;\n"
    "    float small = __mlx_float(u) * 0x1p112f;\n"
    "    return __mlx_float(sign | (u >= 0x0f800000 ? u | 0x7f800000 : __mlx_bits(small)));\n"
    "}\n"
    "__MLX_INLINE float16 __mlx_to_float16(float f)\n"
    "{\n"
    "    uint32_t u = __mlx_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;\n"
    "    uint32_t tiny = __mlx_bits(__mlx_float(a) + 0.5f) - 0x3f000000;\n"
    "    uint32_t normal = (a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13;\n"
    "    uint32_t large = a > 0x7f800000 ? 0x7e00 : 0x7c00;\n"
    "    return (float16){ (uint16_t)(sign | (a >= 0x477ff000 ? large : a < 0x38800000 ? tiny : normal)) };\n"
    "}\n"
    "#endif\n"
    "\n";

/* load(p), store(p, v): an element as a number.  fetch_add(p, v): *p before v is added to it, by one of
 * several threads. */
static const char elements[] =
    "#define __MLX_TYPES(X) \\\n"
    "    X(uint8) X(uint16) X(uint32) X(uint64) X(int8) X(int16) X(int32) X(int64) X(float32) X(float64) X(complex64)\n"
    "#define __MLX_X(T) \\\n"
    "    __MLX_INLINE T __mlx_load_##T(const volatile void *p) { return *(const T *)p; } \\\n"
    "    __MLX_INLINE void __mlx_store_##T(volatile void *p, T v) { *(T *)p = v; }\n"
    "__MLX_TYPES(__MLX_X)\n"
    "__MLX_X(bool)\n"
    "#undef __MLX_X\n"
    "#define __MLX_X(T) \\\n"
    "    __MLX_INLINE float __mlx_load_##T(const volatile void *p) { return __mlx_from_##T(*(const T *)p); } \\\n"
    "    __MLX_INLINE void __mlx_store_##T(volatile void *p, float v) { *(T *)p = __mlx_to_##T(v); } \\\n"
    "    __MLX_INLINE float __mlx_add_##T(volatile void *p, float v) \\\n"
    "    { \\\n"
    "        T new, old; \\\n"
    "        old.bits = __atomic_load_n((uint16_t *)p, __ATOMIC_RELAXED); \\\n"
    "        do new = __mlx_to_##T(__mlx_from_##T(old) + v); \\\n"
    "        while (!__atomic_compare_exchange_n((uint16_t *)p, &old.bits, new.bits, true, __ATOMIC_RELAXED, \\\n"
    "                                            __ATOMIC_RELAXED)); \\\n"
    "        return __mlx_from_##T(old); \\\n"
    "    }\n"
    "__MLX_X(float16)\n"
    "__MLX_X(bfloat16)\n"
    "#undef __MLX_X\n"
    "#define __MLX_X(T) \\\n"
    "    __MLX_INLINE T __mlx_add_##T(volatile void *p, T v) \\\n"
    "    { \\\n"
    "        return __atomic_fetch_add((T *)p, v, __ATOMIC_RELAXED); \\\n"
    "    }\n"
    "__MLX_X(uint8) __MLX_X(uint16) __MLX_X(uint32) __MLX_X(uint64)\n"
    "__MLX_X(int8) __MLX_X(int16) __MLX_X(int32) __MLX_X(int64)\n"
    "#undef __MLX_X\n"
    "#define __MLX_X(T, U) \\\n"
    "    __MLX_INLINE T __mlx_add_##T(volatile void *p, T v) \\\n"
    "    { \\\n"
    "        U bits = __atomic_load_n((U *)p, __ATOMIC_RELAXED), sum; \\\n"
    "        T old, new; \\\n"
    "        do { \\\n"
    "            memcpy(&old, &bits, sizeof old); \\\n"
    "            new = old + v; \\\n"
    "            memcpy(&sum, &new, sizeof sum); \\\n"
    "        } while (!__atomic_compare_exchange_n((U *)p, &bits, sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)); \\\n"
    "        return old; \\\n"
    "    }\n"
    "__MLX_X(float32, uint32_t) __MLX_X(float64, uint64_t) __MLX_X(complex64, uint64_t)\n"
    "#undef __MLX_X\n"
    "#define __MLX_FLOATS(f) float16: f##_float16, bfloat16: f##_bfloat16, float32: f##_float32, \\\n"
    "    float64: f##_float64, complex64: f##_complex64\n"
    "#define __MLX_INTS(f) uint8: f##_uint8, uint16: f##_uint16, uint32: f##_uint32, uint64: f##_uint64, \\\n"
    "    int8: f##_int8, int16: f##_int16, int32: f##_int32, int64: f##_int64\n"
    "#define load(p) \\\n"
    "    _Generic(*(p), bool: __mlx_load_bool, __MLX_INTS(__mlx_load), __MLX_FLOATS(__mlx_load))(p)\n"
    "#define store(p, v) \\\n"
    "    _Generic(*(p), bool: __mlx_store_bool, __MLX_INTS(__mlx_store), __MLX_FLOATS(__mlx_store))(p, v)\n"
    "#define fetch_add(p, v) _Generic(*(p), __MLX_INTS(__mlx_add), __MLX_FLOATS(__mlx_add))(p, v)\n"
    "\n"
    "/* Where element number i, row-major, of an array with these strides is. */\n"
    "__MLX_INLINE int64_t elem_to_loc(int64_t i, const int *shape, const int64_t *strides, int ndim)\n"
    "{\n"
    "    int64_t at = 0;\n"
    "    for (int d = ndim; d-- > 0; i /= shape[d]) at += i % shape[d] * strides[d];\n"
    "    return at;\n"
    "}\n"
    "\n";

/* ---- writing */

static void check_free(struct kernel_writer *w, const char *name)
{
    kernel_put(w, "#ifdef %s\n#error the name %s of the kernel %s is that of a macro\n#endif\n", name, name,
               w->k->name);
}

/* For each parameter of the body: its declaration, or the value that is passed for it. */
static void write_parameters(struct kernel_writer *w, const enum dtype types[], bool declare)
{
    static const struct {
        const char *suffix, *type, *value;
    } facts[] = {
        { "_shape", "const int *", "shape" },
        { "_strides", "const int64_t *", "strides" },
        { "_ndim", "const int ", "ndim" },
    };
    const struct kernel *k = w->k;
    for (int i = 0; i < k->nin + k->nout; i++) {
        bool input = i < k->nin;
        const char *type = dtype_name(types[i]), *name = k->names[i];
        if (!declare)
            kernel_put(w, ", %s", name);
        else if (input)
            kernel_put(w, ",\n    const %s *restrict %s", type, name);
        else if (k->atomic)
            kernel_put(w, ",\n    _Atomic %s *%s", type, name);
        else
            kernel_put(w, ",\n    %s *restrict %s", type, name);
        for (size_t j = 0; input && j < sizeof facts / sizeof *facts; j++) {
            if (!kernel_says(k, name, facts[j].suffix, true))
                continue;
            if (declare)
                kernel_put(w, ",\n    %s%s%s", facts[j].type, name, facts[j].suffix);
            else
                kernel_put(w, ", __mlx_c->%s[%d]", facts[j].value, i);
        }
    }
}

/* What the body knows of its place besides its parameters, where it asks. */
static void put_places(struct kernel_writer *w)
{
    static const struct {
        const char *name, *declaration;
    } all[] = {
        { "thread_position_in_threadgroup",
          "const uint3 thread_position_in_threadgroup = { __mlx_at.x % __mlx_group.x, __mlx_at.y % __mlx_group.y,\n"
          "        __mlx_at.z % __mlx_group.z }" },
        { "threadgroup_position_in_grid",
          "const uint3 threadgroup_position_in_grid = { __mlx_at.x / __mlx_group.x, __mlx_at.y / __mlx_group.y,\n"
          "        __mlx_at.z / __mlx_group.z }" },
        { "thread_index_in_threadgroup",
          "const uint thread_index_in_threadgroup = __mlx_at.x % __mlx_group.x + __mlx_group.x *\n"
          "        (__mlx_at.y % __mlx_group.y + __mlx_group.y * (__mlx_at.z % __mlx_group.z))" },
        { "threads_per_threadgroup", "const uint3 threads_per_threadgroup = __mlx_group" },
        { "threads_per_grid", "const uint3 threads_per_grid = __mlx_grid" },
        { "thread_position_in_grid", "const uint3 thread_position_in_grid = __mlx_at" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (kernel_says(w->k, all[i].name, "", true))
            kernel_put(w, "    %s;\n", all[i].declaration);
}

/* That a counter is of the type of positions, and small enough for any, is what lets compilers see that
 * neighbouring points have neighbouring elements, however a body computes its index from x. */
static void write_entry(struct kernel_writer *w, const enum dtype types[])
{
    const struct kernel *k = w->k;
    kernel_put(w,
               "__attribute__((visibility(\"default\")))\n"
               "void " KERNEL_ENTRY "%s(const struct __mlx_call *__mlx_c, int64_t __mlx_begin, int64_t __mlx_end)\n{\n",
               k->name);
    for (int i = 0; i < k->nin; i++)
        kernel_put(w, "    const %s *restrict %s = __mlx_c->in[%d];\n", dtype_name(types[i]), k->names[i], i);
    for (int i = 0; i < k->nout; i++)
        kernel_put(w, "    %s%s *%s%s = __mlx_c->out[%d];\n", k->atomic ? "_Atomic " : "",
                   dtype_name(types[k->nin + i]), k->atomic ? "" : "restrict ", k->names[k->nin + i], i);
    kernel_put(w,
               "    const uint3 __mlx_grid = { __mlx_c->grid[0], __mlx_c->grid[1], __mlx_c->grid[2] };\n"
               "    const uint3 __mlx_group = { __mlx_c->group[0], __mlx_c->group[1], __mlx_c->group[2] };\n"
               "    while (__mlx_begin < __mlx_end) {\n"
               "        int64_t __mlx_row = __mlx_begin / __mlx_grid.x, __mlx_x = __mlx_begin %% __mlx_grid.x;\n"
               "        int64_t __mlx_left = __mlx_grid.x - __mlx_x, __mlx_n = __mlx_end - __mlx_begin;\n"
               "        if (__mlx_n > __mlx_left) __mlx_n = __mlx_left;\n"
               "        uint __mlx_y = (uint)(__mlx_row %% __mlx_grid.y), __mlx_z = (uint)(__mlx_row / __mlx_grid.y);\n"
               "        uint __mlx_stop = (uint)(__mlx_x + __mlx_n);\n"
               "        if (__mlx_stop > INT32_MAX) __builtin_unreachable();\n"
               "        for (uint __mlx_i = (uint)__mlx_x; __mlx_i < __mlx_stop; __mlx_i++)\n"
               "            __mlx_body((uint3){ __mlx_i, __mlx_y, __mlx_z }, __mlx_grid, __mlx_group");
    write_parameters(w, types, false);
    kernel_put(w, ");\n        __mlx_begin += __mlx_n;\n    }\n}\n");
}

char *kernel_text(const struct kernel *k, const char *template, const enum dtype types[])
{
    struct kernel_writer w;
    if (kernel_writer_open(&w, k))
        return NULL;
    kernel_put(&w, "%s%s%s", prelude, halves, elements);
    /* A template's macro is told from one of the library's before it is defined. */
    for (const char *line = template; *line; line = strchr(line, '\n') + 1) {
        char name[512];
        if (sscanf(line, "#define %511s", name) == 1)
            check_free(&w, name);
        kernel_put(&w, "%.*s\n", (int)(strchr(line, '\n') - line), line);
    }
    if (*k->header)
        kernel_put_theirs(&w, "header", k->header);
    for (int i = 0; i < k->nin + k->nout; i++) check_free(&w, k->names[i]);
    kernel_put(&w,
               "__MLX_INLINE void __mlx_body(const uint3 __mlx_at, const uint3 __mlx_grid, const uint3 __mlx_group");
    write_parameters(&w, types, true);
    kernel_put(&w, ")\n{\n");
    put_places(&w);
    kernel_put_theirs(&w, "source", k->source);
    kernel_put(&w, "}\n\n");
    write_entry(&w, types);
    return kernel_writer_close(&w);
}
