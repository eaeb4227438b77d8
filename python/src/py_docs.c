/* py_docs.c: docstrings, made when the module is imported.
 *
 * A docstring in a table is a signature, for py_call.c with annotations, and a text.  Here the
 * annotations are taken out, which inspect would not read, and the sentences of notes.def and the
 * example of examples.def are put at the end.  What is made lives as long as the process. */
#include "py.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Is there a default in this signature that inspect cannot make an object of: a dtype, say? */
static bool is_beyond_inspect(const char *signature)
{
    for (const char *s = strchr(signature, '='); s; s = strchr(s + 1, '=')) {
        static const char *const names[] = { "None", "True", "False" };
        bool known = !isalpha((unsigned char)s[1]);
        for (size_t i = 0; i < LENGTH(names); i++) known = known || !strncmp(s + 1, names[i], strlen(names[i]));
        if (!known)
            return true;
    }
    return false;
}

/* Writes the docstring without annotations and returns its end; `to` has room for all of it. */
static char *put_plain(char *to, const char *doc)
{
    const char *end = strstr(doc, ")\n--\n\n");
    char *start = to;
    int depth = 0;
    bool annotation = false;
    for (const char *s = doc; end && s < end; s++) {
        depth += *s == '(' || *s == '[';
        depth -= *s == ')' || *s == ']';
        if (depth == 1 && (*s == ':' || *s == '|')) /* or a second name */
            annotation = true;
        if (depth == 1 && (*s == ',' || *s == '='))
            annotation = false;
        bool around_equals = *s == ' ' && (s[1] == '=' || s[-1] == '=');
        if (!annotation && !around_equals)
            *to++ = *s;
    }
    if (to - start > 2 && to[-1] == ' ' && to[-2] == ',') /* nothing after $self */
        to -= 2;
    *to = 0;
    if (end) /* Without the "--" it is the first line of the docstring, for people to read. */
        strcpy(to, is_beyond_inspect(start) ? ")\n\n" : ")\n--\n\n");
    strcat(to, end ? end + strlen(")\n--\n\n") : doc);
    return to + strlen(to);
}

/* The example of a name (in a type or a module of this name), or NULL. */
static const char *example_of(const char *owner, const char *name)
{
    static const char *const table[][2] = {
#define EXAMPLE(name, session) { name, session },
#include "examples.def"
    };
    static size_t next; /* names mostly come in the order of the table */
    char full[80];
    PyOS_snprintf(full, sizeof full, "%s%s%s", owner, *owner && *name ? "." : "", name);
    for (size_t i = 0; i < LENGTH(table); i++, next = (next + 1) % LENGTH(table))
        if (!strcmp(table[next][0], full))
            return table[next][1];
    return NULL;
}

/* What a function takes and refuses, or NULL. */
static const char *note_of(const char *owner, const char *name)
{
    static const char *const table[][2] = {
#define NOTE(names, sentences) { " " names " ", sentences },
#include "notes.def"
    };
    char word[80];
    PyOS_snprintf(word, sizeof word, " %s%s%s ", owner, *owner && *name ? "." : "", name);
    for (size_t i = 0; i < LENGTH(table); i++)
        if (strstr(table[i][0], word))
            return table[i][1];
    return NULL;
}

/* Lines of at most WIDTH columns; returns the end. */
static char *put_wrapped(char *to, const char *text)
{
    enum { WIDTH = 100 };
    char *line = to, *space = NULL;
    for (strcpy(to, text); *to; to++) {
        if (*to == ' ')
            space = to;
        if (to - line >= WIDTH && space > line) {
            *space = '\n';
            line = space + 1;
        }
    }
    return to;
}

static const char *docstring(const char *owner, const char *name, const char *doc)
{
    const char *example = example_of(owner, name), *note = note_of(owner, name);
    char *made = malloc(strlen(doc) + (example ? strlen(example) : 0) + (note ? strlen(note) : 0) + 5);
    if (!made)
        return PyErr_NoMemory(), NULL;
    char *end = put_plain(made, doc);
    if (note)
        end = put_wrapped(strcpy(end, "\n\n") + 2, note);
    if (example)
        strcat(strcpy(end, "\n\n"), example);
    return made;
}

int method_docs(const char *owner, PyMethodDef *methods)
{
    for (PyMethodDef *m = methods; m->ml_name; m++)
        if (m->ml_doc && !(m->ml_doc = docstring(owner, m->ml_name, m->ml_doc)))
            return -1;
    return 0;
}

int add_functions(PyObject *module, PyMethodDef *functions)
{
    const char *name = PyModule_GetName(module), *dot = name ? strchr(name, '.') : NULL;
    dot = dot ? strchr(dot + 1, '.') : NULL; /* after "mlx.core" */
    if (!name || method_docs(dot ? dot + 1 : "", functions))
        return -1;
    return PyModule_AddFunctions(module, functions);
}

static int property_docs(const char *owner, PyGetSetDef *properties)
{
    for (PyGetSetDef *p = properties; p->name; p++)
        if (p->doc && !(p->doc = docstring(owner, p->name, p->doc)))
            return -1;
    return 0;
}

PyTypeObject *add_type(PyObject *module, PyType_Spec *spec)
{
    const char *name = strrchr(spec->name, '.') + 1;
    for (PyType_Slot *s = spec->slots; s->slot; s++)
        if ((s->slot == Py_tp_methods && method_docs(name, s->pfunc)) ||
            (s->slot == Py_tp_getset && property_docs(name, s->pfunc)) ||
            (s->slot == Py_tp_doc && !(s->pfunc = DOC(docstring(name, "", s->pfunc)))))
            return NULL;
    PyObject *type = PyType_FromSpec(spec);
    if (type && PyModule_AddObjectRef(module, name, type))
        Py_CLEAR(type);
    return (PyTypeObject *)type; /* our reference stays for as long as the process lives */
}
