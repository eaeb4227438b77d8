"""Programs from PyPI that are written for the `mlx` package, each made small and run with the same random weights
wherever this runs: what they compute, as arrays by name."""

import itertools
import pathlib
import tempfile

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from architectures import COMMON, digest, filled
from mlx.optimizers import AdamW
from mlx.utils import tree_flatten

EDGES = [[0, 1, 2, 3, 4, 5, 1], [1, 2, 3, 4, 5, 0, 4]]


def normal(*shape, seed=0):
    return mx.array(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def weights(model):
    return mx.concatenate([w.reshape(-1) for _, w in sorted(tree_flatten(model.trainable_parameters()))])


def gradient(model, f):
    """The value, and all derivatives by the model's weights."""
    value, grads = nn.value_and_grad(model, f)(model)
    return mx.concatenate([value.reshape(1), *(g.reshape(-1) for _, g in sorted(tree_flatten(grads)))])


def mlx_lm():
    """Ways to generate and to fine-tune, with random numbers of the same seed."""
    from mlx_lm.generate import generate_step, speculative_generate_step
    from mlx_lm.models import qwen2
    from mlx_lm.sample_utils import make_logits_processors, make_sampler
    from mlx_lm.tuner import TrainingArgs, linear_to_lora_layers, train
    from mlx_lm.tuner.callbacks import TrainingCallback

    def made():
        mx.random.seed(0)
        return filled(qwen2.Model(qwen2.ModelArgs.from_dict({**COMMON, "model_type": "qwen2", "hidden_size": 128})))

    model, draft, found = made(), made(), {}
    prompt = mx.array([5, 17, 42, 3, 28, 60])

    def keep(name, steps):
        mx.random.seed(11)
        steps = list(steps)
        found[f"{name}, tokens"] = mx.array([step[0] for step in steps])
        found[f"{name}, log p"] = mx.stack([step[1][step[0]] for step in steps])

    for name, sampled in {
        "temperature": {"temp": 0.8},
        "top_p": {"temp": 1.0, "top_p": 0.7},
        "min_p": {"temp": 1.0, "min_p": 0.1},
        "top_k": {"temp": 1.0, "top_k": 8},
        "xtc": {"temp": 1.0, "xtc_probability": 0.5, "xtc_threshold": 0.05},
    }.items():
        keep(name, generate_step(prompt, model, max_tokens=24, sampler=make_sampler(**sampled)))
    for name, more in {
        "greedy": {},
        "penalty": {"logits_processors": make_logits_processors({3: 2.0}, 1.3, 8)},
        "rotating cache": {"max_kv_size": 12},
        "quantized cache": {"kv_bits": 8, "kv_group_size": 32},
        "prompt in parts": {"prefill_step_size": 2},
    }.items():
        keep(name, generate_step(prompt, model, max_tokens=24, **more))
    keep("speculative", speculative_generate_step(prompt, model, draft, max_tokens=24))

    rng = np.random.default_rng(0)
    data = [(rng.integers(0, 96, 20).tolist(), 0) for _ in range(16)]
    for dora, packed in itertools.product((False, True), (False, True)):
        np.random.seed(0)
        model, losses = made(), []
        if packed:
            nn.quantize(model, 32, 4)
        model.freeze()
        linear_to_lora_layers(model, 2, {"rank": 4, "scale": 10.0, "dropout": 0.1}, use_dora=dora)
        report = TrainingCallback()
        report.on_train_loss_report = lambda info, losses=losses: losses.append(info["train_loss"])
        report.on_val_loss_report = lambda info, losses=losses: losses.append(info["val_loss"])
        sizes = {"batch_size": 4, "iters": 8, "val_batches": 2, "max_seq_length": 32}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "adapters.safetensors"
            how = TrainingArgs(**sizes, steps_per_report=2, steps_per_eval=4, adapter_file=file)
            train(model, AdamW(1e-3), data, data, how, training_callback=report)
        name = ("DoRA" if dora else "LoRA") + (" of 4 bits" if packed else "")
        found[f"{name}, losses"] = mx.array(losses)
        found[f"{name}, weights"] = weights(model)
    return found


def mlx_optimizers():
    import mlx_optimizers as optim

    x, y = normal(32, 8), normal(32, 4, seed=1)
    found = {}
    for name in ("ADOPT", "DiffGrad", "Kron", "Lamb", "MADGRAD", "MARS", "Muon", "QHAdam", "Shampoo"):
        mx.random.seed(5)
        model = filled(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)))
        more = {"memory_save_mode": "all_diag"} if name == "Kron" else {}
        optimizer = getattr(optim, name)(learning_rate=1e-3, **more)
        step = nn.value_and_grad(model, lambda x, y, model=model: nn.losses.mse_loss(model(x), y))
        for _ in range(8):
            optimizer.update(model, step(x, y)[1])
            mx.eval(model.parameters(), optimizer.state)
        found[name] = weights(model)
    return found


