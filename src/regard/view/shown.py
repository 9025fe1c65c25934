"""How a matrix shows itself: what draws is imported only when something is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TextIO

if TYPE_CHECKING:
    from regard.view.grid import Drawable, Pool


class Shown:
    """A matrix that can be looked at."""

    def show(
        self: Drawable,
        head: Any = None,
        *,
        file: TextIO | None = None,
        width: int | None = None,
        height: int | None = None,
        colour: bool | str | int | None = None,
        layout: Literal["shade", "dots"] = "shade",
        row: int | str | None = None,
        scores: bool = False,
        pool: Pool = "max",
    ) -> None:
        """Draw one head in the terminal, with tokens on both axes; see `regard.view.terminal.show`."""
        from regard.view.terminal import show

        show(
            self,
            head,
            file=file,
            width=width,
            height=height,
            colour=colour,
            layout=layout,
            row=row,
            scores=scores,
            pool=pool,
        )

    def plot(self: Drawable, head: Any = None, ax: Any = None, **options: Any) -> Any:
        """Draw one head, or a grid of them, with matplotlib, and return the axes; see `regard.view.plot.plot`."""
        from regard.view.plot import plot

        return plot(self, head, ax, **options)

    def _repr_html_(self: Drawable) -> str:
        """A picture for notebooks; see `regard.view.picture.html`."""
        from regard.view.picture import html

        return html(self)
