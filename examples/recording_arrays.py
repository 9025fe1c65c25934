"""Arrays from anywhere, recorded: words that look for words of the same letters."""

import tempfile

import numpy as np

import regard

words = ["listen", "to", "the", "silent", "artist", "tinsel", "traits"]
letters = np.array([[word.count(letter) for letter in "aehilnorst"] for word in words], np.float32)
letters /= np.linalg.norm(letters, axis=1, keepdims=True)  # (words, letters), each of length 1
path = tempfile.mkdtemp(suffix=".regard")
with regard.recording(path, tokens=words, model="letters") as recorder:
    recorder.layer(letters, letters, name="any word", scale=8)
    recorder.layer(letters, letters, name="words so far", scale=8, mask=regard.causal)
rec = regard.open(path)
print(" and ".join(rec.layers))
rec["words so far"].show(row="tinsel")