def mlx_snn():
    import mlxsnn

    found, x = {}, 0.8 * normal(6, 4, 8)
    for name in ("Leaky", "RLeaky", "Synaptic", "RSynaptic", "Alpha", "ALIF", "IF", "Izhikevich"):
        for surrogate in ("fast_sigmoid", "arctan", "sigmoid", "triangular", "straight_through"):

            def loss(model, name=name, surrogate=surrogate):
                neuron = getattr(mlxsnn, name)(surrogate_fn=surrogate)
                state, spikes = neuron.init_state(4, 8), []
                for t in range(6):
                    spike, state = neuron(3 * model(x[t]), state)
                    spikes.append(spike)
                return mx.square(mx.stack(spikes).mean(0) - 0.3).sum()

            found[f"{name} {surrogate}"] = gradient(filled(nn.Linear(8, 8)), loss)
    layer = filled(mlxsnn.SpikingConv2d(2, 3, 3, padding=1))
    state = layer.init_state(1, (6, 6))
    for _ in range(3):
        found["conv"], state = layer(2 * normal(1, 6, 6, 2), state)
    return found


def mlx_image():
    from mlxim.model import create_model

    found = {}
    for name in ("mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "regnet_x_400mf"):
        mx.random.seed(0)
        found[name] = filled(create_model(name, weights=False, num_classes=10))(normal(1, 64, 64, 3))
    return found


def e3nn_mlx():
    import e3nn_mlx as e3nn

    o3, found = e3nn.o3, {}
    x = normal(5, 3)
    found["harmonics"] = o3.spherical_harmonics([0, 1, 2, 3], x, normalize=True)
    found["wigner"] = mx.array(np.asarray(o3.wigner_3j(1, 2, 3)))
    mx.random.seed(0)
    tp = e3nn.FullyConnectedTensorProduct("4x0e + 2x1o", "1x0e + 1x1o + 1x2e", "3x0e + 2x1o")
    filled(tp)
    left, right = "4x0e + 2x1o", e3nn.IrrepsArray("1x0e + 1x1o + 1x2e", normal(5, 9, seed=1))

    def product(a):
        return tp(e3nn.IrrepsArray(left, a), right).array

    found["product"] = product(normal(5, 10))
    found["gradient"] = mx.grad(lambda a: mx.square(product(a)).sum())(normal(5, 10))
    found["linear"] = filled(e3nn.Linear(left, "3x0e + 1x1o"))(e3nn.IrrepsArray(left, normal(5, 10)))
    return {k: getattr(v, "array", v) for k, v in found.items()}


def mlx_graphs():
    from mlx_graphs import nn as gnn

    found, x, edges = {}, normal(6, 8), mx.array(EDGES)
    mlp = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    for name, layer in {
        "GCN": gnn.GCNConv(8, 4),
        "SAGE": gnn.SAGEConv(8, 4),
        "GAT": gnn.GATConv(8, 4, heads=2),
        "GATv2": gnn.GATv2Conv(8, 4, heads=2),
        "GIN": gnn.GINConv(mlp),
    }.items():
        filled(layer)
        found[name] = layer(edges, x)
        found[f"{name}, gradient"] = gradient(layer, lambda m: mx.square(m(edges, x)).mean())
    batch = mx.array([0, 0, 0, 1, 1, 1])
    for name in ("global_add_pool", "global_mean_pool", "global_max_pool"):
        found[name] = getattr(gnn, name)(x, batch)
    return found


def mlx_embeddings():
    from mlx_embeddings.models import bert, modernbert, xlm_roberta

    found, tokens = {}, mx.array([[2, 8, 3, 5, 9, 0], [2, 7, 7, 3, 0, 0]])
    mask = (tokens > 0).astype(mx.int32)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 48, "num_attention_heads": 4}
    sizes |= {"vocab_size": 50, "max_position_embeddings": 64}
    for module, more in (
        (bert, {"model_type": "bert", "type_vocab_size": 2}),
        (xlm_roberta, {"model_type": "xlm-roberta", "type_vocab_size": 1}),
        (modernbert, {"model_type": "modernbert", "local_attention": 4, "global_attn_every_n_layers": 2}),
    ):
        model = filled(module.Model(module.ModelArgs.from_dict({**sizes, **more})))
        found[more["model_type"]] = model(tokens, attention_mask=mask).text_embeds
    return found


