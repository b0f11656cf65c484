"""Drawings of molecules from SMILES, as images that can run nothing."""

from __future__ import annotations

import base64
from functools import lru_cache

WIDTH, HEIGHT = 160, 110


@lru_cache(maxsize=2_000)
def drawing(smiles: str) -> str | None:
    """The molecule as a data address of an SVG image; None if it cannot be drawn.

    An image inside an `img` element neither runs scripts nor loads anything, whatever it contains.
    """
    try:
        from rdkit import Chem, RDLogger
        from rdkit.Chem.Draw import rdMolDraw2D
    except ImportError:
        return None
    RDLogger.DisableLog("rdApp.*")  # type: ignore[attr-defined]
    molecule = Chem.MolFromSmiles(smiles)
    if molecule is None or not molecule.GetNumAtoms():
        return None
    canvas = rdMolDraw2D.MolDraw2DSVG(WIDTH, HEIGHT)
    rdMolDraw2D.PrepareAndDrawMolecule(canvas, molecule)
    canvas.FinishDrawing()
    return f"data:image/svg+xml;base64,{base64.b64encode(canvas.GetDrawingText().encode()).decode()}"
