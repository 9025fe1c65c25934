"""Plain torch: attention learns within seconds to tell the letter two places back, and then shows how it does that."""

import tempfile

import torch
from torch import nn

import regard

torch.manual_seed(0)
letter, place, look, tell = nn.Embedding(8, 32), nn.Embedding(12, 32), nn.MultiheadAttention(32, 1), nn.Linear(32, 8)
adam = torch.optim.Adam([p for part in (letter, place, look, tell) for p in part.parameters()], lr=0.01)
for _ in range(200):
    x = letter(ids := torch.randint(8, (12, 32))) + place.weight[:, None]  # (n, texts, width)
    adam.zero_grad()
    nn.functional.cross_entropy(tell(look(x, x, x)[0])[2:].flatten(0, 1), ids[:-2].flatten()).backward()
    adam.step()
with regard.recording(path := tempfile.mkdtemp(suffix=".regard"), tokens=["abcdefgh"[i] for i in ids[:, 0]]):
    look(x[:, 0], x[:, 0], x[:, 0])
regard.open(path)[0, 0].show(row=7)
