"""Calls every function of the C API with each of its arguments left out in turn, and prints what breaks the
rules of array.h, a line each. Run by test_c_api.py, as a program, since what breaks them may crash.

    python null_calls.py libmlx.so
"""

import ctypes
import sys

from headers import Headers

# Handles that may be empty in every function: the default stream, the group of all, names made up.
OPTIONAL_KINDS = {"mlx_stream", "mlx_distributed_group", "mlx_node_namer"}
# Results that are not a status.
VALUES = {
    "mlx_array_dim",
    "mlx_array_id",
    "mlx_distributed_group_rank",
    "mlx_distributed_group_size",
    "mlx_compiled_limit",
}
# Questions that an empty handle has an answer to.
ASKED = {
    "mlx_array_id",
    "mlx_compiled_count",
    "mlx_compiled_limit",
    "mlx_compiled_payload",
    "mlx_device_equal",
    "mlx_function_exporter_sizes_read",
}
# Arrays, rules and maps that may be left out.
OPTIONAL = {
    "a_min",
    "a_max",
    "biases",
    "fill_value",
    "freqs",
    "global_scale",
    "global_scale_w",
    "global_scale_x",
    "initial_state",
    "key",
    "lhs_indices",
    "mask",
    "mask_arr",
    "mask_lhs",
    "mask_out",
    "mask_rhs",
    "metadata",
    "pad_value",
    "rhs_indices",
    "sinks",
    "w_scales",
    "window",
}
REQUIRED_IN = {"mlx_random_split": {"key"}, "mlx_random_split_num": {"key"}, "mlx_random_set_state": {"key"}}
OPTIONAL_IN = {
    "mlx_fast_layer_norm": {"weight", "bias"},
    "mlx_fast_layer_norm_double": {"weight", "bias"},
    "mlx_group_norm": {"weight", "bias"},
    "mlx_recurrent": {"bias", "hidden", "cell"},
    "mlx_fast_rms_norm": {"weight"},
    "mlx_fast_rms_norm_double": {"weight"},
    "mlx_random_normal_broadcast": {"loc", "scale"},
    "mlx_custom_function": {"fun_vjp", "fun_jvp", "fun_vmap"},
    "mlx_set_thread_device": {"dev"},
}
# Values that go further than those of their types.
SAMPLES = {
    "mode": b"affine",
    "mask_mode": b"",
    "pad_mode": 0,
    "block_size": 32,
    "width": 4,
    "n_fft": 2,
    "hop_length": 1,
}
# Functions that need their stream to do what they are for.
NEED_STREAM = {
    "mlx_stream_set",
    "mlx_stream_tostring",
    "mlx_stream_get_device",
    "mlx_stream_get_index",
    "mlx_set_default_stream",
}
# Called with arguments of any types, or with what cannot be made up here.
NOT_CALLED = {"_mlx_error", "mlx_run_error", "mlx_set_error_handler", "mlx_stop_when", "mlx_primitive_apply"}
NOT_CALLED |= {"mlx_traces_take_turns_by"}
# Would change the process for the calls that follow.
CHANGES = (
    "mlx_set_memory_limit",
    "mlx_set_cache_limit",
    "mlx_set_wired_limit",
    "mlx_set_default_",
    "mlx_clear_streams",
)
# What is behind a pointer: more than any number of items or bytes that a call is given.
ITEMS, ROOM = 128, 4096
PLAIN = {
    "int": ctypes.c_int,
    "size_t": ctypes.c_size_t,
    "bool": ctypes.c_bool,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "char": ctypes.c_char,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "uintptr_t": ctypes.c_size_t,
    "void": None,
}


