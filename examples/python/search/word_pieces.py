"""Words and pieces of words as BERT has them (Wu et al., 2016; Devlin et al., 2019): lower case, no accents."""

import unicodedata

IDEOGRAPHS = (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2CEAF), (0x2F800, 0x2FA1F)
LONGEST = 100  # characters of a word


def is_alone(character):
    """Whether a character is a word of its own: signs and ideographs."""
    code = ord(character)
    sign = unicodedata.category(character)[0] == "P" or (33 <= code < 127 and not character.isalnum())
    return sign or any(first <= code <= last for first, last in IDEOGRAPHS)


def words(text):
    kept = []
    for character in text:
        kind = unicodedata.category(character)
        if character in "\t\n\r" or kind == "Zs":
            kept.append(" ")
        elif kind[0] != "C" and character != "\ufffd":
            kept.append(f" {character} " if is_alone(character) else character)
    plain = unicodedata.normalize("NFD", "".join(kept))
    plain = "".join(character for character in plain if unicodedata.category(character) != "Mn").lower()
    return "".join(f" {character} " if is_alone(character) else character for character in plain).split()


class Tokenizer:
    """Tokens of texts; the vocabulary is a file with one in each line, "##" before what continues a word."""

    def __init__(self, file, longest):
        with open(file, encoding="utf-8") as lines:
            self.ids = {line.rstrip("\n"): i for i, line in enumerate(lines)}
        self.longest = longest

    def pieces(self, word):
        """The longest piece that the word begins with, then of the rest, and so on."""
        found, at = [], 0
        while at < len(word):
            ends = range(len(word), at, -1)
            names = (("##" if at else "") + word[at:end] for end in ends)
            end, name = next(((e, n) for e, n in zip(ends, names) if n in self.ids), (0, None))
            if name is None or len(word) > LONGEST:
                return [self.ids["[UNK]"]]
            found.append(self.ids[name])
            at = end
        return found

    def encode(self, text):
        tokens = [piece for word in words(text) for piece in self.pieces(word)]
        return [self.ids["[CLS]"], *tokens[: self.longest - 2], self.ids["[SEP]"]]
