"""Byte-pair tokens as GPT-2 has them, from the metadata of a gguf file.

A text is cut into pieces (a word with the space in front of it, a digit, a run of signs). The bytes of a
piece become letters of an alphabet of 256, and neighbours are merged, the pair that the table has first
first, until no pair of the piece is in the table (Sennrich, Haddow and Birch, 2016; Radford et al., 2019).
"""

import functools
import re
import unicodedata

CONTROL = 3  # among the types of tokens in a gguf file

# In patterns over the kinds of characters: L letter, N number, s space, o anything else, ' itself.
PIECE = re.compile(r"_?L+|_?N+|_?[o']+|[s_]+(?![LNo'])|[s_]+")
CONTRACTION = re.compile(r"'(?:s|t|re|ve|m|ll|d)")


def alphabet():
    """A printable character for every byte; where the byte is one itself, that."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in visible]
    return {b: chr(b) for b in visible} | {b: chr(256 + i) for i, b in enumerate(others)}


def kind(character):
    """The letter that stands for a character in the pattern of pieces."""
    if character in " '":
        return "_" if character == " " else character
    if character.isspace():
        return "s"
    first = unicodedata.category(character)[0]
    return first if first in "LN" else "o"


def pieces(text):
    """The pieces of a text; each digit is one of its own, whatever stands around it."""
    kinds = "".join(map(kind, text))
    for part in re.finditer("N|[^N]+", kinds):
        at, end = part.span()
        while at < end:
            found = CONTRACTION.match(text, at, end) or PIECE.match(kinds, at, end)
            yield text[at : found.end()]
            at = found.end()


class Tokenizer:
    def __init__(self, metadata):
        model, how = (metadata.get(f"tokenizer.ggml.{key}") for key in ("model", "pre"))
        if (model, how) != ("gpt2", "smollm"):
            raise ValueError(f"expected byte pairs of the kind 'smollm', got {how!r} of the model {model!r}")
        self.tokens = metadata["tokenizer.ggml.tokens"]
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        merges = metadata["tokenizer.ggml.merges"]
        self.ranks = {tuple(pair.split(" ")): rank for rank, pair in enumerate(merges)}
        self.end = metadata["tokenizer.ggml.eos_token_id"].item()
        types = metadata["tokenizer.ggml.token_type"].tolist()
        self.control = {token for token, type in zip(self.tokens, types) if type == CONTROL}
        self.to_letters = alphabet()
        self.to_byte = {letter: byte for byte, letter in self.to_letters.items()}
        self.merge = functools.lru_cache(1 << 16)(self.merge)

    def merge(self, piece):
        """The tokens of one piece. Bytes that have no token are left out."""
        parts = [letter for byte in piece.encode() if (letter := self.to_letters[byte]) in self.ids]
        while len(parts) > 1:
            rank, at = min((self.ranks.get(pair, len(self.ranks)), i) for i, pair in enumerate(zip(parts, parts[1:])))
            if rank == len(self.ranks):
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return [self.ids[part] for part in parts]

    def encode(self, text):
        """The tokens of a text. What looks like a control token in it is text like any other."""
        return [token for piece in pieces(text) for token in self.merge(piece)]

    def chat(self, messages):
        """The tokens of a conversation, (role, text) each, up to where the assistant begins to answer."""
        start, end, line = self.ids["<|im_start|>"], self.ids["<|im_end|>"], self.encode("\n")
        tokens = []
        for role, text in messages:
            tokens += [start, *self.encode(f"{role}\n{text}"), end, *line]
        return [*tokens, start, *self.encode("assistant\n")]

    def bytes(self, token):
        """The bytes that a token stands for, none for a control token; characters may be cut among tokens."""
        token = self.tokens[token]
        return b"" if token in self.control else bytes(self.to_byte[letter] for letter in token)

    def decode(self, tokens):
        return b"".join(map(self.bytes, tokens)).decode(errors="replace")