class Calls:
    def __init__(self, library):
        self.lib, self.headers, self.errors = ctypes.CDLL(library), Headers(), []
        self.types = dict(PLAIN)
        self.types |= dict.fromkeys(self.headers.enums, ctypes.c_int)
        for name, fields in self.headers.structs.items():
            if all(self.known(kind) for _, kind in fields):
                members = [(field, self.type(kind)) for field, kind in fields]
                self.types[name] = type(name, (ctypes.Structure,), {"_fields_": members})
        handler = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)
        self.handler = handler(lambda message, _: self.errors.append(message.decode()))
        self.lib.mlx_set_error_handler(self.handler, None, None)
        self.keep = []

    def known(self, kind):
        return kind == "function" or kind.endswith("*") or kind.removeprefix("const ") in self.types

    def type(self, kind):
        kind = kind.removeprefix("const ")
        return ctypes.c_void_p if kind == "function" or kind.endswith("*") else self.types[kind]

    def handles(self):
        return {n for n, fields in self.headers.structs.items() if fields and fields[0] == ("ctx", "void*")}

    def call(self, name, arguments):
        result, declared = self.headers.functions[name]
        function = getattr(self.lib, name)
        function.restype = self.type(result)
        function.argtypes = [self.type(kind) for _, kind in declared]
        self.errors.clear()
        return function(*arguments)

    def make(self, name, *arguments):
        made = self.call(name, arguments)
        assert not self.errors, (name, self.errors)
        return made

    def text(self, array):
        """What a handle holds, where it is one of an array; else the address of its content."""
        if type(array).__name__ != "mlx_array" or not array.ctx:
            return array.ctx
        string = self.types["mlx_string"]()
        if self.lib.mlx_array_tostring(ctypes.byref(string), array):
            return None
        self.lib.mlx_string_data.restype = ctypes.c_char_p
        text = self.lib.mlx_string_data(string)
        self.lib.mlx_string_free(string)
        return text

    def prepare(self):
        """A value for each type of handle that a caller may have."""
        numbers = (ctypes.c_float * 4)(0.5, 0.25, 0.75, 0.125)
        shape = (ctypes.c_int * 2)(2, 2)
        self.keep += [numbers, shape]
        closure = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        same = closure(lambda res, given: self.lib.mlx_vector_array_set(ctypes.c_void_p(res), ctypes.c_void_p(given)))
        self.keep.append(same)
        fun = ctypes.cast(same, ctypes.c_void_p)
        self.float32 = self.headers.enums["mlx_dtype"].index("MLX_FLOAT32")
        array = self.make("mlx_array_new_data", numbers, shape, 2, self.float32)
        arrays = self.make("mlx_vector_array_new_value", array)
        self.key = self.types["mlx_array"]()
        self.make("mlx_random_key", ctypes.byref(self.key), 1)
        device = self.make("mlx_device_new_type", 0, 0)
        info = self.types["mlx_device_info"]()
        self.make("mlx_device_info_get", ctypes.byref(info), device)
        map_ = self.make("mlx_map_string_to_array_new")
        self.make("mlx_map_string_to_array_insert", map_, b"x", array)
        texts = self.make("mlx_map_string_to_string_new")
        self.make("mlx_map_string_to_string_insert", texts, b"x", b"y")
        plain = self.make("mlx_closure_new_func", fun)
        gradient = self.types["mlx_closure_value_and_grad"]()
        self.make("mlx_value_and_grad", ctypes.byref(gradient), plain, (ctypes.c_int * 1)(0), 1)
        exporter = self.make("mlx_function_exporter_new", b"given.mlxfn", plain, False)
        self.make("mlx_function_exporter_apply", exporter, arrays)
        self.make("mlx_export_function", b"file.mlxfn", plain, arrays, False)
        yes = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 1)
        self.keep.append(yes)
        vtable = self.types["mlx_io_vtable"](*[ctypes.cast(yes, ctypes.c_void_p)] * 7)  # no label
        self.libc = ctypes.CDLL(None)
        self.libc.fopen.restype = ctypes.c_void_p
        self.values = {
            "mlx_array": array,
            "mlx_vector_array": arrays,
            "mlx_vector_vector_array": self.make("mlx_vector_vector_array_new_value", arrays),
            "mlx_vector_int": self.make("mlx_vector_int_new_value", 0),
            "mlx_vector_string": self.make("mlx_vector_string_new_value", b"x"),
            "mlx_map_string_to_array": map_,
            "mlx_map_string_to_string": texts,
            "mlx_map_string_to_array_iterator": self.make("mlx_map_string_to_array_iterator_new", map_),
            "mlx_map_string_to_string_iterator": self.make("mlx_map_string_to_string_iterator_new", texts),
            "mlx_string": self.make("mlx_string_new_data", b"x"),
            "mlx_device": device,
            "mlx_device_info": info,
            "mlx_stream": self.make("mlx_default_cpu_stream_new"),
            "mlx_closure": plain,
            "mlx_closure_value_and_grad": gradient,
            "mlx_compiled": self.make("mlx_compiled_new", b"f", False),
            "mlx_function_exporter": exporter,
            "mlx_imported_function": self.make("mlx_imported_function_new", b"file.mlxfn"),
            "mlx_io_reader": self.make("mlx_io_reader_new", None, vtable),
            "mlx_io_writer": self.make("mlx_io_writer_new", None, vtable),
            "mlx_io_gguf": self.make("mlx_io_gguf_new"),
            "mlx_node_namer": self.make("mlx_node_namer_new"),
        }
        # Callbacks of other shapes: what they are called with is not looked at.
        anything = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)
        self.keep.append(anything)
        self.anything = ctypes.cast(anything, ctypes.c_void_p)
        for kind in ("closure_kwargs", "closure_custom", "closure_custom_jvp", "closure_custom_vmap"):
            self.values[f"mlx_{kind}"] = self.make(f"mlx_{kind}_new_func", self.anything)

    def given(self, function, name, kind):
        """A value for an argument, and what stands for leaving it out: None where that means nothing."""
        plain = kind.removeprefix("const ")
        if name in SAMPLES and isinstance(SAMPLES[name], bytes) == (plain == "char*"):
            sample = b"constant" if "mlx_pad" in function else SAMPLES[name]
            return (ctypes.c_char_p(sample), ctypes.c_char_p()) if plain == "char*" else (sample, None)
        if name == "key" and plain == "mlx_array":
            return self.key, self.types[plain]()
        if name == "dtype" and plain == "mlx_dtype":
            return self.float32, None
        if plain == "int*":
            ones = (ctypes.c_int * ITEMS)(1, 0, *[1] * (ITEMS - 2))
            self.keep.append(ones)
            return ctypes.cast(ones, ctypes.c_void_p), ctypes.c_void_p()
        if name in ("fun", "callback") and kind == "function":
            return self.anything, ctypes.c_void_p()
        if plain in self.values:
            return self.values[plain], self.types[plain]()
        if plain in self.handles() and plain not in self.values:
            return self.types[plain](), None
        if plain.removesuffix("*") in self.values and not kind.startswith("const "):
            result = self.types[plain.removesuffix("*")]()
            source = self.values.get(type(result).__name__)
            if type(result).__name__ == "mlx_array":  # one that holds something already
                self.make("mlx_array_set_int", ctypes.byref(result), 7)
            elif source is None:
                return None, None
            self.keep.append(result)
            return ctypes.pointer(result), None
        if plain == "char*":  # with room for every length that may go with it
            text = ctypes.create_string_buffer(b"x", ROOM)
            self.keep.append(text)
            return ctypes.cast(text, ctypes.c_char_p), ctypes.c_char_p(None)
        if plain == "char* const*":
            texts = (ctypes.c_char_p * ITEMS)(*[b"x"] * ITEMS)
            self.keep.append(texts)
            return ctypes.cast(texts, ctypes.c_void_p), ctypes.c_void_p()
        if plain == "FILE*":
            return self.libc.fopen(b"/dev/null", b"w"), None
        if kind == "function":
            return None, None
        if plain.endswith("*"):
            room = (ctypes.c_char * ROOM)()
            self.keep.append(room)
            return ctypes.cast(room, ctypes.c_void_p), ctypes.c_void_p(None)
        if plain in self.headers.structs or plain.startswith("mlx_optional"):
            return self.types[plain](), None
        if plain in ("size_t", "int"):
            return 2 if name.endswith("_num") else 1, None
        return self.types[plain](), None

    def functions(self):
        for name, (_, declared) in self.headers.functions.items():
            if name in NOT_CALLED or name.startswith(CHANGES) or any(not self.known(kind) for _, kind in declared):
                continue
            yield name, declared


