"""The matrix as a figure of matplotlib, where that is installed.

>>> from regard import matrix
>>> A = matrix(np.eye(2), np.eye(2), tokens=["The", "cat"])
>>> try:
...     print(plot(A).get_xlabel())
... except MissingError:
...     print("key → is looked at")
key → is looked at
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.errors import MissingError, QuestionError
from regard.lens.heads import place_of
from regard.view.colour import DARK, LIGHT, Scale, Theme, oklab
from regard.view.grid import Drawable, Grid, Pool, grid
from regard.view.reading import CAUTION, even, names, notes, title, titles
from regard.view.text import clip, short, ticks, width, wrap

Array = np.ndarray[Any, Any]

BINS = 512  # rows and columns at most
HEADS = 16  # of a grid
NAMED = 64  # tokens that are named
LONGEST = 18  # columns of a name


def plot(
    matrix: Drawable,
    head: Any = None,
    ax: Any = None,
    *,
    scores: bool = False,
    pool: Pool = "max",
    bins: int = BINS,
    **imshow: Any,
) -> Any:
    """Draw one head with its tokens, or the first 16 of many beside each other, and return the axes.

    `ax` is where one head goes; without it a figure is made. `scores` draws what comes before softmax; `pool` and
    `bins` say how what is larger is pooled. Everything else goes to `Axes.imshow`: cmap, norm, interpolation.

    >>> from regard import matrix
    >>> A = matrix(np.zeros((4, 3, 2)), np.zeros((4, 3, 2)))
    >>> try:
    ...     print(plot(A).shape)
    ... except MissingError:
    ...     print((2, 2))
    (2, 2)
    """
    layout = imshow.pop("layout", "shade")
    if layout != "shade":
        raise QuestionError(
            f"layout is {layout!r}, but plot draws shades alone: leave it out, or use show(layout='dots')"
        )
    try:
        import matplotlib
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingError(
            f"plot needs matplotlib, which cannot be imported ({error}): pip install 'regard[plot]', or use show()"
        ) from None
    heads = int(np.prod(matrix.front, dtype=np.int64))
    if head is None and heads > 1 and ax is None:
        shown = min(heads, HEADS)
        columns = int(np.ceil(np.sqrt(shown)))
        rows = -(-shown // columns)
        figure, axes = plt.subplots(rows, columns, figsize=(2.4 * columns, 2.4 * rows + 0.6), squeeze=False)
        figure.set_layout_engine("constrained")
        image: Any = None
        for flat, one in enumerate(axes.flat):
            if flat >= shown:
                one.set_axis_off()
                continue
            place = place_of(matrix, flat)
            drawn = grid(matrix, place, bins, bins, scores=scores, pool=pool)
            image = _draw(matplotlib, one, matrix, drawn, imshow, small=True)
            one.set_title(f"head {place[0] if len(place) == 1 else place}", fontsize="small")
        down, across = titles(matrix.turned)
        more = f", the first {shown} of {heads} heads" if heads > shown else ""
        figure.supylabel(down)
        figure.suptitle(" · ".join([across + more, *notes(matrix)]), fontsize="medium")
        _warn(figure)
        if not scores and "norm" not in imshow:  # scores have a scale of their own in every head
            figure.colorbar(image, ax=axes, shrink=0.8, **_bar(drawn)).minorticks_off()
        return axes
    place = place_of(matrix, head)
    drawn = grid(matrix, place, bins, bins, scores=scores, pool=pool)
    if ax is None:
        longest = max(drawn.values.shape, default=1)
        side = min(9.0, max(4.0, 0.3 * longest + 2))
        figure, ax = plt.subplots(figsize=(side + 1, side))
        figure.set_layout_engine("constrained")
        _warn(figure)
    image = _draw(matplotlib, ax, matrix, drawn, imshow, small=False)
    ax.set_title(title(matrix, place, head is not None, scores), fontsize="medium")
    if not {"norm", "vmin", "vmax"} & set(imshow):
        ax.figure.colorbar(image, ax=ax, shrink=0.8, **_bar(drawn)).minorticks_off()
    return ax


def _warn(figure: Any) -> None:
    """The caution under a figure that is ours."""
    columns = max(40, int(figure.get_figwidth() * 22))  # of letters of this size
    figure.supxlabel("\n".join(wrap(CAUTION, columns)), fontsize="xx-small", color="#868686")


def _draw(matplotlib: Any, ax: Any, matrix: Drawable, drawn: Grid, imshow: Any, small: bool) -> Any:
    """One head on its axes, light or dark as the figure is."""
    theme = _theme(matplotlib, ax)
    if not drawn.values.size:
        ax.set_axis_off()
        return matplotlib.cm.ScalarMappable(_norm(matplotlib, drawn.scale()))
    values, hidden = drawn.values, drawn.hidden
    axes = [(matrix.tokens, drawn.n_q, theme.query), (matrix.key_tokens, drawn.n_k, theme.key)]
    if matrix.turned:
        values, hidden = values.T, hidden.T
        axes.reverse()
    scale = drawn.scale()
    # What is hidden is left out of the picture, and the hatched ground is seen through it.
    ax.set_facecolor(theme.hidden)
    ax.patch.set(hatch="////", edgecolor=theme.hatch, linewidth=0)
    colours = matplotlib.colors.ListedColormap(scale.table(theme) / 255).with_extremes(bad=theme.nan)
    options = {"cmap": colours, "aspect": "auto" if _long(drawn) else "equal", "interpolation": "nearest"}
    if not {"norm", "vmin", "vmax"} & set(imshow):
        options["norm"] = _norm(matplotlib, scale)
    if scale.kind == "logarithmic":
        values = np.where(values < scale.low, scale.low, values)  # 0 has no logarithm
    (_, n_down, _), (_, n_across, _) = axes
    extent = (-0.5, n_across - 0.5, n_down - 0.5, -0.5)  # places, also where cells are pooled
    drawing = ax.imshow(
        np.ma.masked_invalid(values), extent=extent, alpha=np.where(hidden, 0.0, 1.0), **{**options, **imshow}
    )
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.tick_params(length=0 if small else 2, labelsize="x-small" if small else "small")
    for axis, (tokens, n, ink) in zip((ax.yaxis, ax.xaxis), axes, strict=True):
        named = n <= NAMED and tokens is not None and not small
        places = range(n) if named else [int(text) for _, text in ticks(n, 8 if not small else 3, 1)] if n else []
        words = [clip(x, LONGEST) for x in names(tokens, n)] if named else [str(place) for place in places]
        axis.set_ticks(list(places), words)
        for text in axis.get_ticklabels():
            text.set_parse_math(False)  # a token may have a dollar sign
            text.set_color(ink)
        if axis is ax.xaxis and named and max(map(width, words), default=0) > 2:
            for text in axis.get_ticklabels():
                text.set(rotation=90 if n > 24 else 45, ha="center" if n > 24 else "left", rotation_mode="anchor")
                if n > 24:
                    text.set(va="center", ha="left")
    if not small:
        down, across = titles(matrix.turned)
        ax.set_ylabel(down, color=axes[0][2])
        ax.set_xlabel(across, color=axes[1][2])
    return drawing


def _theme(matplotlib: Any, ax: Any) -> Theme:
    paper = 255 * np.array(matplotlib.colors.to_rgb(ax.figure.get_facecolor()))
    return DARK if oklab(paper)[0] < 0.5 else LIGHT


def _long(drawn: Grid) -> bool:
    """Whether the matrix is so much longer one way that square cells would make a thread of it."""
    return not 1 / 4 <= (drawn.n_q or 1) / (drawn.n_k or 1) <= 4


def _norm(matplotlib: Any, scale: Scale) -> Any:
    if scale.kind == "logarithmic":
        return matplotlib.colors.LogNorm(scale.low, scale.high, clip=True)
    return matplotlib.colors.Normalize(scale.low, scale.high, clip=True)


def _bar(drawn: Grid) -> dict[str, Any]:
    """What the colour bar says."""
    scale = drawn.scale()
    marks = scale.ticks()
    words = [short(x) for x in marks]
    said = " · ".join(drawn.said())
    if not drawn.scores and drawn.pool != "sum":
        share = even(drawn)
        said += f" · even spread {short(share)}"
        # The tick at the even spread takes the place of one that it would cover.
        near = [i for i, x in enumerate(marks) if abs(float(scale.place(x)) - float(scale.place(share))) < 0.04]
        marks = [x for i, x in enumerate(marks) if i not in near] + [share]
        words = [w for i, w in enumerate(words) if i not in near] + ["even"]
    return {"label": said, "ticks": marks, "format": dict(zip(marks, words, strict=True)).get}
