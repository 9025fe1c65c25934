"""Questions about A, in the words of the subject. `A.ask(Entropy(), Top(5), …)` answers many from one pass."""

from regard.lens.ask import over
from regard.lens.columns import Between, ByDistance, Distance, Heatmap, Received
from regard.lens.compare import Comparison
from regard.lens.question import Block, Layout, Question, put
from regard.lens.rollout import rollout
from regard.lens.rows import Effective, Entropy, Peak, Top, Total, Visible
from regard.lens.single import Cells, Mass
from regard.lens.texts import Sentence, repeated, sentences

__all__ = [
    "Between",
    "Block",
    "ByDistance",
    "Cells",
    "Comparison",
    "Distance",
    "Effective",
    "Entropy",
    "Heatmap",
    "Layout",
    "Mass",
    "Peak",
    "Question",
    "Received",
    "Sentence",
    "Top",
    "Total",
    "Visible",
    "over",
    "put",
    "repeated",
    "rollout",
    "sentences",
]