def mlx_vlm():
    from mlx_vlm.models import qwen2_vl

    text = qwen2_vl.TextConfig.from_dict(
        {
            "model_type": "qwen2_vl",
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "intermediate_size": 96,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "rms_norm_eps": 1e-6,
            "vocab_size": 100,
            "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
        }
    )
    vision = qwen2_vl.VisionConfig.from_dict(
        {"model_type": "qwen2_vl", "depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 2}
    )
    config = qwen2_vl.ModelConfig(text, vision, "qwen2_vl", image_token_id=90, video_token_id=91)
    config.vision_start_token_id = 92
    model = filled(qwen2_vl.Model(config))
    tokens = mx.array([[3, 92, *[90] * 4, 5, 6]])
    pixels = normal(16, 3 * 2 * 14 * 14)
    out = model(tokens, pixels, mask=None, image_grid_thw=mx.array([[1, 4, 4]]))
    return {"image and text": out.logits}


def mlx_audio():
    from mlx_audio import dsp
    from mlx_audio.codec.models.encodec import Encodec, EncodecConfig
    from mlx_audio.codec.models.snac import SNAC
    from mlx_audio.stt.models.whisper import whisper

    found, audio = {}, normal(1, 1, 4096)
    found["stft"] = mx.abs(dsp.stft(audio[0, 0], n_fft=256, hop_length=64))
    found["mel"] = dsp.mel_filters(16000, 256, 20)
    mx.random.seed(0)
    snac = filled(
        SNAC(
            sampling_rate=24000,
            encoder_dim=8,
            encoder_rates=[2, 4],
            decoder_dim=32,
            decoder_rates=[4, 2],
            attn_window_size=None,
            codebook_size=32,
            codebook_dim=4,
            vq_strides=[2, 1],
            noise=False,
            depthwise=True,
        )
    )
    codes = snac.encode(audio)
    found["snac, codes"] = mx.concatenate(codes, axis=1)
    found["snac"] = snac.decode(codes)
    encodec = filled(
        Encodec(
            EncodecConfig(
                audio_channels=1,
                chunk_length_s=None,
                codebook_dim=16,
                codebook_size=32,
                compress=2,
                dilation_growth_rate=2,
                hidden_size=16,
                kernel_size=7,
                last_kernel_size=7,
                model_type="encodec",
                norm_type="weight_norm",
                normalize=False,
                num_filters=4,
                num_lstm_layers=2,
                num_residual_layers=1,
                overlap=None,
                pad_mode="reflect",
                residual_kernel_size=3,
                sampling_rate=24000,
                target_bandwidths=[60.0],
                trim_right_ratio=1.0,
                upsampling_ratios=[4, 2],
                use_causal_conv=True,
            )
        )
    )
    wave = audio.swapaxes(1, 2)
    codes, scales = encodec.encode(wave)
    found["encodec, codes"] = codes
    found["encodec"] = encodec.decode(codes, scales)
    dims = whisper.ModelDimensions(
        n_mels=16, n_audio_ctx=50, n_audio_state=32, n_audio_head=2, n_audio_layer=2,
        n_vocab=100, n_text_ctx=20, n_text_state=32, n_text_head=2, n_text_layer=2,
    )  # fmt: skip
    model = filled(whisper.Model(dims, mx.float32))
    found["whisper"] = model(normal(1, 100, 16), mx.array([[1, 5, 7, 9]]))
    return found


def vocos_mlx():
    from vocos_mlx.mel import log_mel_spectrogram
    from vocos_mlx.model import ISTFTHead, VocosBackbone

    mel = log_mel_spectrogram(normal(8000))
    backbone = filled(VocosBackbone(input_channels=mel.shape[-1], dim=32, intermediate_dim=64, num_layers=2))
    head = filled(ISTFTHead(dim=32, n_fft=256, hop_length=64))
    x = backbone(mel if mel.ndim == 3 else mel[None])
    return {"mel": mel, "backbone": x, "audio": head(x)}


def convlstm_mlx():
    from convlstm_mlx.conv_lstm import ConvLSTM

    model, x = filled(ConvLSTM(2, 4, 3)), normal(2, 3, 6, 6, 2)
    return {"states": model(x), "gradient": gradient(model, lambda m: mx.square(m(x)).mean())}


def mlx_stft():
    import mlx_stft

    found, x = {}, normal(2, 4096)
    for fft in (False, True):
        forward = mlx_stft.STFT(n_fft=256, hop_length=64, onesided=True, use_fft=fft)
        out = forward(x)
        for i, part in enumerate(out if isinstance(out, tuple) else (out,)):
            found[f"{fft} {i}"] = part
    return found


def mlx_scan():
    from mlx_scan import associative_scan

    def affine(p, q):
        return p[0] * q[0], q[0] * p[1] + q[1]

    a, b = 1 + 0.1 * normal(37, 4), normal(37, 4, seed=1)
    found = {}
    for algorithm in ("linear", "hillis_steele", "blelloch"):
        found[algorithm] = associative_scan(affine, (a, b), algorithm=algorithm)[1]
        found[f"{algorithm}, gradient"] = mx.grad(
            lambda a, algorithm=algorithm: associative_scan(affine, (a, b), algorithm=algorithm, reverse=True)[1].sum()
        )(a)
    return found


def mlx_vis():
    from mlx_vis import PaCMAP

    points = np.concatenate([normal(30, 8, seed=i) + 4 * i for i in range(3)])
    return {"PaCMAP": mx.array(np.asarray(PaCMAP(random_state=1).fit_transform(points)))}


def einops():
    import einops

    x, y = normal(2, 3, 4, 6), normal(6, 5, seed=1)
    return {
        "rearrange": einops.rearrange(x, "a b c (d e) -> (a e) b (c d)", e=2),
        "reduce": einops.reduce(x, "a b (c 2) d -> a c d b", "max"),
        "einsum": einops.einsum(x, y, "a b c d, d e -> a e c b"),
    }


def mlx_transformers():
    from mlx_transformers.models import BertModel, LlamaForCausalLM
    from transformers import BertConfig, LlamaConfig

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 48, "num_attention_heads": 4}
    tokens = mx.array([[2, 8, 3, 5, 9]])
    bert = filled(BertModel(BertConfig(vocab_size=50, **sizes)))
    llama = filled(LlamaForCausalLM(LlamaConfig(vocab_size=50, num_key_value_heads=2, **sizes)))
    return {
        "bert": bert(tokens, attention_mask=mx.ones_like(tokens)).last_hidden_state,
        "llama": llama(tokens).logits,
    }


