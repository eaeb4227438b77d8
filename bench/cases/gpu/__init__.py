"""What a GPU computes. Types are told in names where they are not float32."""

TYPES = (None, "bfloat16")
SIZE = {None: 4, "bfloat16": 2, "float16": 2}


def typed(name, dtype):
    return f"{name}, {dtype}" if dtype else name
