"""A model of transformers recorded while it runs, unchanged: which head is most telling, and what it looks at."""

import tempfile

from transformers import AutoModel, AutoTokenizer

import regard
from regard.lens.telling import telling
from regard.models.folder import installed

text = "The cat chased mice because it was hungry"
folder = installed()  # all-MiniLM-L6-v2 as scripts/setup installs it; any model that transformers knows will do
tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
given = tokenizer(text, return_tensors="pt")
with regard.recording(path := tempfile.mkdtemp(suffix=".regard"), text=text, tokens=given.tokens()):
    model(**given)
rec = regard.open(path)
first = telling([rec[layer] for layer in rec.layers]).heads[0]
print(f"{rec.layers[first.layer]}, head {first.head}: {first}")
rec[first.layer, first.head].show(row="hungry")