def mlx3d():
    from mlx3d import losses, transforms

    p, q = normal(1, 40, 3), normal(1, 30, 3, seed=1)
    turn = transforms.axis_angle_to_matrix(normal(4, 3))
    return {
        "chamfer": losses.chamfer_distance(p, q)[0].reshape(1),
        "rotations": turn,
        "quaternions": transforms.matrix_to_quaternion(turn),
    }


def mlx_wigner():
    import mlx_wigner as w

    return {
        "3j": mx.array([float(w.wigner_3j(2, 1, k, 0, 0, 0)) for k in (1, 2, 3)]),
        "6j": mx.array([float(w.wigner_6j(1, 1, k, 1, 1, 1)) for k in (0, 1, 2)]),
    }


PROGRAMS = [
    mlx_lm,
    mlx_optimizers,
    mlx_snn,
    mlx_image,
    e3nn_mlx,
    mlx_graphs,
    mlx_embeddings,
    mlx_vlm,
    mlx_audio,
    vocos_mlx,
    convlstm_mlx,
    mlx_stft,
    mlx_scan,
    mlx_vis,
    mlx_transformers,
    mlx3d,
    mlx_wigner,
    einops,
]


def numbers(program):
    """What test_others.py compares: a digest of each result."""
    mx.random.seed(0)
    return {name: digest(x) for name, x in program().items()}