def faults(calls):
    handles = calls.handles()
    for name, declared in calls.functions():
        for i, (argument, kind) in enumerate(declared):
            plain = kind.removeprefix("const ")
            required = plain in handles and plain not in OPTIONAL_KINDS and name not in ASKED
            optional = (OPTIONAL | OPTIONAL_IN.get(name, set())) - REQUIRED_IN.get(name, set())
            required = required and argument not in optional
            required = required or plain == "mlx_stream" and name in NEED_STREAM
            if any(k.removeprefix("const ") in handles - set(calls.values) - OPTIONAL_KINDS for _, k in declared):
                required = False  # something else is missing: a kind of handle that cannot be made everywhere
            print(f"{name} without {argument}", file=sys.stderr, flush=True)
            values = [calls.given(name, *each) for each in declared]
            if "free" in name.split("_") and plain in handles:
                required = False
            elif values[i][1] is None and not (kind.endswith("*") and plain.removesuffix("*") in handles):
                continue
            arguments = [value for value, _ in values]
            results = [
                a.contents
                for a in arguments
                if isinstance(a, ctypes._Pointer) and isinstance(a.contents, ctypes.Structure)
            ]
            before = [calls.text(result) for result in results]
            arguments[i] = calls.types[plain]() if plain in handles else None
            returned = calls.call(name, arguments)
            if len(calls.errors) > 1:
                yield f"{name}: more than one error without {argument}: {calls.errors}"
            status = calls.headers.functions[name][0] == "int" and name not in VALUES
            failed = bool(returned) if status else bool(calls.errors)
            if failed and status and not calls.errors and "_get" not in name:
                yield f"{name}: fails without {argument}, silently"
            if required and not failed:
                yield f"{name}: accepts an empty {argument}"
            if required and failed and not any(f"`{argument}`" in e for e in calls.errors):
                yield f"{name}: without {argument} says {calls.errors}"
            if failed and [calls.text(result) for result in results] != before:
                yield f"{name}: changes its result without {argument}"


def nothing_given(calls):
    """Everything left out at once, numbers 0."""
    for name, declared in calls.functions():
        print(f"{name} without anything", file=sys.stderr, flush=True)
        types = [calls.type(kind) for _, kind in declared]
        returned = calls.call(name, [kind() for kind in types])
        status = calls.headers.functions[name][0] == "int" and name not in VALUES | ASKED
        if len(calls.errors) > 1 or (status and bool(returned) != bool(calls.errors)):
            yield f"{name}: gives {returned} without any arguments, and says {calls.errors}"


def main(library):
    calls = Calls(library)
    calls.prepare()
    for look in (faults, nothing_given):
        for fault in look(calls):
            print(fault, flush=True)
    print(f"{len(list(calls.functions()))} functions called")


if __name__ == "__main__":
    main(sys.argv[1])
