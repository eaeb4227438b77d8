"""Layers and steps of training."""

from .. import family, integers

case = family("layers")

for kind in ("RNN", "GRU", "LSTM"):
    for batch in (1, 32):
        before = {
            "ours": f"""
layer = nn.{kind}(256, 256)
states = lambda x: layer(x)[0] if {kind == "LSTM"} else layer(x)
slopes = nn.value_and_grad(layer, lambda x: states(x).sum())
mx.eval(layer)
""",
            "PyTorch": f"""
layer = torch.nn.{kind}(256, 256, batch_first=True)
def train(x):
    with torch.enable_grad():
        return torch.autograd.grad(layer(x)[0].sum(), layer.parameters())
""",
        }
        x, rest = {"x": (batch, 64, 256)}, {"jax": None, "numpy": None, "before": before, "tolerance": None}
        case(f"{kind} of {batch} x 64 x 256", x, ours="states(x)", torch="layer(x)[0]", **rest)
        case(f"{kind} of {batch} x 64 x 256, gradients", x, ours="slopes(x)", torch="train(x)", **rest)
case("multi-head attention, 8 x 128 x 512", {"x": (8, 128, 512)}, ours="layer(x, x, x)",
     torch="layer(x, x, x, need_weights=False)[0]", jax=None, numpy=None, tolerance=None,
     before={"ours": "layer = nn.MultiHeadAttention(512, 8); mx.eval(layer)",
             "PyTorch": "layer = torch.nn.MultiheadAttention(512, 8, bias=False, batch_first=True)"})  # fmt: skip
case("bilinear upsampling by 2, (8,56,56,64)", {"x": (8, 56, 56, 64)}, ours="layer(x)",
     torch="F.interpolate(z, scale_factor=2, mode='bilinear')", jax=None, numpy=None, moved=20 * 8 * 56 * 56 * 64,
     before={"ours": "layer = nn.Upsample(2, mode='linear')", "PyTorch": "z = x.permute(0, 3, 1, 2).contiguous()"},
     tolerance=None)  # fmt: skip
case("max of 2 x 2, (8,112,112,64)", {"x": (8, 112, 112, 64)}, ours="layer(x)", torch="F.max_pool2d(z, 2)", jax=None,
     numpy=None, before={"ours": "layer = nn.MaxPool2d(2)", "PyTorch": "z = x.permute(0, 3, 1, 2).contiguous()"},
     moved=5 * 8 * 112 * 112 * 64)  # fmt: skip
case("cross entropy and back, 512 x 32,000", {"x": (512, 32000), "t": integers(32000, 512, "int64")},
     ours="mx.value_and_grad(lambda x: nn.losses.cross_entropy(x, t, reduction='mean'))(x)", torch="back(x)",
     jax=None, numpy=None, moved=8 * 512 * 32000,
     before={"PyTorch": """
def back(x):
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        y = F.cross_entropy(x, t)
        return y, torch.autograd.grad(y, x)
"""})  # fmt: skip
case("AdamW over 100 arrays of 65,536, compiled", {"x": (256, 256)}, ours="step()", torch="step()", jax=None,
     numpy=None, moved=28 * 100 * 65536, tolerance=None,
     before={"ours": """
parameters = {str(i): x + i for i in range(100)}
optimizer = optim.AdamW(1e-3)
optimizer.init(parameters)
state = [parameters, optimizer.state]
update = mx.compile(lambda g: parameters.update(optimizer.apply_gradients(g, parameters)), inputs=state, outputs=state)
gradients = {k: x + 1e-3 * i for i, k in enumerate(parameters)}
mx.eval(state, gradients)
def step():
    update(gradients)
    return state
""", "PyTorch": """
parameters = [torch.nn.Parameter(x + i) for i in range(100)]
for p in parameters:
    p.grad = x.clone()
optimizer = torch.optim.AdamW(parameters, 1e-3, fused=True)
def step():
    optimizer.step()
"""})  # fmt: skip
MIXER = {
    "ours": """
class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.across, self.along = nn.Sequential(nn.Linear(196, 256), nn.GELU(), nn.Linear(256, 196)), nn.Sequential(
            nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512))
        self.first, self.second = nn.LayerNorm(512), nn.LayerNorm(512)
    def __call__(self, x):
        x = x + self.across(self.first(x).swapaxes(1, 2)).swapaxes(1, 2)
        return x + self.along(self.second(x))
layer = Mixer()
mx.eval(layer)
run = mx.compile(layer)
""",
    "PyTorch": """
across = torch.nn.Sequential(torch.nn.Linear(196, 256), torch.nn.GELU(), torch.nn.Linear(256, 196))
along = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512))
first, second = torch.nn.LayerNorm(512), torch.nn.LayerNorm(512)
def run(x):
    x = x + across(first(x).transpose(1, 2)).transpose(1, 2)
    return x + along(second(x))
""",
}
case("MLP-mixer block, 4 x 196 x 512", {"x": (4, 196, 512)}, ours="run(x)", torch="run(x)", jax=None, numpy=None,
     before=MIXER, tolerance=None)  # fmt: skip
