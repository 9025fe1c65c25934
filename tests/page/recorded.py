"""What the page shows in its tests: a sentence and a longer text as the model reads them, and a planted bright cell."""

from __future__ import annotations

from pathlib import Path

from regard.models.encoder import Encoder
from regard.recording import recording
from regard.recording.planted import plant

SENTENCE = "The cat chased mice"
TURNED = "Mice chased the cat"  # the same words
STORY = (
    "The old miller had a mill by the river and a cat in the mill. Every night the cat chased mice among the sacks of "
    "flour, and every morning the miller counted the mice that she had caught. One night no mouse came. The cat waited "
    "by the door until the moon was gone, and when the miller woke she was still there, her eyes on the dark gap under "
    "the floor. He lifted a board. Below it lay a nest of torn paper, and in the nest slept seven mice, none of them "
    "larger than a thumbnail. The miller put the board back, unhurriedly, and gave the cat a bowl of milk."
)
LONG = 8192  # tokens of the planted recording
BRIGHT = (1, 1)  # the layer and head of its bright cell


def read_by_model(place: Path, *texts: str, warmth: float = 1.0) -> Path:
    """A recording of what the model makes of texts, with values; its scores divided by a warmth."""
    model = Encoder.open()
    named = {"name": model.name, "layers": model.layers, "heads": model.heads, "d_model": model.d_model}
    with recording(place, model=named, values=True, sync=False) as recorder:
        for text in texts:
            tokens = model.tokens(text)
            recorder.text(text, tokens.names, tokens.offsets, tokens.special)
            model(tokens.ids, each=lambda _, q, k, v, mask, lse: recorder.layer(q[0] / warmth, k[0], v[0], mask=mask))
    return place


def planted(place: Path, tokens: int = LONG) -> Path:
    """A recording with one single bright cell."""
    plant(place, tokens, sync=False)
    return place
